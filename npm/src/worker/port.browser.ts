// The worker's end of the channel to its pool, in browsers: the global scope of the worker itself.
//
// A web worker is ended from outside, so `exit` only closes it for good measure.

import type { WorkerPort } from './link.ts';

export interface WorkerChannel extends WorkerPort {
  open(listener: (message: any) => void): void;
  exit(code: number): void;
  /** Bytes; NaN where the platform does not tell. */
  heapUsed(): number;
}

interface WorkerScope {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  addEventListener(name: 'message', listener: (event: MessageEvent) => void): void;
  close?(): void;
}

export function workerChannel(): WorkerChannel {
  const scope = globalThis as unknown as WorkerScope;
  const isWorker = typeof Window === 'undefined' && typeof scope.postMessage === 'function';
  if (!isWorker) throw new Error('Script must be executed as a worker');
  return {
    kind: 'web',
    post: (message, transfer) => {
      if (transfer) scope.postMessage(message, transfer as Transferable[]);
      else scope.postMessage(message);
    },
    open: (listener) => scope.addEventListener('message', (event) => listener(event.data)),
    exit: () => scope.close?.(),
    heapUsed: () => (performance as { memory?: { usedJSHeapSize: number } }).memory?.usedJSHeapSize ?? NaN,
  };
}
