// The promise that a pool hands out: workerpool's, which settles its callbacks at once and can be cancelled.
//
// It is not a native promise on purpose: callbacks run inside the call that settles it, so that a result reaches its
// caller without a turn of the microtask queue, and `cancel` and `timeout` travel up to the promise the pool made.
//
// One object per promise and none per callback: `then` stores its two callbacks in the child it returns, and the parent
// keeps the child (the first in a field of its own, because most promises have exactly one).
//
// Kept from workerpool: `resolve` takes any value as it is (only what a callback returns is followed), a rejection that
// nobody catches is silent. Better than it: a callback that adds another callback to the same promise is heard, and a
// loop of calls that each return the next one may be of any length.

import { CancellationError, TimeoutError } from './errors.ts';

/** The longest time a timer can wait, in ms. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

const PENDING = 0;
export const RESOLVED = 1;
export const REJECTED = 2;
export type Settled = typeof RESOLVED | typeof REJECTED;

/** What stands behind a promise that was not made by `new`: the task, which knows what cancelling means. */
export interface PromiseOwner {
  cancel(): void;
  timeoutAfter(delay: number): void;
}

export interface Resolver<T = any> {
  promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

type Callback = ((value: any) => unknown) | null | undefined;
type Handler<T> = (resolve: (value: T) => void, reject: (error: any) => void) => void;

/** Stands for "no handler, I settle it myself" and spares the two functions of each promise inside the pool. */
const HELD = (): void => {};

export class Promise<T = any, E = any> {
  /** Said here because a build may call the class something else, so as not to hide the platform's own. */
  static readonly name: string = 'Promise';
  static readonly CancellationError: typeof CancellationError = CancellationError;
  static readonly TimeoutError: typeof TimeoutError = TimeoutError;

  private state: 0 | Settled = PENDING;
  private value: any = undefined;
  private readonly parent: Promise | null;
  private owner: PromiseOwner | null = null;
  private onSuccess: Callback = null;
  private onFail: Callback = null;
  private first: Promise | null = null;
  private rest: Promise[] | null = null;

  /** `parent` hears of cancel() and timeout() in this one's place. */
  constructor(handler: Handler<T>, parent?: Promise | null) {
    if (typeof handler !== 'function') {
      throw new SyntaxError('Function parameter handler(resolve, reject) missing');
    }
    this.parent = parent ?? null;
    if (handler !== HELD) {
      handler((value) => this.settle(RESOLVED, value), (error) => this.settle(REJECTED, error));
    }
  }

  get resolved(): boolean {
    return this.state === RESOLVED;
  }

  get rejected(): boolean {
    return this.state === REJECTED;
  }

  get pending(): boolean {
    return this.state === PENDING;
  }

  get [Symbol.toStringTag](): string {
    return 'Promise';
  }

  then<A = T, B = never>(
    onSuccess?: ((value: T) => A | PromiseLike<A>) | null,
    onFail?: ((error: E) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const child = new Promise<A | B>(HELD, this);
    child.onSuccess = onSuccess;
    child.onFail = onFail;
    this.lead(child);
    return child;
  }

  catch<B = never>(onFail?: ((error: E) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(null, onFail) as Promise<T | B>;
  }

  /** `callback` for either end; what it returns becomes the value. */
  always<A>(callback: (valueOrError?: any) => A | PromiseLike<A>): Promise<A> {
    return this.then(callback, callback) as Promise<A>;
  }

  /** `callback` for either end; the value or error passes through, unless the callback fails. */
  finally(callback?: (() => unknown) | null): Promise<T> {
    const pass = (): any => {
      const outcome = callback ? callback() : undefined;
      return isPromise(outcome) ? outcome.then(() => this) : this;
    };
    return this.then(pass, pass);
  }

  /** Rejects with a CancellationError. A getter of a function, so that it may be handed on as a bare callback. */
  get cancel(): () => this {
    return () => {
      if (this.parent !== null) this.parent.cancel();
      else if (this.owner !== null) this.owner.cancel();
      else this.settle(REJECTED, new CancellationError());
      return this;
    };
  }

  /** Rejects with a TimeoutError after `delay` ms; a task counts them from its start. */
  get timeout(): (delay: number) => this {
    return (delay) => {
      if (this.parent !== null) this.parent.timeout(delay);
      else if (this.owner !== null) this.owner.timeoutAfter(delay);
      else if (this.state === PENDING) {
        const expire = (): void => this.settle(REJECTED, new TimeoutError(`Promise timed out after ${delay} ms`));
        const timer = setTimeout(expire, Math.min(delay, TIMER_MS_MAX));
        this.always(() => clearTimeout(timer));
      }
      return this;
    };
  }

  static all<T = any>(promises: Iterable<T | PromiseLike<T>>): Promise<T[]> {
    return new Promise<T[]>((resolve, reject) => {
      const results: T[] = [];
      let left = 1;
      let index = 0;
      for (const promise of promises) {
        const at = index++;
        left += 1;
        const take = (value: T): void => {
          results[at] = value;
          if (--left === 0) resolve(results);
        };
        if (isThenable(promise)) promise.then(take, reject);
        else take(promise);
      }
      if (--left === 0) resolve(results);
    });
  }

  static defer<T = any>(): Resolver<T> {
    const promise = Promise.held<T>(null);
    return {
      promise,
      resolve: (value) => promise.settle(RESOLVED, value),
      reject: (error) => promise.settle(REJECTED, error),
    };
  }

  /** @internal A promise without handler functions: its maker settles it, `owner` hears of cancel and timeout. */
  static held<T = any>(owner: PromiseOwner | null): Promise<T> {
    const promise = new Promise<T>(HELD, null);
    promise.owner = owner;
    return promise;
  }

  /** @internal Settles it, once; everything after that is ignored. */
  settle(state: Settled, value: any): void {
    let promise: Promise = this;
    // Promises that only pass on are walked along and not climbed: a loop of calls makes a chain of any length.
    while (promise.state === PENDING) {
      promise.state = state;
      promise.value = value;
      const { first, rest } = promise;
      if (first === null) return;
      promise.first = null;
      promise.rest = null;
      if (rest !== null || (state === RESOLVED ? first.onSuccess : first.onFail)) {
        first.follow(state, value);
        if (rest !== null) for (let at = 0; at < rest.length; at++) rest[at].follow(state, value);
        return;
      }
      first.onSuccess = null;
      first.onFail = null;
      promise = first;
    }
  }

  /** Takes a child that goes the way this one goes, now or later. */
  private lead(child: Promise): void {
    if (this.state !== PENDING) child.follow(this.state, this.value);
    else if (this.first === null) this.first = child;
    else if (this.rest === null) this.rest = [child];
    else this.rest.push(child);
  }

  /** The promise before this one has settled. */
  private follow(state: Settled, value: any): void {
    const callback = state === RESOLVED ? this.onSuccess : this.onFail;
    this.onSuccess = null;
    this.onFail = null;
    if (!callback) {
      this.settle(state, value);
      return;
    }
    try {
      const outcome = callback(value);
      if (!isPromise(outcome)) this.settle(RESOLVED, outcome);
      else if (outcome instanceof Promise) outcome.lead(this);
      else outcome.then((result) => this.settle(RESOLVED, result), (error) => this.settle(REJECTED, error));
    } catch (error) {
      this.settle(REJECTED, error);
    }
  }
}

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return value !== null && value !== undefined && typeof (value as PromiseLike<T>).then === 'function';
}

/** Workerpool's test: both `then` and `catch`. */
function isPromise(value: any): value is PromiseLike<unknown> {
  return value && typeof value.then === 'function' && typeof value.catch === 'function';
}
