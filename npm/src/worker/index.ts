// What a worker script imports: `millpond/worker`, without the pool's half.
//
// The same functions as from `millpond` itself; a worker that imports them from here starts with less to load.

export { platform, isMainThread, cpus } from '../environment.node.ts';
export type { WorkerRegisterOptions } from '../pool-options.ts';
export { Transfer } from '../transfer.ts';
export { traceparent, worker, workerEmit } from './register.ts';
