// The floor: a worker with nothing around it. A message is one task, or with `batched` a list of them.
// No pool can be faster with messages, since this one neither queues nor balances nor reports errors.

import { parentPort, workerData } from 'node:worker_threads';
import { methods } from './methods.mjs';

const moved = workerData.method === 'bumpMoved';
const method = methods[moved ? 'bump' : workerData.method];

function single([id, a, b]) {
  const value = method(a, b);
  parentPort.postMessage([id, value], moved ? [value.buffer] : undefined);
}

/** Ids and values in turn, in one flat list. */
function batched(calls) {
  const results = [];
  const transfer = [];
  for (let at = 0; at < calls.length; at += 3) {
    const value = method(calls[at + 1], calls[at + 2]);
    results.push(calls[at], value);
    if (moved) {
      transfer.push(value.buffer);
    }
  }
  parentPort.postMessage(results, transfer);
}

parentPort.on('message', workerData.batched ? batched : single);
