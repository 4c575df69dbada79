// The worker's end of the channel to its pool, in Node: a thread's parent port or a child's channel.
//
// Nothing listens before `open` is called, so that messages wait (threads) and a script's own listeners are not
// disturbed until the script registers. A child whose parent has died ends as well: its channel is closed.

import { parentPort } from 'node:worker_threads';
import type { WorkerPort } from './link.ts';

export interface WorkerChannel extends WorkerPort {
  open(listener: (message: any) => void): void;
  exit(code: number): void;
  /** Bytes; NaN where the platform does not tell. */
  heapUsed(): number;
}

export function workerChannel(): WorkerChannel {
  const exit = (code: number): void => void process.exit(code);
  const heapUsed = (): number => process.memoryUsage().heapUsed;
  if (parentPort !== null) {
    const port = parentPort;
    return {
      kind: 'thread',
      post: (message, transfer) => port.postMessage(message, transfer as never),
      open: (listener) => void port.on('message', listener),
      exit,
      heapUsed,
    };
  }
  if (typeof process.send !== 'function') throw new Error('Script must be executed as a worker');
  return {
    kind: 'process',
    // A process copies everything; a list of what to hand over means nothing here.
    post: (message) => void process.send?.(message),
    open: (listener) => {
      // The parent died while this script was loading: nobody will ever ask for anything.
      if (!process.connected) process.exit(1);
      process.on('message', listener);
      process.on('disconnect', () => process.exit(1));
    },
    exit,
    heapUsed,
  };
}
