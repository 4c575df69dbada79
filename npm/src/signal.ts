// An AbortSignal ends a task as cancel() does, and the signal's reason stays with the error as its cause.
//
// Many tasks may share one signal, and platforms warn when a signal gets more than a few listeners; so a signal gets
// one listener of ours, however many tasks it ends, and none when no task is left that waits for it.

import { Promise as PoolPromise } from './promise.ts';
import type { Task } from './task.ts';

/** The error of a task that a signal ended: a CancellationError, so that it is treated as every other cancelling. */
export function abortError(signal: AbortSignal): Error {
  const error: Error & { cause?: unknown } = new PoolPromise.CancellationError('task aborted by its signal');
  error.cause = signal.reason;
  return error;
}

/** Ends the task when the signal aborts; at once if it has already. */
export function bindSignal(task: Task, signal: AbortSignal): void {
  followSignal(signal, task.promise, () => task.cancelWith(abortError(signal)));
}

/** Calls `abort` once when the signal aborts, unless the promise settled before. */
export function followSignal(
  signal: AbortSignal, promise: { then(onSuccess: () => void, onFail: () => void): unknown }, abort: () => void,
): void {
  if (signal.aborted) {
    abort();
    return;
  }
  const followers = followersOf(signal);
  followers.add(abort);
  const leave = (): void => followers.delete(abort);
  promise.then(leave, leave);
}

class Followers {
  private readonly aborts = new Set<() => void>();
  private readonly listener = (): void => {
    const all = [...this.aborts];
    this.aborts.clear();
    for (const abort of all) abort();
  };

  constructor(private readonly signal: AbortSignal) {}

  add(abort: () => void): void {
    if (this.aborts.size === 0) this.signal.addEventListener('abort', this.listener, { once: true });
    this.aborts.add(abort);
  }

  delete(abort: () => void): void {
    if (this.aborts.delete(abort) && this.aborts.size === 0) {
      this.signal.removeEventListener('abort', this.listener);
    }
  }
}

const followersBySignal = new WeakMap<AbortSignal, Followers>();

function followersOf(signal: AbortSignal): Followers {
  let followers = followersBySignal.get(signal);
  if (!followers) {
    followers = new Followers(signal);
    followersBySignal.set(signal, followers);
  }
  return followers;
}
