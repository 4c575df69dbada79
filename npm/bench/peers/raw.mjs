// The floor: workers spoken to by bare postMessage, in turn. With `batched`, all that one turn of the event loop
// asks for goes to one worker as one message. Nothing is queued, balanced, cancelled or restarted.

import { Worker } from 'node:worker_threads';

const script = new URL('../workers/raw.mjs', import.meta.url);

export async function open({ workers, method, tuning: { batched = false } }) {
  const team = Array.from({ length: workers }, () => new Worker(script, { workerData: { method, batched } }));
  const waiting = new Map();
  const settle = (id, value) => {
    const resolve = waiting.get(id);
    waiting.delete(id);
    resolve(value);
  };
  for (const worker of team) {
    worker.on('message', batched ? (list) => settleAll(list, settle) : ([id, value]) => settle(id, value));
  }
  return (batched ? callerInBatches : callerOneByOne)(team, waiting);
}

function settleAll(list, settle) {
  for (let at = 0; at < list.length; at += 2) {
    settle(list[at], list[at + 1]);
  }
}

function callerOneByOne(team, waiting) {
  let lastId = 0;
  return (a, b, transfer) => new Promise((resolve) => {
    const id = (lastId += 1);
    waiting.set(id, resolve);
    team[id % team.length].postMessage([id, a, b], transfer);
  });
}

function callerInBatches(team, waiting) {
  let lastId = 0;
  let turn = 0;
  let batch = [];
  let moved = [];
  const flush = () => {
    const share = 3 * Math.ceil(batch.length / 3 / team.length);
    for (let at = 0; at < batch.length; at += share) {
      // One worker gets all that is moved: with a list that is split, each buffer must go with its own task.
      const part = batch.slice(at, at + share);
      const transfer = moved.length > 0 ? part.filter(ArrayBuffer.isView).map((view) => view.buffer) : moved;
      team[(turn += 1) % team.length].postMessage(part, transfer);
    }
    batch = [];
    moved = [];
  };
  return (a, b, transfer) => new Promise((resolve) => {
    const id = (lastId += 1);
    waiting.set(id, resolve);
    if (batch.length === 0) {
      // Behind the callbacks that are already on their way, so that what they ask for is in the same batch.
      queueMicrotask(flush);
    }
    batch.push(id, a, b);
    if (transfer) {
      moved.push(...transfer);
    }
  });
}
