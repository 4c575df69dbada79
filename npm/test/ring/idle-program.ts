// A program that leaves a link open and idle: it must end by itself (`wake.test.ts`).
//
// The worker is let go, since a worker thread keeps its process alive whatever link it has.

import { LinkedWorker } from './linked-worker.ts';

const worker = new LinkedWorker();
console.log(await worker.call('add', [1, 2]));
worker.worker.unref();
