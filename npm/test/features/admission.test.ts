// A full queue is where tasks get lost: each policy must end every task, keep to its limits, and say what it did.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackPressure, DEPTH_MAX, DroppedError, QueueFullError } from '../../src/admission.ts';
import type { BackPressureOptions } from '../../src/options.ts';
import { readOptions } from '../../src/options.ts';
import { Transfer } from '../../src/transfer.ts';
import { FakePool } from './fake-pool.ts';

/** A pool whose queue of `size` is full, behind the given policy. */
function pressed(options: BackPressureOptions, size = 2) {
  const pool = new FakePool();
  const settings = readOptions(
    { backPressure: { maxQueueSize: size, ...options } }, { minWorkers: 1, maxWorkers: 1, maxQueueSize: Infinity },
  ).backPressure!;
  for (let at = 0; at < size; at++) pool.waiting.push(pool.task(`old${at}`));
  return { pool, admission: new BackPressure(settings, pool) };
}

async function reasonOf(promise: PromiseLike<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  return assert.fail('it was expected to reject');
}

test('reject throws at once, names policy and sizes, and leaves the queue as it was', () => {
  const { pool, admission } = pressed({ policy: 'reject' });
  assert.throws(() => admission.full(pool.task()), (error: unknown) => {
    assert.ok(error instanceof QueueFullError);
    assert.match(error.message, /^queue is full: 2 of 2 waiting \(policy reject\); wait for the drain event or raise/);
    const { code, policy, queueSize, maxQueueSize } = error;
    assert.deepEqual([code, policy, queueSize, maxQueueSize], ['ERR_QUEUE_FULL', 'reject', 2, 2]);
    return true;
  });
  assert.equal(pool.waiting.length, 2);
  assert.equal(admission.rejected, 1);
});

test('drop-newest rejects the new task and tells it everywhere', async () => {
  const drops: unknown[] = [];
  const { pool, admission } = pressed({ policy: 'drop-newest', onDrop: (event) => drops.push(event) });
  const task = pool.task('fresh', { metadata: { user: 7 } });
  assert.equal(admission.full(task), 'handled');
  const error = await reasonOf(task.promise);
  assert.ok(error instanceof DroppedError);
  assert.match(error.message, /^task "fresh" dropped: 2 of 2 waiting \(policy drop-newest\); submit less/);
  const event = { policy: 'drop-newest', method: 'fresh', metadata: { user: 7 }, queueSize: 2, maxQueueSize: 2 };
  assert.deepEqual(drops, [event]);
  assert.deepEqual(pool.emitted.at(-1), ['task-dropped', event]);
});

test('drop-oldest gives the place of the oldest to the new one', async () => {
  const { pool, admission } = pressed({ policy: 'drop-oldest' });
  const [oldest, next] = pool.waiting;
  assert.equal(admission.full(pool.task('fresh')), 'queue');
  const error = await reasonOf(oldest.promise);
  assert.ok(error instanceof DroppedError);
  assert.equal(next.promise.pending, true);
  assert.deepEqual(pool.waiting, [next]);
});

test('drop-oldest never drops what matters more than the new task', async () => {
  const { pool, admission } = pressed({ policy: 'drop-oldest' }, 1);
  pool.waiting = [pool.task('important', { priority: 5 })];
  const task = pool.task('minor');
  assert.equal(admission.full(task), 'handled');
  assert.ok((await reasonOf(task.promise)) instanceof DroppedError);
  assert.equal(pool.waiting.length, 1);
});

test('block lets tasks in when there is room, in their order, and forgets those that were cancelled', () => {
  const { pool, admission } = pressed({ policy: 'block' });
  const tasks = ['a', 'b', 'c'].map((name) => pool.task(name));
  for (const task of tasks) assert.equal(admission.full(task), 'handled');
  assert.equal(admission.waiting, 3);
  tasks[0].cancel();
  tasks[0].promise.catch(() => {});
  pool.waiting.shift();
  admission.room();
  assert.deepEqual(pool.waiting.map((task) => task.method), ['old1', 'b']);
  assert.equal(admission.waiting, 1);
  pool.waiting = [];
  admission.room();
  assert.deepEqual(pool.waiting.map((task) => task.method), ['c']);
  assert.equal(admission.waiting, 0);
});

test('block ends a wait after its timeout, the others at their own time', async () => {
  const { pool, admission } = pressed({ policy: 'block', timeout: 20 });
  const tasks = [pool.task('a'), pool.task('b')];
  for (const task of tasks) admission.full(task);
  for (const task of tasks) {
    const error = await reasonOf(task.promise);
    assert.ok(error instanceof QueueFullError);
    assert.match(error.message, /no place came free in 20 ms; raise backPressure.timeout or maxQueueSize/);
  }
  assert.equal(admission.waiting, 0);
});

test('block holds only so many calls', () => {
  const { pool, admission } = pressed({ policy: 'block', maxWaiters: 2 });
  const first = pool.task();
  admission.full(first);
  admission.full(pool.task());
  assert.throws(() => admission.full(pool.task()), /2 of 2 calls wait for a place already; raise/);
  first.cancel();
  assert.equal(admission.full(pool.task()), 'handled', 'the place of a cancelled one is free');
  admission.terminated(new Error('Pool terminated'));
});

test('terminating the pool rejects those that wait for a place', async () => {
  const { pool, admission } = pressed({ policy: 'block' });
  const task = pool.task();
  admission.full(task);
  admission.terminated(new Error('Pool terminated'));
  assert.equal((await reasonOf(task.promise)).message, 'Pool terminated');
  assert.equal(admission.waiting, 0);
});

test('caller-runs runs a function as it is and a named method from the table, as a worker would', async () => {
  const methods = {
    add: (a: number, b: number) => a + b,
    later: async (value: number) => new Transfer(value, []),
    fails: () => { throw new Error('inside'); },
  };
  const { pool, admission } = pressed({ policy: 'caller-runs', methods });
  const add = pool.task('add');
  add.params = [2, 3];
  assert.equal(admission.full(add), 'handled');
  assert.equal(add.promise.resolved, true, 'it has run when exec returns: that is the pressure');
  assert.equal(await add.promise, 5);
  const later = pool.task('later');
  later.params = [8];
  admission.full(later);
  assert.equal(await later.promise, 8);
  const fails = pool.task('fails');
  admission.full(fails);
  assert.equal((await reasonOf(fails.promise)).message, 'inside');
  const offloaded = pool.task('run');
  offloaded.original = (text: string) => text.length;
  offloaded.params = ['(text) => text.length', ['four']];
  admission.full(offloaded);
  assert.equal(await offloaded.promise, 4);
  assert.equal(admission.callerRuns, 4);
});

test('caller-runs hands payloads of this.worker.emit to the caller', async () => {
  const payloads: unknown[] = [];
  const methods = { talks(this: { worker: { emit(payload: unknown): void } }) { this.worker.emit('half'); } };
  const { pool, admission } = pressed({ policy: 'caller-runs', methods });
  admission.full(pool.task('talks', { on: (payload) => payloads.push(payload) }));
  assert.deepEqual(payloads, ['half']);
});

test('caller-runs says when a method cannot run here, and stops tasks that submit tasks', () => {
  const { pool, admission } = pressed({ policy: 'caller-runs', methods: {} });
  assert.throws(() => admission.full(pool.task('toString')), (error: unknown) => {
    assert.ok(error instanceof QueueFullError);
    assert.match(error.message, /method "toString" lives in the worker's script and cannot run in this thread;/);
    return true;
  });
  let depth = 0;
  const deep = (): void => {
    depth += 1;
    const task = pool.task('run');
    task.original = deep;
    admission.full(task);
  };
  const first = pool.task('run');
  first.original = deep;
  admission.full(first);
  assert.equal(depth, DEPTH_MAX);
});

test('back-pressure is told once, drain when the queue is half empty again', () => {
  const { pool, admission } = pressed({ policy: 'drop-newest' }, 4);
  for (let at = 0; at < 3; at++) {
    const task = pool.task();
    task.promise.catch(() => {});
    admission.full(task);
  }
  const told = (): string[] => pool.emitted.map(([event]) => event).filter((event) => event !== 'task-dropped');
  assert.deepEqual(told(), ['back-pressure']);
  pool.waiting.pop();
  admission.ended();
  assert.deepEqual(told(), ['back-pressure']);
  pool.waiting.pop();
  admission.ended();
  admission.ended();
  assert.deepEqual(told(), ['back-pressure', 'drain']);
  assert.deepEqual(pool.emitted.at(-1)?.[1], { queueSize: 2, maxQueueSize: 4 });
});
