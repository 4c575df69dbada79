// How a web Worker is started, and given the few methods that the workers of Node have.
//
// Used by the browser build, and by runtimes with a global Worker. A web worker has no exit event: once terminate() has
// been called nothing more is heard of it, so the handle treats it as gone at once.

import { guardOptions, WORKER_OPTION_NAMES } from './option-guard.ts';
import type { RawWorker, SpawnOptions } from './spawn.ts';

export function spawnWeb(script: string, options: SpawnOptions): RawWorker {
  if (typeof Worker !== 'function') throw new Error('WorkerPool: Web Workers not supported');
  guardOptions(options.workerOpts, WORKER_OPTION_NAMES, 'workerOpts');
  const worker = new Worker(script, options.workerOpts) as Worker & RawWorker;
  worker.isBrowserWorker = true;
  worker.on = (event: string, callback: (value: any) => void) => {
    const take = (happened: Event): void => callback(event === 'message' ? (happened as MessageEvent).data : happened);
    worker.addEventListener(event, take);
    return worker;
  };
  worker.send = (message: unknown, transfer?: readonly Transferable[]) => {
    if (transfer) worker.postMessage(message, transfer as Transferable[]);
    else worker.postMessage(message);
  };
  return worker;
}
