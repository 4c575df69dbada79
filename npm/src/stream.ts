// A task's partial results as an async iterator: what the worker sends with workerEmit, then the result as its end.
//
// A worker does not wait for its reader, so what has not been read yet is kept in a buffer with a limit. What happens
// at the limit is the caller's choice: 'error' (the default: the task is cancelled, nothing is lost silently),
// 'drop-oldest' or 'drop-newest' (counted in `dropped`). Leaving the loop early cancels the task.
//
//   for await (const line of pool.stream('tail', [file])) { ... break; }
//
// Not here: how the payloads travel, and what cancelling does to a worker (the pool; as for every exec).

import type { ExecOptions } from './pool-options.ts';
import { integerIn, oneOf } from './option-checks.ts';

/** What a stream needs of a pool's promise. */
export interface CancellablePromise<Result> {
  then(onSuccess: (result: Result) => unknown, onFail: (error: unknown) => unknown): unknown;
  cancel(): unknown;
}

export type Overflow = 'error' | 'drop-oldest' | 'drop-newest';

export interface StreamOptions extends ExecOptions {
  /** How many payloads may wait for the reader. Default 10000. */
  bufferSize?: number;
  /** What happens when one more comes. Default 'error'. */
  overflow?: Overflow;
}

export const BUFFER_SIZE = 10_000;
/** How many next() calls may wait at the same time: a reader with more has lost count. */
const READERS_MAX = 1000;

export class StreamOverflowError extends Error {
  override readonly name = 'StreamOverflowError';
  constructor(method: string, bufferSize: number) {
    super(
      `stream of ${JSON.stringify(method)}: expected at most ${bufferSize} unread payloads, got one more; `
      + 'read faster, raise bufferSize or set overflow to "drop-oldest" or "drop-newest"',
    );
  }
}

interface Reader<Payload, Result> {
  resolve(step: IteratorResult<Payload, Result>): void;
  reject(error: unknown): void;
}

type Ending<Result> =
  | { readonly state: 'open' }
  | { readonly state: 'done'; readonly value: Result }
  | { readonly state: 'failed'; readonly error: unknown };

/** What a stream needs of a pool. */
export interface StreamPool {
  exec(method: never, params: never, options: ExecOptions): CancellablePromise<unknown>;
}

/** Starts a task and gives its partial results as they come. */
export function stream<Payload = unknown, Result = unknown>(
  pool: StreamPool, method: string | ((...params: never[]) => unknown), params?: readonly unknown[] | null,
  options: StreamOptions = {},
): TaskStream<Payload, Result> {
  const { bufferSize, overflow, on, ...rest } = options;
  const name = typeof method === 'string' ? method : 'run';
  return new TaskStream<Payload, Result>(name, { bufferSize, overflow }, (take) => {
    const hear = (payload: unknown): void => {
      on?.(payload);
      take(payload as Payload);
    };
    return pool.exec(method as never, params as never, { ...rest, on: hear }) as CancellablePromise<Result>;
  });
}

export class TaskStream<Payload = unknown, Result = unknown> implements AsyncIterableIterator<Payload, Result> {
  /** How many payloads were given up because the buffer was full. */
  dropped = 0;

  private buffer: Payload[] = [];
  /** The first unread place of `buffer`: cheaper than shift(), and cut off when half of it has been read. */
  private head = 0;
  private readers: Reader<Payload, Result>[] = [];
  private ending: Ending<Result> = { state: 'open' };
  private hasThrown = false;
  private readonly task: CancellablePromise<Result>;
  private readonly method: string;
  private readonly bufferSize: number;
  private readonly overflow: Overflow;
  private readonly outcome: globalThis.Promise<Result>;

  /** `start` begins the task and is given the function that takes its payloads. */
  constructor(
    method: string, options: Pick<StreamOptions, 'bufferSize' | 'overflow'>,
    start: (onPayload: (payload: Payload) => void) => CancellablePromise<Result>,
  ) {
    this.method = method;
    this.bufferSize = integerIn('bufferSize', options.bufferSize ?? BUFFER_SIZE, 1);
    this.overflow = oneOf('overflow', options.overflow ?? 'error', ['error', 'drop-oldest', 'drop-newest'] as const);
    this.task = start((payload) => this.take(payload));
    // Where the caller runs the task itself, payloads come before there is a task to cancel.
    if (this.ending.state !== 'open') this.task.cancel();
    this.outcome = new globalThis.Promise<Result>((resolve, reject) => {
      this.task.then(
        (value) => {
          resolve(value);
          this.end({ state: 'done', value });
        },
        (error) => {
          reject(error);
          this.end({ state: 'failed', error });
        },
      );
    });
    // Whoever reads the stream hears of a failure from next(); `result` must then not count as unhandled as well.
    this.outcome.catch(() => {});
  }

  /** What the task itself returns: the same that the last next() gives as its value, for those who use for await. */
  get result(): globalThis.Promise<Result> {
    return this.outcome;
  }

  /** How many payloads wait for the reader. */
  get buffered(): number {
    return this.buffer.length - this.head;
  }

  next(): globalThis.Promise<IteratorResult<Payload, Result>> {
    if (this.buffered > 0) return globalThis.Promise.resolve({ done: false, value: this.shift() });
    if (this.ending.state === 'done') {
      const { value } = this.ending;
      // As a generator does: the result comes once, later calls find only the end.
      this.ending = { state: 'done', value: undefined as Result };
      return globalThis.Promise.resolve({ done: true, value });
    }
    if (this.ending.state === 'failed') {
      if (this.hasThrown) return globalThis.Promise.resolve({ done: true, value: undefined as Result });
      this.hasThrown = true;
      return globalThis.Promise.reject(this.ending.error);
    }
    if (this.readers.length >= READERS_MAX) {
      return globalThis.Promise.reject(
        new RangeError(`stream of ${JSON.stringify(this.method)}: ${READERS_MAX} calls of next() wait already`),
      );
    }
    return new globalThis.Promise((resolve, reject) => this.readers.push({ resolve, reject }));
  }

  /** Leaves the stream: the task is cancelled if it still runs, and what was not read is forgotten. */
  return(value?: Result | PromiseLike<Result>): globalThis.Promise<IteratorResult<Payload, Result>> {
    this.leave();
    return globalThis.Promise.resolve(value as Result).then((last) => ({ done: true, value: last }));
  }

  throw(error?: unknown): globalThis.Promise<IteratorResult<Payload, Result>> {
    this.leave();
    return globalThis.Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private leave(): void {
    this.buffer = [];
    this.head = 0;
    const wasOpen = this.ending.state === 'open';
    this.ending = { state: 'done', value: undefined as Result };
    this.releaseReaders();
    if (wasOpen) this.task.cancel();
  }

  private take(payload: Payload): void {
    if (this.ending.state !== 'open') return;
    const reader = this.readers.shift();
    if (reader) {
      reader.resolve({ done: false, value: payload });
      return;
    }
    if (this.buffered < this.bufferSize) {
      this.buffer.push(payload);
      return;
    }
    if (this.overflow === 'error') {
      this.end({ state: 'failed', error: new StreamOverflowError(this.method, this.bufferSize) });
      this.task?.cancel();
      return;
    }
    this.dropped += 1;
    if (this.overflow === 'drop-oldest') {
      this.shift();
      this.buffer.push(payload);
    }
  }

  private shift(): Payload {
    const payload = this.buffer[this.head];
    this.buffer[this.head] = undefined as Payload;
    this.head += 1;
    if (this.head * 2 > this.buffer.length) {
      this.buffer.splice(0, this.head);
      this.head = 0;
    }
    return payload;
  }

  private end(ending: Ending<Result>): void {
    if (this.ending.state !== 'open') return;
    this.ending = ending;
    this.releaseReaders();
  }

  /** Readers wait only while the buffer is empty, so the first of them gets the end and the others what is after it. */
  private releaseReaders(): void {
    const readers = this.readers;
    this.readers = [];
    for (const reader of readers) this.next().then(reader.resolve, reader.reject);
  }
}
