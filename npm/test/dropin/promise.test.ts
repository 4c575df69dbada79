// The pool's own promise: callers rely on callbacks that run at once and on cancelling through a chain.
//
// Where it differs from a native promise it differs as workerpool's does.

import assert from 'node:assert/strict';
import workerpool from 'millpond/workerpool';
import { test } from './ground.ts';

const { Promise: PoolPromise } = workerpool;
const { CancellationError, TimeoutError } = PoolPromise;

test('callbacks run inside the call that settles, in the order they were added', () => {
  const { promise, resolve } = PoolPromise.defer<number>();
  const seen: string[] = [];
  promise.then((value) => seen.push(`first ${value}`));
  promise.then((value) => seen.push(`second ${value}`)).then(() => seen.push('after second'));
  promise.then((value) => seen.push(`third ${value}`));
  resolve(4);
  assert.deepEqual(seen, ['first 4', 'second 4', 'after second', 'third 4']);
});

test('a callback of a settled promise runs inside then()', () => {
  let seen = 0;
  new PoolPromise<number>((resolve) => resolve(3)).then((value) => (seen = value));
  assert.equal(seen, 3);
});

test('a callback that is added by a callback of the same promise is heard', () => {
  const { promise, resolve } = PoolPromise.defer<number>();
  let seen = 0;
  promise.then(() => promise.then((value) => (seen = value)));
  resolve(5);
  assert.equal(seen, 5);
});

test('the three states are told, and only the first end counts', () => {
  const { promise, resolve, reject } = PoolPromise.defer<number>();
  const states = () => [promise.pending, promise.resolved, promise.rejected];
  assert.deepEqual(states(), [true, false, false]);
  resolve(1);
  resolve(2);
  reject(new Error('too late'));
  assert.deepEqual(states(), [false, true, false]);
  const failed = new PoolPromise((_, refuse) => refuse('no'));
  assert.deepEqual([failed.pending, failed.resolved, failed.rejected], [false, false, true]);
});

test('without a handler function the constructor throws a SyntaxError', () => {
  assert.throws(() => new (PoolPromise as any)(), SyntaxError);
  assert.throws(() => (PoolPromise as any)(() => {}), TypeError);
});

test('what a callback returns or throws goes on, native promises included', async () => {
  const start = () => new PoolPromise<number>((resolve) => resolve(1));
  assert.equal(await start().then((value) => value + 1), 2);
  assert.equal(await start().then((value) => Promise.resolve(value + 2)), 3);
  assert.equal(await start().then((value) => new PoolPromise<number>((resolve) => resolve(value + 3))), 4);
  await assert.rejects(start().then(() => {
    throw new Error('from a callback');
  }), /from a callback/);
  await assert.rejects(start().then(() => Promise.reject(new Error('from a promise'))), /from a promise/);
  assert.equal(await new PoolPromise((_, reject) => reject('lost')).catch((error) => `caught ${error}`), 'caught lost');
});

test('always hears both ends, finally passes them through', async () => {
  assert.equal(await new PoolPromise((resolve) => resolve('a')).always((value) => `${value}!`), 'a!');
  assert.equal(await new PoolPromise((_, reject) => reject('b')).always((error) => `${error}?`), 'b?');
  let counted = 0;
  const count = (...args: unknown[]): void => void (counted += 1 + args.length);
  assert.equal(await new PoolPromise((resolve) => resolve('c')).finally(count), 'c');
  await assert.rejects(new PoolPromise((_, reject) => reject(new Error('d'))).finally(count), /^Error: d$/);
  assert.equal(counted, 2);
  assert.equal(await new PoolPromise((resolve) => resolve('e')).finally(null), 'e');
  await assert.rejects(new PoolPromise((resolve) => resolve('f')).finally(() => {
    throw new Error('g');
  }), /^Error: g$/);
});

test('cancel travels to the first promise of a chain and rejects every branch', () => {
  const first = new PoolPromise(() => {});
  const errors: unknown[] = [];
  first.catch((error) => errors.push(error));
  const last = first.then(() => 1).then(() => 2);
  last.catch((error) => errors.push(error));
  assert.equal(last.cancel(), last);
  assert.equal(errors.length, 2);
  assert.ok(errors.every((error) => error instanceof CancellationError && error instanceof Error));
  assert.equal((errors[0] as Error).message, 'promise cancelled');
  assert.equal(String(errors[0]), 'CancellationError: promise cancelled');
});

test('cancel may be handed on as a bare function', () => {
  const promise = new PoolPromise(() => {});
  const { cancel } = promise;
  cancel();
  assert.equal(promise.rejected, true);
});

test('timeout rejects the first promise of a chain with a TimeoutError that names the time', async () => {
  const first = new PoolPromise(() => {});
  const error: any = await first.then(() => 1).timeout(5).catch((reason) => reason);
  assert.ok(error instanceof TimeoutError);
  assert.equal(error.message, 'Promise timed out after 5 ms');
  assert.equal(first.rejected, true);
});

test('all waits for all, and fails with the first that fails', async () => {
  const later = (value: number) => new PoolPromise<number>((resolve) => setTimeout(resolve, 3 - value, value));
  assert.deepEqual(await PoolPromise.all([later(0), later(1), later(2)]), [0, 1, 2]);
  assert.deepEqual(await PoolPromise.all([]), []);
  const failing = PoolPromise.all([later(1), new PoolPromise<number>((_, reject) => reject(new Error('first')))]);
  await assert.rejects(failing, /first/);
});

test('it calls itself Promise, can be awaited, and its errors have workerpool\'s words', async () => {
  const promise = new PoolPromise<string>((resolve) => resolve('x'));
  assert.equal(Object.prototype.toString.call(promise), '[object Promise]');
  assert.equal(await promise, 'x');
  assert.equal(new TimeoutError().message, 'timeout exceeded');
  assert.equal(new TimeoutError('mine').message, 'mine');
});
