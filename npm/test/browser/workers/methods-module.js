// A worker script for the tests, as a module: it imports the package by its address, as a page without a bundler does.
// The methods are those of the classic script beside it, so that both must answer alike.

import { worker, workerEmit, Transfer } from '/millpond/worker.js';

let calls = 0;

worker({
  add: (a, b) => a + b,
  fail: () => {
    throw new RangeError('as told');
  },
  spin: () => {
    for (;;);
  },
  count: () => (calls += 1),
  tell: (steps) => {
    for (let step = 1; step <= steps; step += 1) workerEmit({ step });
    return 'told';
  },
  double: (buffer) => {
    const bytes = new Uint8Array(buffer).map((byte) => byte * 2);
    return new Transfer(bytes.buffer, [bytes.buffer]);
  },
  isolated: () => self.crossOriginIsolated,
});
