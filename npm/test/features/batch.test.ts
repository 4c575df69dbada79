// A batch must give every call exactly one place in its answer, never have more in flight than it may, and always end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueueFullError } from '../../src/admission.ts';
import { execBatch } from '../../src/batch.ts';
import type { BatchPool, BatchProgress } from '../../src/batch.ts';
import { Promise as PoolPromise } from '../../src/promise.ts';

interface Call {
  method: unknown;
  params: unknown;
  options: unknown;
  promise: PoolPromise;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** A pool that runs nothing: the test ends the calls. */
class HandPool implements BatchPool {
  readonly calls: Call[] = [];
  readonly maxQueueSize: number;
  readonly maxWorkers = 1;
  constructor(maxQueueSize = Infinity) {
    this.maxQueueSize = maxQueueSize;
  }
  get open(): Call[] {
    return this.calls.filter((call) => call.promise.pending);
  }
  exec(method: never, params: never, options?: object) {
    if (this.open.length >= this.maxQueueSize) throw new QueueFullError('queue is full', 'reject', 1, 1);
    const deferred = PoolPromise.defer();
    this.calls.push({ method, params, options, ...deferred });
    return deferred.promise;
  }
}

test('results stand in the order of the calls, whatever the order they end in', async () => {
  const pool = new HandPool();
  const progress: BatchProgress[] = [];
  const batch = execBatch(pool, 'square', [[1], [2], [3]], { onProgress: (step) => progress.push(step), priority: 3 });
  for (const at of [2, 0, 1]) pool.calls[at].resolve((at + 1) ** 2);
  assert.deepEqual(await batch, [1, 4, 9]);
  assert.deepEqual(progress.map(({ done, index, total, failed }) => [done, index, total, failed]), [
    [1, 2, 3, 0], [2, 0, 3, 0], [3, 1, 3, 0],
  ]);
  assert.deepEqual(pool.calls.map(({ method, params, options }) => [method, params, options]), [
    ['square', [1], { priority: 3 }], ['square', [2], { priority: 3 }], ['square', [3], { priority: 3 }],
  ]);
});

test('calls may differ: objects and lists, each with options of its own over those of the batch', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, [
    { method: 'a', params: [1], options: { priority: 9 } }, ['b', [2]], ['c'],
  ], { priority: 1, timeout: 5 });
  pool.calls.forEach((call, at) => call.resolve(at));
  assert.deepEqual(await batch, [0, 1, 2]);
  assert.deepEqual(pool.calls.map(({ options }) => options), [
    { priority: 9, timeout: 5 }, { priority: 1, timeout: 5 }, { priority: 1, timeout: 5 },
  ]);
});

test('an empty batch ends at once with nothing', async () => {
  assert.deepEqual(await execBatch(new HandPool(), []), []);
});

test('no more calls are in flight than allowed', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, 'f', Array.from({ length: 100 }, (_, at) => [at]), { concurrency: 7 });
  let most = 0;
  for (let at = 0; at < 100; at++) {
    most = Math.max(most, pool.open.length);
    pool.open[0].resolve(at);
  }
  assert.equal(most, 7);
  assert.equal((await batch).length, 100);
});

test('a full queue makes the batch wait for its own calls instead of failing', async () => {
  const pool = new HandPool(2);
  const batch = execBatch(pool, 'f', [[0], [1], [2], [3], [4]], { concurrency: 100 });
  assert.equal(pool.calls.length, 2);
  for (let at = 0; at < 5; at++) pool.open[0].resolve(at);
  assert.deepEqual(await batch, [0, 1, 2, 3, 4]);
});

test('a full queue that others fill fails the batch instead of hanging it', async () => {
  const pool = new HandPool(0);
  await assert.rejects(async () => await execBatch(pool, 'f', [[1]]), { name: 'QueueFullError' });
});

test('the first failure ends the batch: nothing more is handed over, what runs is let be', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, 'f', [[0], [1], [2], [3]], { concurrency: 2 });
  pool.calls[1].reject(new Error('second'));
  await assert.rejects(async () => await batch, /second/);
  pool.calls[0].resolve(1);
  assert.equal(pool.calls.length, 2);
});

test('settled gives every outcome and never fails', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, 'f', [[0], [1]], { settled: true });
  const error = new Error('first');
  pool.calls[0].reject(error);
  pool.calls[1].resolve(7);
  assert.deepEqual(await batch, [{ status: 'rejected', reason: error }, { status: 'fulfilled', value: 7 }]);
});

test('cancel ends all calls in flight and hands over no more', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, 'f', [[0], [1], [2]], { concurrency: 2 });
  batch.cancel();
  await assert.rejects(async () => await batch, PoolPromise.CancellationError);
  assert.equal(pool.calls.length, 2);
  assert.deepEqual(pool.calls.map((call) => call.promise.rejected), [true, true]);
});

test('an aborted signal cancels, and its reason is the cause', async () => {
  const pool = new HandPool();
  const controller = new AbortController();
  const batch = execBatch(pool, 'f', [[0], [1]], { signal: controller.signal, settled: true });
  const reason = new Error('user left');
  controller.abort(reason);
  await assert.rejects(async () => await batch, (error: Error) => {
    assert.ok(error instanceof PoolPromise.CancellationError);
    assert.equal(error.cause, reason);
    return true;
  });
  assert.equal(pool.open.length, 0);
});

test('calls that end inside of exec do not pile up on the stack', async () => {
  const pool: BatchPool = {
    maxQueueSize: Infinity,
    maxWorkers: 1,
    exec: (_method: never, params: never) => new PoolPromise((resolve) => resolve(params[0])),
  };
  const list = Array.from({ length: 50_000 }, (_, at) => [at]);
  const results = await execBatch(pool, 'f', list, { concurrency: 4 });
  assert.equal(results.length, 50_000);
  assert.equal(results[49_999], 49_999);
});

test('a progress callback that throws fails the batch', async () => {
  const pool = new HandPool();
  const batch = execBatch(pool, 'f', [[0], [1]], { onProgress: () => { throw new Error('mine'); } });
  pool.calls[0].resolve(1);
  await assert.rejects(async () => await batch, /mine/);
});

test('wrong arguments are told', () => {
  const pool = new HandPool();
  assert.throws(() => execBatch(pool, 'f'), /^TypeError: paramsList: expected an array of .*, got undefined$/);
  assert.throws(() => execBatch(pool, 3 as never), /^TypeError: calls: expected an array/);
  assert.throws(() => execBatch(pool, [], { concurrency: 0 }), /^TypeError: concurrency: expected a whole/);
});
