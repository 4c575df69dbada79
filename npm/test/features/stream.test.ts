// A stream must lose nothing silently, hold no more than its limit, and stop the work when nobody reads it any more.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Promise as PoolPromise } from '../../src/promise.ts';
import { StreamOverflowError, TaskStream } from '../../src/stream.ts';
import type { StreamOptions } from '../../src/stream.ts';

/** A stream whose task is ours: `emit` is the worker, `settle` its end. */
function streamWith(options: Pick<StreamOptions, 'bufferSize' | 'overflow'> = {}) {
  const { promise, resolve, reject } = PoolPromise.defer<string>();
  let emit!: (payload: number) => void;
  const stream = new TaskStream<number, string>('count', options, (take) => {
    emit = take;
    return promise;
  });
  return { stream, emit, resolve, reject, promise };
}

test('payloads come in order, what was emitted before the end is read before the end, then the result', async () => {
  const { stream, emit, resolve } = streamWith();
  emit(1);
  const first = stream.next();
  const second = stream.next();
  emit(2);
  emit(3);
  resolve('all');
  assert.deepEqual(await first, { done: false, value: 1 });
  assert.deepEqual(await second, { done: false, value: 2 });
  assert.deepEqual(await stream.next(), { done: false, value: 3 });
  assert.deepEqual(await stream.next(), { done: true, value: 'all' });
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  assert.equal(await stream.result, 'all');
});

test('a failure comes after the payloads before it, once', async () => {
  const { stream, emit, reject } = streamWith();
  emit(1);
  reject(new Error('broken'));
  assert.deepEqual(await stream.next(), { done: false, value: 1 });
  await assert.rejects(stream.next(), /broken/);
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  await assert.rejects(stream.result, /broken/);
});

test('leaving the loop cancels the task and forgets what was not read', async () => {
  const { stream, emit, promise } = streamWith();
  for (let payload = 0; payload < 5; payload++) emit(payload);
  for await (const payload of stream) {
    assert.equal(payload, 0);
    break;
  }
  assert.equal(promise.rejected, true);
  assert.equal(stream.buffered, 0);
  emit(6);
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  await assert.rejects(stream.result, PoolPromise.CancellationError);
});

test('readers that wait when the stream ends all get an answer', async () => {
  const { stream, resolve } = streamWith();
  const waiting = [stream.next(), stream.next(), stream.next()];
  resolve('end');
  assert.deepEqual(await globalThis.Promise.all(waiting), [
    { done: true, value: 'end' }, { done: true, value: undefined }, { done: true, value: undefined },
  ]);
});

test('one payload more than the buffer holds is an error that cancels the task', async () => {
  const { stream, emit, promise } = streamWith({ bufferSize: 2 });
  emit(1);
  emit(2);
  emit(3);
  assert.equal(promise.rejected, true);
  assert.equal((await stream.next()).value, 1);
  assert.equal((await stream.next()).value, 2);
  await assert.rejects(stream.next(), (error) => {
    assert.ok(error instanceof StreamOverflowError);
    assert.match(error.message, /^stream of "count": expected at most 2 unread payloads, got one more; read faster/);
    return true;
  });
});

test('drop-oldest and drop-newest keep to the limit and count what they drop', async () => {
  for (const [overflow, kept] of [['drop-oldest', [3, 4, 5]], ['drop-newest', [1, 2, 3]]] as const) {
    const { stream, emit, resolve } = streamWith({ bufferSize: 3, overflow });
    for (const payload of [1, 2, 3, 4, 5]) emit(payload);
    resolve('end');
    const read: number[] = [];
    for await (const payload of stream) read.push(payload);
    assert.deepEqual(read, kept);
    assert.equal(stream.dropped, 2);
  }
});

test('a long stream that is read as it goes holds only what is unread', async () => {
  const { stream, emit, resolve } = streamWith({ bufferSize: 8 });
  let sum = 0;
  for (let round = 0; round < 1000; round++) {
    for (let payload = 0; payload < 8; payload++) emit(1);
    for (let payload = 0; payload < 8; payload++) sum += (await stream.next()).value as number;
  }
  resolve('end');
  assert.equal(sum, 8000);
  assert.equal(stream.dropped, 0);
});

test('wrong limits are told', () => {
  assert.throws(() => streamWith({ bufferSize: 0 }), /^TypeError: bufferSize: expected .*, got the number 0$/);
  assert.throws(() => streamWith({ overflow: 'wait' as never }), /^TypeError: overflow: expected .* "wait"$/);
});
