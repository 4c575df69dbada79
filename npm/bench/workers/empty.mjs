// A worker that does nothing but stay: what any pool's worker costs at least in memory and in time to start.
// It says once that it runs.

import { parentPort, threadId } from 'node:worker_threads';

parentPort.on('message', () => {});
parentPort.postMessage(threadId);
