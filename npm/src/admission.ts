// What happens to a task when the queue is full: five policies, and the rules that keep each of them from hanging.
//
//   reject        exec throws a QueueFullError, as workerpool does for its maxQueueSize
//   drop-newest   the new task's promise rejects with a DroppedError
//   drop-oldest   the oldest waiting task of the lowest priority rejects with a DroppedError, the new one is queued
//   block         the new task waits outside of the queue for a place: so many at most, and for so long at most
//   caller-runs   the new task runs here, in the calling thread: a function as it is, a named method from the `methods`
//                 table of the option; tasks that submit tasks do so only four deep
//
// What is dropped is always told to its promise, to `onDrop` and as 'task-dropped'. 'back-pressure' is told once when
// the queue has become full and 'drain' when it is half empty again, so that a producer can use the pair to pause.
//
// Not here: the queue and its order, and which task is the oldest (the pool).

import type { Admission, PoolCore } from './hooks.ts';
import type { BackPressureSettings } from './options.ts';
import { Deque } from './queue.ts';
import type { Task } from './task.ts';
import { Transfer } from './transfer.ts';

/** How many tasks may be run on top of each other by callers: each takes its share of one stack. */
export const DEPTH_MAX = 4;

/** The task was not taken in. */
export class QueueFullError extends Error {
  readonly code = 'ERR_QUEUE_FULL';
  constructor(
    message: string, readonly policy: string, readonly queueSize: number, readonly maxQueueSize: number,
  ) {
    super(message);
  }
}
QueueFullError.prototype.name = 'QueueFullError';

/** The task was taken in and given up before it ran, to keep the queue within its limit. */
export class DroppedError extends Error {
  readonly code = 'ERR_TASK_DROPPED';
  constructor(
    message: string, readonly policy: string, readonly queueSize: number, readonly maxQueueSize: number,
  ) {
    super(message);
  }
}
DroppedError.prototype.name = 'DroppedError';

interface Waiter {
  readonly task: Task;
  readonly until: number;
}

export class BackPressure implements Admission {
  /** Times a task met a full queue. */
  events = 0;
  rejected = 0;
  callerRuns = 0;
  readonly policy: string;
  private readonly waiters = new Deque<Waiter>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private depth = 0;
  private isPressed = false;
  private isLettingIn = false;

  constructor(private readonly settings: BackPressureSettings, private readonly pool: PoolCore) {
    this.policy = settings.policy;
  }

  get waiting(): number {
    return this.waiters.length;
  }

  full(task: Task): 'queue' | 'handled' {
    // A signal may have ended it before it came here.
    if (!task.promise.pending) return 'queue';
    this.events += 1;
    this.press();
    switch (this.settings.policy) {
      case 'reject': return this.refuse('wait for the drain event or raise backPressure.maxQueueSize');
      case 'drop-newest': return this.accept(task).drop(task);
      case 'drop-oldest': return this.dropOldest(task);
      case 'block': return this.hold(task);
      case 'caller-runs': return this.runHere(task);
    }
  }

  /** A place may be free: those that have waited longest come in. */
  room(): void {
    // submit() dispatches, and that may bring us here again.
    if (this.isLettingIn) return;
    this.isLettingIn = true;
    try {
      while (this.waiters.length > 0 && this.pool.pending() < this.settings.maxQueueSize) {
        const { task } = this.waiters.shift() as Waiter;
        if (task.promise.pending) this.pool.submit(task);
      }
    } finally {
      this.isLettingIn = false;
    }
    this.watch();
  }

  /** A task has ended: tells when the queue is half empty again. */
  ended(): void {
    if (!this.isPressed || this.pool.pending() > this.settings.maxQueueSize / 2) return;
    this.isPressed = false;
    this.pool.emit('drain', { queueSize: this.pool.pending(), maxQueueSize: this.settings.maxQueueSize });
  }

  terminated(error: Error): void {
    for (let waiter = this.waiters.shift(); waiter !== undefined; waiter = this.waiters.shift()) {
      if (waiter.task.promise.pending) waiter.task.settleWith('terminated', error);
    }
    this.watch();
  }

  private press(): void {
    if (this.isPressed) return;
    this.isPressed = true;
    const { policy, maxQueueSize } = this.settings;
    this.pool.emit('back-pressure', { policy, queueSize: this.pool.pending(), maxQueueSize });
  }

  /** The pool counts only what goes to its queue; what is handled here is counted here, before it ends. */
  private accept(task: Task): this {
    const { observer } = this.pool.hooks;
    if (observer !== null) {
      if (observer.clocks) task.submittedAt = performance.now();
      observer.submitted(task);
    }
    return this;
  }

  private refuse(advice: string): never {
    throw this.error(advice);
  }

  private error(advice: string): QueueFullError {
    this.rejected += 1;
    const size = this.pool.pending();
    const { policy, maxQueueSize } = this.settings;
    const message = `queue is full: ${size} of ${maxQueueSize} waiting (policy ${policy}); ${advice}`;
    return new QueueFullError(message, policy, size, maxQueueSize);
  }

  private drop(task: Task): 'handled' {
    const size = this.pool.pending();
    const { policy, maxQueueSize, onDrop } = this.settings;
    const message = `task ${JSON.stringify(task.method)} dropped: ${size} of ${maxQueueSize} waiting `
      + `(policy ${policy}); submit less at a time or raise backPressure.maxQueueSize`;
    task.settleWith('dropped', new DroppedError(message, policy, size, maxQueueSize));
    const event = { policy, method: task.method, metadata: task.options?.metadata, queueSize: size, maxQueueSize };
    this.pool.emit('task-dropped', event);
    if (onDrop) {
      try {
        onDrop(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return 'handled';
  }

  /** A task is never pushed out by one that matters less: then the new one is what is dropped. */
  private dropOldest(task: Task): 'queue' | 'handled' {
    const oldest = this.pool.dropOldest(task.priority);
    if (oldest === undefined) return this.accept(task).drop(task);
    this.drop(oldest);
    return 'queue';
  }

  private hold(task: Task): 'handled' {
    const { maxWaiters, timeout } = this.settings;
    if (this.waiters.length >= maxWaiters) this.forgetSettled();
    if (this.waiters.length >= maxWaiters) {
      this.refuse(`${maxWaiters} of ${maxWaiters} calls wait for a place already; raise backPressure.maxWaiters`);
    }
    this.accept(task);
    this.waiters.push({ task, until: performance.now() + timeout });
    this.watch();
    return 'handled';
  }

  /** Those that were cancelled while they waited have no need of a place. */
  private forgetSettled(): void {
    for (let left = this.waiters.length; left > 0; left--) {
      const waiter = this.waiters.shift() as Waiter;
      if (waiter.task.promise.pending) this.waiters.push(waiter);
    }
  }

  /** All wait equally long, so the first to come is the first whose time is up: one timer is enough. */
  private watch(): void {
    if (this.waiters.length === 0) {
      clearTimeout(this.timer);
      this.timer = undefined;
    } else if (this.timer === undefined) {
      const first = this.waiters.at(0) as Waiter;
      this.timer = setTimeout(() => this.expire(), Math.max(0, first.until - performance.now()));
    }
  }

  private expire(): void {
    this.timer = undefined;
    const now = performance.now();
    for (let first = this.waiters.at(0); first !== undefined; first = this.waiters.at(0)) {
      // Timers may fire a little early; half a millisecond more or less is no reason to set another.
      if (first.until > now + 0.5) break;
      this.waiters.shift();
      if (!first.task.promise.pending) continue;
      const advice = `no place came free in ${this.settings.timeout} ms; raise backPressure.timeout or maxQueueSize`;
      first.task.settleWith('failed', this.error(advice));
    }
    this.watch();
  }

  private runHere(task: Task): 'handled' {
    if (this.depth >= DEPTH_MAX) {
      this.refuse(`tasks run on top of each other already ${this.depth} deep; submit less from inside of tasks`);
    }
    const params = task.original ? (task.params?.[1] as unknown[] | null | undefined) : task.params;
    const run = task.original ?? this.methodOf(task.method);
    this.accept(task);
    this.callerRuns += 1;
    this.depth += 1;
    try {
      settle(task, run.apply(contextOf(task), params ?? []));
    } catch (error) {
      task.settleWith('failed', error);
    } finally {
      this.depth -= 1;
    }
    return 'handled';
  }

  private methodOf(name: string): Function {
    const { methods } = this.settings;
    const method = methods && Object.hasOwn(methods, name) ? methods[name] : undefined;
    if (method === undefined) {
      this.refuse(`method ${JSON.stringify(name)} lives in the worker's script and cannot run in this thread; `
        + 'name it in backPressure.methods, or choose another policy');
    }
    return method;
  }
}

/** What `this` is inside a method, as far as that makes sense outside of a worker: nothing here can be aborted. */
function contextOf(task: Task): object {
  const emit = (payload: unknown): void => {
    task.options?.on?.(plain(payload));
  };
  return { worker: { addAbortListener: (): void => {}, emit, traceparent: task.traceparent } };
}

function settle(task: Task, value: unknown): void {
  const later = value as { then?: unknown; catch?: unknown } | null | undefined;
  if (later && typeof later.then === 'function' && typeof later.catch === 'function') {
    later.then(
      (result: unknown) => task.settleWith('done', plain(result)),
      (error: unknown) => task.settleWith('failed', error),
    );
  } else {
    task.settleWith('done', plain(value));
  }
}

function plain(value: unknown): unknown {
  return value instanceof Transfer ? value.message : value;
}
