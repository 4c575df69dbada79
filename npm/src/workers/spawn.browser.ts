// How workers are started in browsers: web workers only, whatever the option says, except that what can only be had in
// Node is an error and not a surprise.
//
// A pool without a script starts the worker that the package carries as a text, through a Blob. A page whose policy
// forbids that (worker-src without blob:) must give a script of its own.

import { defaultWorkerSource } from '../embedded.node.ts';
import { spawnWeb } from './spawn-web.ts';
import type { RawWorker, SpawnOptions } from './spawn.ts';

let blobUrl: string | undefined;

export function workerKind(_workerType: string): 'thread' | 'process' | 'web' {
  return 'web';
}

export function defaultScript(): string {
  if (blobUrl !== undefined) return blobUrl;
  if (typeof Blob === 'undefined') throw new Error('Blob not supported by the browser');
  if (typeof URL === 'undefined' || typeof URL.createObjectURL !== 'function') {
    throw new Error('URL.createObjectURL not supported by the browser');
  }
  // One for all pools of the page, kept: a worker may be started at any time.
  blobUrl = URL.createObjectURL(new Blob([defaultWorkerSource()], { type: 'text/javascript' }));
  return blobUrl;
}

export function spawnWorker(script: string, options: SpawnOptions): RawWorker {
  if (options.workerType === 'thread') {
    throw new Error("WorkerPool: workerType = 'thread' is not supported, Node >= 11.7.0 required");
  }
  if (options.workerType === 'process') {
    throw new Error("WorkerPool: workerType = 'process' is not supported in browsers; use 'auto' or 'web'");
  }
  return spawnWeb(script, options);
}
