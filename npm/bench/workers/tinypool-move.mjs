// A buffer that goes back by transfer, as tinypool does it.
// A file of its own, so that the other methods load nothing but themselves.

import { Tinypool } from 'tinypool';
import { methods } from './methods.mjs';

export const bumpMoved = ({ a }) => Tinypool.move(methods.bump(a));
