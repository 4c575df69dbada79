// piscina's and tinypool's worker: one exported function per method, each with one argument.
// Both take the same form; `move` marks what goes back by transfer, and is each library's own.

import { methods } from './methods.mjs';

export const add = ({ a, b }) => methods.add(a, b);
export const echo = ({ a }) => methods.echo(a);
export const bump = ({ a }) => methods.bump(a);
export const grind = ({ a, b }) => methods.grind(a, b);
export const whoami = ({ a }) => methods.whoami(a);
