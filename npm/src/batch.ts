// Many calls as one: their results in the order of the calls, however they finish, with one promise for all of them.
//
// Only so many of them are in flight at a time, so that a batch of a million neither fills the queue nor the memory;
// when the pool says that its queue is full, the batch waits for one of its own calls to end and tries again. Without
// `settled` the first failure ends the batch: what was not handed over never is, and what was runs out unheard, since
// to cancel it would cost the workers that run it. cancel(), timeout() and an aborted signal do cancel what is in
// flight. With `settled` every call gets its outcome, as with Promise.allSettled.

import type { ExecOptions } from './pool-options.ts';
import { fail, flag, integerIn, kind, list } from './option-checks.ts';
import { Promise as PoolPromise } from './promise.ts';
import { QueueFullError } from './admission.ts';
import { abortError, followSignal } from './signal.ts';

export type BatchMethod = string | ((...params: never[]) => unknown);

/** One call of a batch: an object, or a list of the arguments of exec. */
export type BatchCall =
  | { readonly method: BatchMethod; readonly params?: readonly unknown[] | null; readonly options?: ExecOptions }
  | readonly [method: BatchMethod, params?: readonly unknown[] | null, options?: ExecOptions];

export interface BatchProgress {
  /** Calls that have ended, well or not. */
  readonly done: number;
  readonly failed: number;
  readonly total: number;
  /** The place in the batch of the call that ended just now. */
  readonly index: number;
}

export interface BatchOptions extends ExecOptions {
  /** Outcomes instead of results; the batch then never fails. Default false. */
  settled?: boolean;
  /** How many calls may be in flight. Default 1024, or what the pool's queue holds if that is less. */
  concurrency?: number;
  onProgress?: (progress: BatchProgress) => void;
}

export type BatchOutcome<Result = unknown> =
  | { readonly status: 'fulfilled'; readonly value: Result }
  | { readonly status: 'rejected'; readonly reason: unknown };

interface Flight {
  then(onSuccess: (result: unknown) => void, onFail: (error: unknown) => void): unknown;
  cancel(): unknown;
  readonly pending: boolean;
}

/** What a batch needs of a pool. */
export interface BatchPool {
  exec(method: never, params: never, options?: ExecOptions): Flight;
  readonly maxQueueSize: number;
  readonly maxWorkers: number;
}

export const IN_FLIGHT_MAX = 1024;

export function execBatch(
  pool: BatchPool, calls: readonly BatchCall[] | BatchMethod,
  paramsOrOptions?: readonly (readonly unknown[])[] | BatchOptions, options?: BatchOptions,
): PoolPromise<unknown[]> {
  if (typeof calls === 'string' || typeof calls === 'function') {
    const method = calls;
    if (!Array.isArray(paramsOrOptions)) fail('paramsList', 'an array of parameter arrays', paramsOrOptions);
    return new Batch(pool, paramsOrOptions.map((params) => ({ method, params })), options ?? {}).promise;
  }
  list('calls', calls, 0, 2 ** 32 - 1);
  return new Batch(pool, calls, (paramsOrOptions as BatchOptions | undefined) ?? {}).promise;
}

class Batch {
  readonly promise: PoolPromise<unknown[]>;
  private readonly resolve: (results: unknown[]) => void;
  private readonly reject: (error: unknown) => void;
  private readonly results: unknown[];
  private readonly flights = new Set<Flight>();
  private readonly limit: number;
  private readonly isSettled: boolean;
  private readonly onProgress: BatchOptions['onProgress'];
  private readonly shared: ExecOptions;
  private next = 0;
  private done = 0;
  private failed = 0;
  private isOver = false;
  private isPumping = false;

  constructor(private readonly pool: BatchPool, private readonly calls: readonly BatchCall[], options: BatchOptions) {
    const { settled, concurrency, onProgress, signal, ...shared } = options;
    this.isSettled = settled === undefined ? false : flag('settled', settled);
    if (onProgress !== undefined) kind('onProgress', onProgress, 'function');
    this.onProgress = onProgress;
    const held = Math.max(1, Math.min(IN_FLIGHT_MAX, pool.maxQueueSize + pool.maxWorkers));
    this.limit = integerIn('concurrency', concurrency ?? held, 1);
    this.shared = shared;
    this.results = new Array(calls.length);
    const defer = PoolPromise.defer<unknown[]>();
    this.promise = defer.promise;
    this.resolve = defer.resolve;
    this.reject = defer.reject;
    // Whatever ends the batch from outside (cancel, timeout, signal) rejects its promise: then its calls go too.
    this.promise.then(undefined, () => this.stop());
    if (signal) followSignal(signal, this.promise, () => this.reject(abortError(signal)));
    if (calls.length === 0) this.end(() => this.resolve([]));
    else this.pump();
  }

  /** Hands calls over while there is room. Calls may end inside of exec: the flag makes that a loop. */
  private pump(): void {
    if (this.isPumping) return;
    this.isPumping = true;
    try {
      while (!this.isOver && this.next < this.calls.length && this.flights.size < this.limit) {
        if (!this.launch(this.next)) break;
        this.next += 1;
      }
    } finally {
      this.isPumping = false;
    }
  }

  /** False: the queue is full, and one of our own calls will end and bring us back here. */
  private launch(index: number): boolean {
    let flight: Flight;
    try {
      flight = this.exec(this.calls[index]);
    } catch (error) {
      if (isFull(error) && this.flights.size > 0) return false;
      this.ended(index, true, error);
      return true;
    }
    if (flight.pending) this.flights.add(flight);
    flight.then(
      (value) => this.landed(flight, index, false, value),
      (error) => this.landed(flight, index, true, error),
    );
    return true;
  }

  private exec(call: BatchCall): Flight {
    if (typeof call !== 'object' || call === null) fail('call', 'an object { method, params } or an array', call);
    const [method, params, own] = isTuple(call) ? call : [call.method, call.params, call.options];
    return this.pool.exec(method as never, params as never, own ? { ...this.shared, ...own } : this.shared);
  }

  private landed(flight: Flight, index: number, isFailure: boolean, value: unknown): void {
    this.flights.delete(flight);
    this.ended(index, isFailure, value);
    this.pump();
  }

  private ended(index: number, isFailure: boolean, value: unknown): void {
    if (this.isOver) return;
    this.done += 1;
    if (isFailure) this.failed += 1;
    if (!this.isSettled) this.results[index] = value;
    else this.results[index] = isFailure ? { status: 'rejected', reason: value } : { status: 'fulfilled', value };
    try {
      this.onProgress?.({ done: this.done, failed: this.failed, total: this.calls.length, index });
    } catch (error) {
      this.end(() => this.reject(error));
      return;
    }
    if (isFailure && !this.isSettled) this.end(() => this.reject(value));
    else if (this.done === this.calls.length) this.end(() => this.resolve(this.results));
  }

  private end(settle: () => void): void {
    if (this.isOver) return;
    this.isOver = true;
    settle();
  }

  /** Cancels what is in flight, unless the batch had come to its own end before its promise was rejected. */
  private stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    const flights = [...this.flights];
    this.flights.clear();
    for (const flight of flights) flight.cancel();
  }
}

function isTuple(call: BatchCall): call is Extract<BatchCall, readonly unknown[]> {
  return Array.isArray(call);
}

/** Ours, or workerpool's own text for a full queue. */
function isFull(error: unknown): boolean {
  return error instanceof QueueFullError
    || (error instanceof Error && error.message.startsWith('Max queue size of '));
}
