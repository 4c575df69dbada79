// How poolifier is called: a fixed pool, or a dynamic one that may shrink to one worker less than it has.
// Events are off and statistics as its defaults have them; what else is tuned stands in `src/peers.mjs`.

import { DynamicThreadPool, FixedThreadPool } from 'poolifier';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('../workers/poolifier.mjs', import.meta.url));

export async function open({ workers, method, tuning: { dynamic, ...tuning } }) {
  const options = { enableEvents: false, workerOptions: { workerData: { method } }, ...tuning };
  const pool = dynamic
    ? new DynamicThreadPool(workers - 1, workers, script, options)
    : new FixedThreadPool(workers, script, options);
  return (a, b, transfer) => pool.execute({ a, b }, undefined, undefined, transfer);
}
