// What `workers/piscina.mjs` has, and a buffer that goes back by transfer, as piscina does it.
// A file of its own, so that tinypool's workers need not load piscina.

import { move } from 'piscina';
import { methods } from './methods.mjs';

export const bumpMoved = ({ a }) => move(methods.bump(a));
