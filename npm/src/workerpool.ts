// The drop-in face: the nine exports of workerpool 10, and nothing else, so that one changed import is all it takes.
//
// There is a default export as well, because `import workerpool from 'workerpool'` works for a CommonJS package.

import { cpus, isMainThread, platform } from './environment.node.ts';
import { TerminateError } from './errors.ts';
import { Pool } from './pool.ts';
import type { Proxy } from './pool.ts';
import type { PoolOptions, WorkerRegisterOptions } from './pool-options.ts';
import { Promise } from './promise.ts';
import { Transfer } from './transfer.ts';
import { worker, workerEmit } from './worker/register.ts';

export type { Pool, Proxy, WorkerRegisterOptions };
export type WorkerPoolOptions = PoolOptions;

/** Makes a pool; the script may be left out, and the options come first then. */
export function pool(script?: string | URL | WorkerPoolOptions | null, options?: WorkerPoolOptions): Pool {
  return new Pool(script, options);
}

export { worker, workerEmit, Promise, Transfer, platform, isMainThread, cpus, TerminateError };

export default { pool, worker, workerEmit, Promise, Transfer, platform, isMainThread, cpus, TerminateError };
