// How workerpool is called: threads, all started beforehand. It has nothing that would make small tasks faster.
// Its promise is its own; its `then` is called directly, as its users do.

import workerpool from 'workerpool';

const script = new URL('../workers/workerpool.mjs', import.meta.url);

export async function open({ workers, method }) {
  const options = { minWorkers: workers, maxWorkers: workers, workerType: 'thread' };
  const pool = workerpool.pool(script.pathname, options);
  return (a, b, transfer) => pool.exec(method, [a, b], transfer && { transfer });
}
