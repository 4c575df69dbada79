// Where a pool lets others decide: admission, choice of worker, stealing, and who watches.
//
// The pool itself does what workerpool does. Everything beyond that plugs in here, each part behind a field that is
// null when nobody asked for it, so that plain use pays one comparison. All calls are synchronous and none may throw,
// except `Admission.full`, whose error is thrown by exec.

import type { Task } from './task.ts';
import type { WorkerHandle } from './workers/handle.ts';

/** How a task ended; every accepted task ends in exactly one of them. */
export type Outcome = 'done' | 'failed' | 'cancelled' | 'timed-out' | 'dropped' | 'crashed' | 'terminated';

export type RemovalReason = 'terminated' | 'crashed' | 'recycled' | 'idle';

export interface PoolStats {
  totalWorkers: number;
  busyWorkers: number;
  idleWorkers: number;
  pendingTasks: number;
  activeTasks: number;
}

/** What the parts may ask of the pool, and do to it. */
export interface PoolCore {
  readonly workers: readonly WorkerHandle[];
  readonly minWorkers: number | undefined;
  readonly maxWorkers: number;
  readonly maxQueueSize: number;
  /** Up to how many workers exec makes by itself; never above maxWorkers. */
  growLimit: number;
  readonly aheadCount: number;
  readonly hooks: PoolHooks;
  /** Waiting tasks: in the queue, bound to workers, and ahead in workers. */
  pending(): number;
  stats(): PoolStats;
  /** Takes a task past admission. */
  submit(task: Task): void;
  /** Takes the oldest waiting task out whose priority is at most this; the caller ends it. */
  dropOldest(priorityMost: number): Task | undefined;
  /** Makes workers, at most up to maxWorkers; how many were made. */
  addWorkers(count: number): number;
  /** Ends workers that have been idle for so long, never below minWorkers or one; how many. */
  retireIdle(count: number, idleForMs: number): number;
  /** Gives a worker nothing more, ends it after its running task, and replaces it where one is needed. */
  recycle(handle: WorkerHandle): void;
  emit(event: string, detail: unknown): void;
}

/** Asked only when as many tasks wait as may. */
export interface Admission {
  /** 'queue': take it all the same. 'handled': the module ends it, or submits it later. */
  full(task: Task, pool: PoolCore): 'queue' | 'handled';
  /** How many tasks the module holds back. */
  readonly waiting: number;
  /** A task has left the queue while some are held back. */
  room(pool: PoolCore): void;
  /** The pool is terminated: what is held back is to be rejected. */
  terminated(error: Error): void;
}

/** Binds each task to one worker. */
export interface Router {
  /** The worker for the task out of those that take tasks; undefined leaves it to the shared queue. */
  choose(task: Task, workers: readonly WorkerHandle[]): WorkerHandle | undefined;
  /** Whether an idle worker may have a task that is bound to another. */
  mayMove(task: Task, to: WorkerHandle): boolean;
  added(handle: WorkerHandle): void;
  removed(handle: WorkerHandle): void;
  completed(handle: WorkerHandle, runMs: number): void;
}

export interface StealPolicy {
  readonly enabled: boolean;
  /** How many of a victim's unstarted tasks an idle worker takes. */
  count(unstarted: number, victim: number): number;
  /** All of them had started by the time they were asked for. */
  cameBackEmpty?(): void;
}

export interface Observer {
  /** Whether the pool is to stamp submittedAt, startedAt and runMs. */
  readonly clocks: boolean;
  submitted(task: Task): void;
  /** A worker has answered a task, and has not been given the next one. */
  answered(handle: WorkerHandle): void;
  /** Just before the promise settles. */
  settled(task: Task, outcome: Outcome, handle: WorkerHandle | null, valueOrError: unknown): void;
  workerAdded(handle: WorkerHandle): void;
  workerRemoved(handle: WorkerHandle, reason: RemovalReason): void;
  stolen(count: number, from: WorkerHandle, to: WorkerHandle): void;
}

export interface PoolHooks {
  admission: Admission | null;
  router: Router | null;
  steal: StealPolicy | null;
  observer: Observer | null;
  /** Whether no worker may hold more than the task it runs. */
  readonly oneAtATime?: boolean;
  /** The pool was terminated: no timer may be left. */
  dispose(): void;
  /** The first task after that. */
  restart(): void;
}
