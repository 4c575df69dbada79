// The pool as its users see it: workerpool's Pool, with what millpond adds.
//
// Checks and texts of exec, the fields, and the order in which things happen are workerpool's: a worker is made inside
// exec; the next task leaves before the callbacks of the last one run; a worker that is gone has left `workers` before
// the tasks it took along are rejected; after terminate() the pool can be used again.
//
// close() is ours: it refuses new tasks until all accepted ones have ended, then it terminates. So after it, too, the
// pool can be used again.
//
// Not here: who gets what (`dispatch.ts`), one worker (`workers/handle.ts`), what is beyond workerpool (`hooks.ts`).

import { execBatch } from './batch.ts';
import type { BatchCall, BatchMethod, BatchOptions } from './batch.ts';
import { Dispatch } from './dispatch.ts';
import type { DispatchHost } from './dispatch.ts';
import { cpus } from './environment.node.ts';
import { PoolEvents } from './events.ts';
import type { Listener, PoolEventMap } from './events.ts';
import { attachFeatures } from './features.ts';
import type { FeatureHooks } from './features.ts';
import type { Outcome, PoolStats } from './hooks.ts';
import type { Link, LinkPort } from './links/link.ts';
import { checkTransport, openLink } from './links/open.ts';
import type { PoolMetrics } from './metrics.ts';
import { sourceOf } from './offload.ts';
import { checkCallOptions } from './options.ts';
import type { ExecOptions, PoolOptions, WorkerArg, WorkerType } from './pool-options.ts';
import type { Labels } from './prometheus.ts';
import { Promise, REJECTED, RESOLVED } from './promise.ts';
import type { Resolver, Settled } from './promise.ts';
import { createQueue, FIFOQueue } from './queue.ts';
import type { TaskQueue } from './queue.ts';
import { bindSignal } from './signal.ts';
import type { StrategyOption } from './strategy.ts';
import { stream } from './stream.ts';
import type { StreamOptions, TaskStream } from './stream.ts';
import { Task } from './task.ts';
import type { TaskHost } from './task.ts';
import { releaseDebugPort, takeDebugPort } from './workers/debug-ports.ts';
import { WorkerHandle } from './workers/handle.ts';
import type { HandleHost } from './workers/handle.ts';
import { defaultScript, workerKind } from './workers/spawn.node.ts';

/** Workers in a row that may die before they did anything and still be replaced at once, at least. */
const STILLBORN_MAX = 16;

/** One function per method of a worker. */
export type Proxy<T extends Record<string, (...args: any[]) => any>> = {
  [M in keyof T]: (...args: Parameters<T[M]>) => Promise<Awaited<ReturnType<T[M]>>>;
};

export class Pool implements DispatchHost, HandleHost, TaskHost {
  readonly script: string | null;
  readonly workers: WorkerHandle[] = [];
  readonly taskQueue: TaskQueue;
  readonly forkArgs: readonly string[];
  readonly forkOpts: any;
  readonly workerOpts: any;
  readonly workerThreadOpts: any;
  readonly debugPortStart: number;
  /** @deprecated the old name of workerType */
  readonly nodeWorker: WorkerType | undefined;
  readonly workerType: WorkerType;
  readonly maxQueueSize: number;
  readonly workerTerminateTimeout: number;
  readonly onCreateWorker: (arg: WorkerArg) => WorkerArg | undefined | null | void;
  readonly onTerminateWorker: (arg: WorkerArg) => unknown;
  readonly emitStdStreams: boolean;
  readonly minWorkers: number | undefined;
  readonly maxWorkers: number;
  growLimit: number;
  hooks: FeatureHooks;
  /** @internal Counts the tasks that wait inside workers. */
  readonly level: { ahead: number };
  private readonly dispatch: Dispatch;
  private readonly transport: 'auto' | 'messages' | 'shared';
  private listeners: PoolEvents | null = null;
  private serial = 0;
  private workerSerial = 0;
  private disposed = false;
  /** While close() waits for the end of what was accepted. */
  private closing: Resolver<void> | null = null;
  private closeTimeout: number | undefined = undefined;
  /** Batches that may still submit calls. */
  private batches = 0;
  /** Workers in a row that died before they did anything. */
  private stillborn = 0;

  constructor(script?: string | URL | PoolOptions | null, options?: PoolOptions) {
    const named = typeof script === 'string' || isUrl(script);
    this.script = named ? String(script) || null : null;
    const given: PoolOptions = (named ? options : (script as PoolOptions)) || {};
    const order = given.queueStrategy || 'fifo';
    this.taskQueue = createQueue(order);
    // A queue that was handed in is not ours, even if its class is: others may use it as well.
    const isOurs = typeof order === 'string';
    this.level = isOurs && this.taskQueue instanceof FIFOQueue ? this.taskQueue : { ahead: 0 };
    this.dispatch = new Dispatch(this, this.taskQueue, isOurs);
    this.forkArgs = Object.freeze(given.forkArgs || []);
    this.forkOpts = Object.freeze(given.forkOpts || {});
    this.workerOpts = Object.freeze(given.workerOpts || {});
    this.workerThreadOpts = Object.freeze(given.workerThreadOpts || {});
    this.debugPortStart = given.debugPortStart || 43210;
    this.nodeWorker = given.nodeWorker;
    this.workerType = given.workerType || given.nodeWorker || 'auto';
    this.maxQueueSize = given.maxQueueSize || Infinity;
    this.workerTerminateTimeout = given.workerTerminateTimeout || 1000;
    this.onCreateWorker = given.onCreateWorker || (() => null);
    this.onTerminateWorker = given.onTerminateWorker || (() => null);
    this.emitStdStreams = given.emitStdStreams || false;
    // The rings are WebAssembly as well.
    this.transport = given.useWasm === false && given.transport !== 'shared' ? 'messages' : (given.transport ?? 'auto');
    this.maxWorkers = 'maxWorkers' in given ? maxWorkersOf(given.maxWorkers) : Math.max((cpus || 4) - 1, 1);
    if ('minWorkers' in given) {
      this.minWorkers = given.minWorkers === 'max' ? this.maxWorkers : minWorkersOf(given.minWorkers);
      this.maxWorkers = Math.max(this.minWorkers, this.maxWorkers);
    }
    this.growLimit = this.maxWorkers;
    this.hooks = attachFeatures(this, given);
    this.growLimit = Math.min(this.growLimit, this.maxWorkers);
    if (this.transport === 'shared') checkTransport(workerKind(this.workerType), given.useWasm !== false);
    this.beginWithMinWorkers();
  }

  // Workerpool's methods ----------------------------------------------------------------------------------------

  /** Runs a method of the worker, or a function that is sent to it, with the given arguments. */
  exec<T extends (...args: any[]) => any>(
    method: string | T, params?: Parameters<T> | null, options?: ExecOptions,
  ): Promise<Awaited<ReturnType<T>>> {
    if (this.closing !== null) throw closingError();
    return this.call(method, params, options);
  }

  /** An object with one function per method of the worker. */
  proxy<T extends Record<string, (...args: any[]) => any> = Record<string, (...args: any[]) => any>>(
    ...args: never[]
  ): Promise<Proxy<T>> {
    if (args.length > 0) throw new Error('No arguments expected');
    return this.exec<() => string[]>('methods').then((methods) => {
      const proxy: Record<string, (...args: any[]) => Promise> = {};
      for (const method of methods) proxy[method] = (...params) => this.exec(method, params);
      return proxy as Proxy<T>;
    });
  }

  stats(): PoolStats {
    let busyWorkers = 0;
    for (const handle of this.workers) if (handle.busy()) busyWorkers += 1;
    const totalWorkers = this.workers.length;
    return {
      totalWorkers,
      busyWorkers,
      idleWorkers: totalWorkers - busyWorkers,
      pendingTasks: this.pending(),
      activeTasks: busyWorkers,
    };
  }

  /** Ends all workers: after their running tasks, or (force) at once. What waits is rejected. */
  terminate(force?: boolean, timeout?: number): Promise<void> {
    const error = new Error('Pool terminated');
    const { closing } = this;
    this.closing = null;
    this.disposed = true;
    this.stillborn = 0;
    this.hooks.dispose();
    for (const task of this.dispatch.drain()) task.end('terminated', REJECTED, error);
    this.hooks.admission?.terminated(error);
    const endings = this.workers.slice().map((handle) => handle.terminateAndNotify(force, timeout));
    const ended = Promise.all(endings).then(() => {});
    if (closing !== null) ended.then(closing.resolve, closing.reject);
    return ended;
  }

  // Beyond workerpool -------------------------------------------------------------------------------------------

  /**
   * Waits until all accepted tasks have ended, then terminates; `timeout` as for terminate. Until that is done exec
   * throws, and another close() joins the first. Afterwards the pool can be used again. terminate() cuts it short.
   */
  close(timeout?: number): Promise<void> {
    const closing = (this.closing ??= Promise.defer<void>());
    this.closeTimeout = timeout;
    this.checkEmpty();
    return closing.promise;
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.close();
  }

  /** Many calls as one: all results in the order of the calls. */
  execBatch(method: BatchMethod, paramsList: readonly (readonly unknown[])[], options?: BatchOptions): Promise<any[]>;
  execBatch(calls: readonly BatchCall[], options?: BatchOptions): Promise<any[]>;
  execBatch(
    calls: readonly BatchCall[] | BatchMethod, paramsOrOptions?: readonly (readonly unknown[])[] | BatchOptions,
    options?: BatchOptions,
  ): Promise<any[]> {
    if (this.closing !== null) throw closingError();
    // A batch was accepted as a whole: close() waits for the calls that it has not submitted yet.
    const exec = (method: any, params: any, own?: ExecOptions): Promise => this.call(method, params, own);
    const { maxQueueSize, maxWorkers } = this;
    this.batches += 1;
    let batch: Promise<any[]>;
    try {
      batch = execBatch({ exec, maxQueueSize, maxWorkers }, calls, paramsOrOptions, options);
    } catch (error) {
      this.batches -= 1;
      throw error;
    }
    batch.always(() => {
      this.batches -= 1;
      this.checkEmpty();
    });
    return batch;
  }

  /** What a task emits, as an async iterator; its result is the iterator's return value. */
  stream<Payload = any, Result = any>(
    method: BatchMethod, params?: readonly unknown[] | null, options?: StreamOptions,
  ): TaskStream<Payload, Result> {
    return stream<Payload, Result>(this, method, params, options);
  }

  metrics(): PoolMetrics {
    return this.hooks.metrics.snapshot();
  }

  /** The metrics as a page that Prometheus reads; `labels` go on every line. */
  metricsPrometheus(labels?: Labels): string {
    return this.hooks.metrics.prometheus(labels);
  }

  /** Changes how workers are chosen, while tasks run; undefined goes back to workerpool's way. */
  setWorkerChoiceStrategy(strategy: StrategyOption | undefined): void {
    this.hooks.setStrategy(strategy);
  }

  on<Name extends keyof PoolEventMap>(name: Name, listener: Listener<PoolEventMap[Name]>): this {
    this.events.on(name, listener);
    return this;
  }

  once<Name extends keyof PoolEventMap>(name: Name, listener: Listener<PoolEventMap[Name]>): this {
    this.events.once(name, listener);
    return this;
  }

  off<Name extends keyof PoolEventMap>(name: Name, listener: Listener<PoolEventMap[Name]>): this {
    this.events.off(name, listener);
    return this;
  }

  // PoolCore, for the modules that plug in ----------------------------------------------------------------------

  pending(): number {
    return this.dispatch.pending();
  }

  get aheadCount(): number {
    return this.level.ahead;
  }

  submit(task: Task): void {
    this.dispatch.submit(task);
  }

  dropOldest(priorityMost: number): Task | undefined {
    return this.dispatch.dropOldest(priorityMost);
  }

  addWorkers(count: number): number {
    const made = Math.max(0, Math.min(count, this.maxWorkers - this.workers.length));
    for (let left = made; left > 0; left--) this.dispatch.feed(this.createWorker());
    return made;
  }

  retireIdle(count: number, idleForMs: number): number {
    const least = Math.max(this.minWorkers ?? 0, 1);
    const since = performance.now() - idleForMs;
    const idle = this.workers.filter((handle) => handle.open && !handle.busy() && handle.backlog === 0);
    const open = this.workers.filter((handle) => handle.open).length;
    const most = Math.max(0, Math.min(count, open - least));
    const leaving = idle.filter((handle) => handle.lastTaskAt <= since).slice(0, most);
    for (const handle of leaving) this.retire(handle, 'idle');
    return leaving.length;
  }

  recycle(handle: WorkerHandle): void {
    if (handle.open && !this.disposed) this.retire(handle, 'recycled');
  }

  emit(event: string, detail: unknown): void {
    this.listeners?.emit(event as never, detail as never);
  }

  /** Where listeners are kept; made when the first one comes. */
  get events(): PoolEvents {
    return (this.listeners ??= new PoolEvents());
  }

  // DispatchHost, HandleHost, TaskHost: called by the parts -----------------------------------------------------

  /** @internal */
  createWorker(): WorkerHandle {
    const arg = { ...this.workerArg(), script: this.script };
    const changed: WorkerArg = this.onCreateWorker(arg) || {};
    const script = changed.script || this.script;
    const debugPort = workerKind(this.workerType) === 'process' ? takeDebugPort(this.debugPortStart) : undefined;
    const settings = {
      forkArgs: changed.forkArgs || this.forkArgs,
      forkOpts: changed.forkOpts || this.forkOpts,
      workerOpts: changed.workerOpts || this.workerOpts,
      workerThreadOpts: changed.workerThreadOpts || this.workerThreadOpts,
      workerType: this.workerType,
      workerTerminateTimeout: this.workerTerminateTimeout,
      emitStdStreams: this.emitStdStreams,
      isDefaultScript: !script,
      debugPort,
    };
    let handle: WorkerHandle;
    try {
      handle = new WorkerHandle(this, ++this.workerSerial, script || defaultScript(), settings);
    } catch (error) {
      releaseDebugPort(debugPort);
      throw error;
    }
    this.workers.push(handle);
    this.hooks.router?.added(handle);
    this.hooks.observer?.workerAdded(handle);
    if (this.listeners !== null) {
      this.listeners.emit('worker-created', { workerId: handle.id, totalWorkers: this.workers.length });
    }
    return handle;
  }

  /** @internal */
  openLink(handle: WorkerHandle, port: LinkPort, canShare: boolean): Link {
    // What a worker prints must arrive before its result, and only messages keep to that order.
    const transport = this.emitStdStreams && this.transport === 'auto' ? 'messages' : this.transport;
    return openLink(handle, port, canShare, transport);
  }

  /** @internal */
  finished(handle: WorkerHandle, task: Task, state: Settled, value: unknown): void {
    const { router, observer } = this.hooks;
    if (observer !== null && observer.clocks) {
      task.runMs = handle.lastRunMs;
      task.startedAt = performance.now() - task.runMs;
    }
    if (router !== null) router.completed(handle, handle.lastRunMs);
    if (observer !== null) observer.answered(handle);
    // A worker that has run dry goes on before anybody's callbacks run; others wait for the end of the batch.
    if (handle.given === 0) handle.idle();
    task.end(state === RESOLVED ? 'done' : 'failed', state, value);
    if (this.stillborn > 0) this.recovered();
  }

  /** @internal */
  free(handle: WorkerHandle): void {
    this.dispatch.feed(handle);
    if (this.closing !== null) this.checkEmpty();
  }

  /** @internal */
  putBack(tasks: readonly Task[]): void {
    const keyed: Task[] = [];
    for (let at = tasks.length - 1; at >= 0; at--) {
      const isRouted = this.hooks.router !== null && tasks[at].affinity !== undefined && tasks[at].live;
      if (isRouted) keyed.unshift(tasks[at]);
      else this.dispatch.putBack(tasks[at]);
    }
    // Tasks with a key stay together, wherever that is now.
    for (const task of keyed) this.dispatch.resubmit(task);
    this.dispatch.next();
  }

  /** @internal */
  discard(handle: WorkerHandle): void {
    // Closed first: what was bound to it must not be bound to it again.
    handle.terminate(true);
    this.dispatch.rebind(handle);
  }

  /** @internal */
  gone(handle: WorkerHandle, lost: readonly Task[], back: readonly Task[], error: Error): void {
    const at = this.workers.indexOf(handle);
    if (at >= 0) this.workers.splice(at, 1);
    this.hooks.router?.removed(handle);
    this.hooks.observer?.workerRemoved(handle, handle.reason);
    if (this.listeners !== null) {
      const { id: workerId, reason } = handle;
      this.listeners.emit('worker-exited', { workerId, totalWorkers: this.workers.length, reason });
    }
    this.tellTerminated(handle);
    this.replace(handle);
    // Before the callbacks: whoever terminates the pool in one of them means these tasks, too.
    this.dispatch.rebind(handle);
    this.putBack(back);
    for (const task of lost) task.end('crashed', REJECTED, error);
    if (this.closing !== null) this.checkEmpty();
  }

  /** @internal */
  ending(task: Task, outcome: Outcome, value: unknown): void {
    const { observer } = this.hooks;
    if (observer !== null) observer.settled(task, outcome, task.handle, value);
    // Later, when the task is out of everybody's hands.
    if (this.closing !== null) queueMicrotask(() => this.checkEmpty());
  }

  /** Semi-private in workerpool, and used: the first idle worker, or a new one, or null. */
  _getWorker(): WorkerHandle | null {
    return this.dispatch.idleOrNew();
  }

  // Inside ------------------------------------------------------------------------------------------------------

  private call(method: unknown, params: any[] | null | undefined, options: ExecOptions | undefined): Promise<any> {
    if (params && !Array.isArray(params)) throw new TypeError('Array expected as argument "params"');
    if (typeof method === 'string') return this.start(method, params, options, undefined);
    if (typeof method === 'function') return this.start('run', [sourceOf(method), params], options, method);
    throw new TypeError('Function or string expected as argument "method"');
  }

  private start(
    method: string, params: unknown[] | null | undefined, options: ExecOptions | undefined,
    original: Function | undefined,
  ): Promise<any> {
    if (options) checkCallOptions(options, this.hooks);
    const { admission } = this.hooks;
    const isFull = this.maxQueueSize !== Infinity && this.pending() >= this.maxQueueSize;
    if (isFull && admission === null) throw new Error(`Max queue size of ${this.maxQueueSize} reached`);
    const task = new Task(this, ++this.serial, method, params, options || undefined);
    task.original = original;
    if (this.disposed) this.restart();
    // An aborted task needs no room; any other is bound to its signal once it is accepted.
    const isAborted = options?.signal?.aborted === true;
    const isHandled = isFull && admission !== null && !isAborted && admission.full(task, this) === 'handled';
    if (options?.signal) bindSignal(task, options.signal);
    if (isHandled) return task.promise;
    const { observer } = this.hooks;
    if (observer !== null) {
      if (observer.clocks) task.submittedAt = performance.now();
      observer.submitted(task);
    }
    if (!task.live) return task.promise;
    try {
      this.dispatch.submit(task);
    } catch (error) {
      // No worker can be made. It was seen to begin, so it must be seen to end.
      task.end('failed', REJECTED, error);
      throw error;
    }
    return task.promise;
  }

  private restart(): void {
    this.disposed = false;
    this.hooks.restart();
  }

  private beginWithMinWorkers(): void {
    try {
      this.ensureMinWorkers();
    } catch (error) {
      // Nobody will ever have this pool: what it began must not keep the process alive.
      this.terminate(true);
      throw error;
    }
  }

  /** A worker that died is replaced at once, but not for ever if none of them ever does anything. */
  private replace(handle: WorkerHandle): void {
    const hasWorked = handle.completed + handle.failed > 0;
    if (handle.reason === 'crashed') this.stillborn = hasWorked ? 0 : this.stillborn + 1;
    if (this.disposed) return;
    const most = Math.max(STILLBORN_MAX, 2 * (this.minWorkers ?? 0));
    if (this.stillborn < most) this.ensureMinWorkersQuietly();
    else if (this.stillborn === most) {
      const message = `workers: ${most} in a row died before they did anything; minWorkers rests until one works`;
      this.emit('warning', { code: 'workers-die', message });
    }
  }

  /** A task was done, so workers can live. */
  private recovered(): void {
    this.stillborn = 0;
    if (!this.disposed) this.ensureMinWorkersQuietly();
  }

  private ensureMinWorkers(): void {
    for (let have = this.workers.length; have < (this.minWorkers ?? 0); have++) this.createWorker();
  }

  /** After a crash nobody can be told that a new worker could not be made; the next exec will be. */
  private ensureMinWorkersQuietly(): void {
    try {
      this.ensureMinWorkers();
    } catch (error) {
      this.emit('warning', { code: 'worker-not-made', message: `worker: could not be replaced: ${String(error)}` });
    }
  }

  private retire(handle: WorkerHandle, reason: 'idle' | 'recycled'): void {
    handle.reason = reason;
    const back = handle.takeBack(false);
    handle.terminate(false);
    this.dispatch.rebind(handle);
    this.putBack(back);
  }

  private workerArg(): WorkerArg {
    const { forkArgs, forkOpts, workerOpts, workerThreadOpts } = this;
    return { forkArgs, forkOpts, workerOpts, workerThreadOpts };
  }

  private tellTerminated(handle: WorkerHandle): void {
    const { forkArgs, forkOpts, workerThreadOpts, script } = handle;
    try {
      this.onTerminateWorker({ forkArgs, forkOpts, workerThreadOpts, script });
    } catch (error) {
      // It is the user's error: it must be seen, and must not keep the pool from going on.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** Ends close() when nothing is left to do. */
  private checkEmpty(): void {
    if (this.closing === null || this.batches > 0 || this.pending() > 0) return;
    if (this.workers.some((handle) => handle.given > 0) || (this.hooks.admission?.waiting ?? 0) > 0) return;
    this.terminate(false, this.closeTimeout);
  }
}

function closingError(): Error {
  return new Error('pool is closing: expected no more tasks after close(), got one; wait until close() has ended');
}

function isUrl(script: unknown): script is URL {
  return typeof URL === 'function' && script instanceof URL;
}

function maxWorkersOf(value: unknown): number {
  if (isInteger(value) && value >= 1) return value;
  throw new TypeError('Option maxWorkers must be an integer number >= 1');
}

function minWorkersOf(value: unknown): number {
  if (isInteger(value) && value >= 0) return value;
  throw new TypeError('Option minWorkers must be an integer number >= 0');
}

/** Workerpool's test, for which Infinity is an integer. */
function isInteger(value: unknown): value is number {
  return typeof value === 'number' && Math.round(value) === value;
}
