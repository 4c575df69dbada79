// Back-pressure through a real pool: with its one worker held, the queue is full when we say so, and every call that
// was made must end, well or told why.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { DroppedError, QueueFullError } from 'millpond';
import type { PoolOptions } from 'millpond';
import { flags, livePool, reasonOf, release, until } from './live.ts';

/** A pool of one worker that is held, with `maxQueueSize` tasks waiting. */
async function fullPool(context: TestContext, backPressure: PoolOptions['backPressure'], more: PoolOptions = {}) {
  const pool = livePool(context, { maxWorkers: 1, backPressure, ...more });
  const held = flags();
  const running = pool.exec('hold', [held]);
  await until('the worker runs it', () => pool.stats().busyWorkers === 1 && pool.stats().pendingTasks === 0);
  const waiting = [pool.exec('add', [1, 0]), pool.exec('add', [2, 0])];
  assert.equal(pool.stats().pendingTasks, 2);
  return { pool, held, running, waiting };
}

test('reject: exec throws, nothing else changes', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'reject', maxQueueSize: 2 });
  assert.throws(() => pool.exec('add', [9, 9]), QueueFullError);
  release(held);
  await running;
  assert.deepEqual(await Promise.all(waiting), [1, 2]);
  const { tasks } = pool.metrics();
  assert.equal(tasks.rejected, 1);
});

test('workerpool\'s own maxQueueSize keeps its own words', async (context) => {
  const { pool, held } = await fullPool(context, undefined, { maxQueueSize: 2 });
  assert.throws(() => pool.exec('add', [9, 9]), /^Error: Max queue size of 2 reached$/);
  release(held);
});

test('drop-newest: the new call rejects, the waiting ones are done', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'drop-newest', maxQueueSize: 2 });
  const dropped: unknown[] = [];
  pool.on('task-dropped', (event) => dropped.push(event.method));
  const error = await reasonOf(pool.exec('whoami'));
  assert.ok(error instanceof DroppedError);
  assert.deepEqual(dropped, ['whoami']);
  release(held);
  await running;
  assert.deepEqual(await Promise.all(waiting), [1, 2]);
});

test('drop-oldest: the oldest rejects, the new one is done in its turn', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'drop-oldest', maxQueueSize: 2 });
  const fresh = pool.exec('add', [3, 0]);
  const error = await reasonOf(waiting[0]);
  assert.ok(error instanceof DroppedError);
  assert.match(error.message, /^task "add" dropped: /);
  release(held);
  await running;
  assert.deepEqual(await Promise.all([waiting[1], fresh]), [2, 3]);
});

test('block: a call whose place does not come in time is told so', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'block', maxQueueSize: 2, timeout: 30 });
  const error = await reasonOf(pool.exec('add', [9, 9]));
  assert.ok(error instanceof QueueFullError);
  assert.match(error.message, /no place came free in 30 ms/);
  release(held);
  await running;
  assert.deepEqual(await Promise.all(waiting), [1, 2]);
});

test('block: the call waits for a place and then runs', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'block', maxQueueSize: 2 });
  const late = pool.exec('add', [4, 0]);
  assert.equal(pool.metrics().backPressure.waiting, 1);
  release(held);
  await running;
  assert.deepEqual(await Promise.all([...waiting, late]), [1, 2, 4]);
});

test('block: a flood goes through a queue of four without loss and with no more than four waiting', async (context) => {
  const backPressure = { policy: 'block', maxQueueSize: 4, maxWaiters: 2000 } as const;
  const pool = livePool(context, { maxWorkers: 2, backPressure });
  let most = 0;
  const calls = Array.from({ length: 1000 }, (_, at) => {
    const call = pool.exec('add', [at, 1]);
    most = Math.max(most, pool.stats().pendingTasks);
    return call;
  });
  const results = await Promise.all(calls);
  assert.deepEqual(results, calls.map((_, at) => at + 1));
  assert.ok(most <= 4, `${most} waited`);
});

test('block: terminate rejects those that wait for a place', async (context) => {
  const { pool, held, running } = await fullPool(context, { policy: 'block', maxQueueSize: 2 });
  const late = pool.exec('add', [4, 0]);
  release(held);
  const ended = pool.terminate();
  assert.equal((await reasonOf(late)).message, 'Pool terminated');
  await running;
  await ended;
});

test('caller-runs: functions run here, methods from the table, others are refused in words', async (context) => {
  const methods = { add: (a: number, b: number) => a + b + 1000 };
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'caller-runs', maxQueueSize: 2, methods });
  assert.equal(await pool.exec('add', [1, 2]), 1003);
  const outside = 40;
  assert.equal(await pool.exec((a: number) => a + outside, [2]), 42);
  assert.throws(() => pool.exec('whoami'), /method "whoami" lives in the worker's script and cannot run/);
  release(held);
  await running;
  assert.deepEqual(await Promise.all(waiting), [1, 2]);
  assert.equal(pool.metrics().tasks.callerRuns, 2);
});

test('back-pressure and drain come as a pair that a producer can pause by', async (context) => {
  const { pool, held, running, waiting } = await fullPool(context, { policy: 'drop-newest', maxQueueSize: 2 });
  const told: string[] = [];
  pool.on('back-pressure', (event) => told.push(`full at ${event.queueSize}`));
  pool.on('drain', (event) => told.push(`room at ${event.queueSize <= 1}`));
  for (let at = 0; at < 3; at++) await reasonOf(pool.exec('add', [9, 9]));
  release(held);
  await Promise.all([running, ...waiting]);
  await until('drain is told', () => told.length === 2);
  assert.deepEqual(told, ['full at 2', 'room at true']);
});
