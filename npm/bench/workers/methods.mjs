// What the workers do, one function per kind of task, the same for every peer.
// The sums are cheap to check and depend on both arguments, so that a peer which loses, doubles or mixes up tasks
// is found out. Peers differ in how arguments travel, so each worker file adapts these to its peer's custom.

import { threadId } from 'node:worker_threads';
import { grind } from './grind.mjs';

export const methods = {
  /** Two small numbers in, one out: nothing but the pool's own cost. */
  add: (a, b) => a + b,

  /** A string there and back. */
  echo: (text) => text,

  /** A buffer there and back; the first and the last byte tell that the worker had it in its hands. */
  bump(bytes) {
    bytes[0] += 1;
    bytes[bytes.length - 1] += 1;
    return bytes;
  },

  /** Work that takes about a millisecond of the processor, as many steps as the conductor found out. */
  grind: (seed, steps) => grind(seed, steps),

  /** Sleeps without the processor and says which thread it was, so that every worker can be made to take part. */
  whoami(sleepMs) {
    if (sleepMs > 0) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, sleepMs);
    }
    return threadId;
  },
};
