// Workers that do nothing: the floor of memory and of the time to start. A call asks nothing of them; it only waits
// until all of them run, and then answers with their thread numbers in turn.

import { Worker } from 'node:worker_threads';

const script = new URL('../workers/empty.mjs', import.meta.url);

export async function open({ workers }) {
  const team = Array.from({ length: workers }, () => new Worker(script));
  const running = Promise.all(team.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
  let turn = 0;
  return () => running.then((threadIds) => threadIds[(turn += 1) % threadIds.length]);
}
