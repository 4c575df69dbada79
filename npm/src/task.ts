// One call on its way: what is to be run, where it is just now, and how it ends.
//
// Every task has the same shape from the start (fields are never added later), because the pool touches a task five
// times on its way and each touch should cost one load. A user's own queue sees `method`, `params`, `resolver`,
// `timeout` and `options`, as in workerpool.
//
//   waiting (handle null, id 0)  ->  given (handle set)  ->  ended (promise settled)
//        ^------- taken back before it started ----'
//
// A task that is cancelled while it waits ends at once but stays in its queue until it is popped, as in workerpool.
//
// Time limits count from the start, which only the worker knows: a timer that fires asks, and waits for what is left.

import { CancellationError, TimeoutError } from './errors.ts';
import type { Outcome } from './hooks.ts';
import type { ExecOptions } from './pool-options.ts';
import { Promise, REJECTED, RESOLVED, TIMER_MS_MAX } from './promise.ts';
import type { PromiseOwner, Resolver, Settled } from './promise.ts';
import type { WorkerHandle } from './workers/handle.ts';

/** What a task needs of its pool. */
export interface TaskHost {
  /** The task is about to settle. */
  ending(task: Task, outcome: Outcome, value: unknown): void;
}

export class Task implements PromiseOwner {
  readonly method: string;
  params: unknown[] | null | undefined;
  readonly options: ExecOptions | undefined;
  /** The time limit in ms from the start, or null. */
  timeout: number | null;
  readonly promise: Promise<any>;
  /** Counts up in its pool. */
  readonly serial: number;
  readonly priority: number;
  readonly affinity: string | undefined;
  /** The worker it was given to, or is bound to; null in the shared queue. */
  handle: WorkerHandle | null = null;
  /** Its number at that worker; 0 while it has not been sent. */
  id = 0;
  /** How often a worker has died with it before it started. */
  returns = 0;
  submittedAt = 0;
  startedAt = 0;
  runMs = 0;
  /** The function that was offloaded, if it was one. */
  original: Function | undefined = undefined;
  /** The trace that the call belongs to, if any. */
  traceparent: string | undefined;
  /** It is being cancelled and must not be given to anybody any more. */
  aborted = false;
  /** For the modules that plug in. */
  data: any = undefined;
  private readonly host: TaskHost;
  private timer: ReturnType<typeof setTimeout> | undefined = undefined;
  private limit = 0;
  private armedAt = 0;
  private stuckSince = 0;

  constructor(
    host: TaskHost, serial: number, method: string, params: unknown[] | null | undefined,
    options: ExecOptions | undefined,
  ) {
    this.host = host;
    this.serial = serial;
    this.method = method;
    this.params = params;
    this.options = options;
    this.timeout = options?.timeout ?? null;
    this.priority = options?.priority ?? 0;
    this.affinity = options?.affinity;
    this.traceparent = options?.traceparent;
    this.promise = Promise.held(this);
  }

  /** Whether there is still something to run. */
  get live(): boolean {
    return !this.aborted && this.promise.pending;
  }

  /** What workerpool's tasks have: made only for a custom queue that asks for it. */
  get resolver(): Resolver {
    return {
      promise: this.promise,
      resolve: (value) => this.end('done', RESOLVED, value),
      reject: (error) => this.end('failed', REJECTED, error),
    };
  }

  /** Ends it, once. */
  end(outcome: Outcome, state: Settled, value: unknown): void {
    if (!this.promise.pending) return;
    if (this.timer !== undefined) this.stopTimer();
    this.host.ending(this, outcome, value);
    this.promise.settle(state, value);
  }

  /** Ends a task that the pool does not hold: dropped, or run by its caller. */
  settleWith(outcome: Outcome, valueOrError: unknown): void {
    this.end(outcome, outcome === 'done' ? RESOLVED : REJECTED, valueOrError);
  }

  /** Called by its promise. */
  cancel(): void {
    this.abort('cancelled', new CancellationError());
  }

  /** As cancel(), with a reason of the caller's own. */
  cancelWith(error: unknown): void {
    this.abort('cancelled', error);
  }

  /** Called by its promise: while it waits the last call holds, afterwards the shortest. */
  timeoutAfter(delay: number): void {
    if (!this.live) return;
    this.timeout = delay;
    if (this.handle !== null && this.handle.holds(this)) this.startTimer();
  }

  /** Starts to watch the time limit: the task has been given to a worker. */
  startTimer(): void {
    const limit = Number(this.timeout) || 0;
    const now = performance.now();
    if (this.timer !== undefined) {
      if (now + limit >= this.armedAt + this.limit) return;
      clearTimeout(this.timer);
    }
    this.limit = limit;
    this.armedAt = now;
    this.timer = setTimeout(onTimer, Math.min(limit, TIMER_MS_MAX), this);
  }

  /** It goes back to a queue: its time has not begun. */
  stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.stuckSince = 0;
  }

  /** @internal */
  timerFired(): void {
    this.timer = undefined;
    const handle = this.handle;
    if (!this.live || handle === null) return;
    const now = performance.now();
    const started = handle.startOf(this);
    const left = started === undefined
      ? this.patience(handle, now)
      : Math.max(started, this.armedAt) + this.limit - now;
    // Timers may fire up to a millisecond early; a limit that is met to within that is met.
    if (left >= 1) this.timer = setTimeout(onTimer, Math.min(left, TIMER_MS_MAX), this);
    else this.abort('timed-out', new TimeoutError(`Promise timed out after ${this.limit} ms`));
  }

  /**
   * How long to wait for a task that has not started. Behind another task: as long as it takes. First in a worker that
   * does not begin (it still boots, or is blocked): a grace beyond the limit, then it has timed out all the same.
   */
  private patience(handle: WorkerHandle, now: number): number {
    if (!handle.isFirst(this)) return this.limit;
    if (this.stuckSince === 0) this.stuckSince = now;
    const grace = handle.workerTerminateTimeout - (now - this.stuckSince);
    return Math.min(Math.max(this.limit, 1), grace);
  }

  private abort(outcome: Outcome, error: unknown): void {
    if (!this.live) return;
    this.aborted = true;
    // The worker first: what the callbacks see of the pool is the state after the task was taken from it.
    if (this.handle !== null) this.handle.withdraw(this);
    this.end(outcome, REJECTED, error);
  }
}

function onTimer(task: Task): void {
  task.timerFired();
}
