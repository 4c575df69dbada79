// poolifier's worker: the one method this run is about is its only task function, and so its default.
// It cannot send a result by transfer, so `bumpMoved` comes back as a copy.

import { ThreadWorker } from 'poolifier';
import { workerData } from 'node:worker_threads';
import { methods } from './methods.mjs';

const method = methods[workerData.method === 'bumpMoved' ? 'bump' : workerData.method];

export default new ThreadWorker(
  { [workerData.method]: ({ a, b }) => method(a, b) },
  { maxInactiveTime: 60_000 },
);
