// The options of a pool and of a call, as types: workerpool's own, with ours added.
//
// Workerpool's part is written down here because types are what its users compile against; ours comes from options.ts,
// where it is also checked. What workerpool accepts without a word (unknown keys, other strings) stays accepted.

import type { CallOptions, FeatureOptions } from './options.ts';
import type { TaskQueue } from './queue.ts';

/** What a worker is made from; a hook may return some of them to change them for one worker. */
export interface WorkerArg {
  forkArgs?: readonly string[];
  forkOpts?: any;
  workerOpts?: any;
  workerThreadOpts?: any;
  script?: string | null;
}

export type WorkerType = 'auto' | 'web' | 'process' | 'thread';

/** Workerpool's options. */
export interface WorkerPoolOptions {
  /** Workers that are started at once and replaced when they crash; 'max' is as many as maxWorkers. */
  minWorkers?: number | 'max';
  /** Default: the number of CPUs less one, at least one. */
  maxWorkers?: number;
  /** Tasks that may wait; one more makes exec throw. Default Infinity. */
  maxQueueSize?: number;
  workerType?: WorkerType;
  /** @deprecated the old name of workerType */
  nodeWorker?: WorkerType;
  queueStrategy?: 'fifo' | 'lifo' | TaskQueue<any>;
  /** How long a worker may clean up before it is killed, ms. Default 1000. */
  workerTerminateTimeout?: number;
  /** Arguments of child processes. */
  forkArgs?: readonly string[];
  /** Options of child_process.fork. */
  forkOpts?: any;
  /** Options of a web Worker. */
  workerOpts?: any;
  /** Options of worker_threads.Worker. */
  workerThreadOpts?: any;
  /** Whether what a worker prints arrives as events of its task. */
  emitStdStreams?: boolean;
  /** First --inspect port of child processes. */
  debugPortStart?: number;
  onCreateWorker?: (arg: WorkerArg) => WorkerArg | undefined | null | void;
  onTerminateWorker?: (arg: WorkerArg) => unknown;
}

export interface PoolOptions extends WorkerPoolOptions, FeatureOptions {}

export interface ExecOptions<M = any> extends CallOptions {
  /** Hears what the task emits while it runs. */
  on?: (payload: any) => unknown;
  /** What is handed over to the worker instead of copied; child processes copy. */
  transfer?: readonly any[];
  /** Anything, for a queue of one's own. */
  metadata?: M;
}

export interface WorkerRegisterOptions {
  /** Runs in the worker before it ends. */
  onTerminate?: (code: number | undefined) => PromiseLike<unknown> | void;
  /** How long abort listeners may take, ms. Default 1000. */
  abortListenerTimeout?: number;
}
