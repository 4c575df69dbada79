// What a call may carry beyond workerpool's: a signal, a time limit, a trace; many calls as one; a stream of results.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Promise as PoolPromise } from 'millpond';
import type { BatchProgress } from 'millpond';
import { flags, livePool, reasonOf, release, until } from './live.ts';
import { parse } from './exposition.ts';

test('a signal ends a waiting task, which then never runs, and its reason is the cause', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const held = flags();
  const counts = flags();
  const running = pool.exec('hold', [held]);
  const controller = new AbortController();
  const waiting = pool.exec('count', [counts, 0], { signal: controller.signal });
  const reason = new Error('the user left');
  controller.abort(reason);
  const error = await reasonOf(waiting);
  assert.ok(error instanceof PoolPromise.CancellationError);
  assert.equal(error.cause, reason);
  release(held);
  await running;
  await pool.exec('add', [1, 2]);
  assert.equal(counts[0], 0);
});

test('a signal ends a running task as cancel does: abort listeners run and the worker stays', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const state = flags();
  const before = await pool.exec('whoami');
  const controller = new AbortController();
  const running = pool.exec('abortable', [state], { signal: controller.signal });
  await until('it runs', () => Atomics.load(state, 0) === 1);
  controller.abort();
  const error = await reasonOf(running);
  assert.equal((error.cause as Error).name, 'AbortError');
  assert.equal(await pool.exec('whoami'), before);
  assert.equal(Atomics.load(state, 1), 1, 'the listener ran');
});

test('an aborted signal starts nothing; one signal serves many tasks without a warning', async (context) => {
  const pool = livePool(context, { maxWorkers: 2 });
  const counts = flags();
  const error = await reasonOf(pool.exec('count', [counts, 0], { signal: AbortSignal.abort('why') }));
  assert.equal(error.cause, 'why');
  const controller = new AbortController();
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const calls = Array.from({ length: 100 }, (_, at) => pool.exec('add', [at, 1], { signal: controller.signal }));
  await Promise.all(calls);
  await new globalThis.Promise(setImmediate);
  process.off('warning', onWarning);
  assert.deepEqual(warnings, []);
  controller.abort();
  assert.equal(counts[0], 0);
});

test('the timeout option counts from the start and ends the task as .timeout() does', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const held = flags();
  const error = await reasonOf(pool.exec('hold', [held], { timeout: 30 }));
  assert.ok(error instanceof PoolPromise.TimeoutError);
  assert.equal(await pool.exec('add', [1, 2], { timeout: 20_000 }), 3);
});

test('wrong options of a call are thrown at once', (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  assert.throws(() => pool.exec('add', [1, 2], { priority: 'high' as never }), /^TypeError: priority: expected/);
});

test('execBatch gives the results in order, with progress, in flight no more than allowed', async (context) => {
  const pool = livePool(context, { maxWorkers: 2 });
  const progress: BatchProgress[] = [];
  const sums = await pool.execBatch('add', Array.from({ length: 500 }, (_, at) => [at, 1]), {
    concurrency: 16, onProgress: (step) => progress.push(step),
  });
  assert.deepEqual(sums, Array.from({ length: 500 }, (_, at) => at + 1));
  assert.deepEqual(progress.map((step) => step.done), Array.from({ length: 500 }, (_, at) => at + 1));
});

test('execBatch takes different calls, offloaded functions too, and tells each outcome if asked', async (context) => {
  const pool = livePool(context, { maxWorkers: 2 });
  const outcomes = await pool.execBatch([
    ['add', [1, 2]], { method: 'fail', params: ['broken'] }, [(text: string) => text.length, ['four']],
  ], { settled: true });
  const [sum, failure, length] = outcomes as { status: string; value?: unknown; reason?: Error }[];
  assert.deepEqual([sum.value, failure.status, failure.reason?.message, length.value], [3, 'rejected', 'broken', 4]);
  await assert.rejects(async () => await pool.execBatch('fail', [['first'], ['second']]), /first|second/);
});

test('execBatch goes through a queue that refuses', async (context) => {
  const pool = livePool(context, { maxWorkers: 1, backPressure: { policy: 'reject', maxQueueSize: 3 } });
  const sums = await pool.execBatch('add', Array.from({ length: 200 }, (_, at) => [at, 1]), { concurrency: 50 });
  assert.deepEqual(sums, Array.from({ length: 200 }, (_, at) => at + 1));
});

test('cancelling a batch cancels what is in flight; the pool goes on', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const held = flags();
  const batch = pool.execBatch('hold', [[held], [held], [held]]);
  await until('it runs', () => pool.stats().busyWorkers === 1);
  batch.cancel();
  assert.ok((await reasonOf(batch)) instanceof PoolPromise.CancellationError);
  assert.equal(await pool.exec('add', [1, 2]), 3);
  assert.equal(pool.stats().pendingTasks, 0);
});

test('a stream gives what the task emits, in order, and its result at the end', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const stream = pool.stream('emits', [100]);
  const payloads: unknown[] = [];
  for await (const payload of stream) payloads.push(payload);
  assert.deepEqual(payloads, Array.from({ length: 100 }, (_, at) => at));
  assert.equal(await stream.result, '100 emitted');
});

test('leaving a stream early cancels its task, and its worker lives on if it can be aborted', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const before = await pool.exec('whoami');
  const seen: unknown[] = [];
  for await (const payload of pool.stream('emitsUntilAborted')) {
    seen.push(payload);
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, [0, 1, 2]);
  assert.equal(await pool.exec('whoami'), before);
});

test('a stream nobody reads fails at its limit instead of growing', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const held = flags();
  const stream = pool.stream('emits', [1000, held], { bufferSize: 10 });
  const error = await reasonOf(stream.result);
  assert.ok(error instanceof PoolPromise.CancellationError);
  let read = 0;
  const told = await reasonOf((async () => {
    for await (const _ of stream) read += 1;
  })());
  assert.equal(told.name, 'StreamOverflowError');
  assert.equal(read, 10);
});

test('a signal ends a stream', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const controller = new AbortController();
  const error = await reasonOf((async () => {
    for await (const payload of pool.stream('emitsUntilAborted', [], { signal: controller.signal })) {
      if (payload === 2) controller.abort('enough');
    }
  })());
  assert.equal(error.cause, 'enough');
});

test('the traceparent of a call reaches the worker, and spans tell how it went', async (context) => {
  const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const plain = livePool(context, { maxWorkers: 1 });
  assert.equal(await plain.exec('traceparent', [], { traceparent: parent }), parent);
  assert.equal(await plain.exec('traceparent'), undefined);
  const spans: Record<string, any>[] = [];
  const pool = livePool(context, { maxWorkers: 1, telemetry: { onSpan: (span) => spans.push(span) } });
  const inside = await pool.exec('traceparent', [], { traceparent: parent });
  await reasonOf(pool.exec('fail', ['broken']));
  assert.equal(spans.length, 2);
  assert.equal(inside, spans[0].traceparent);
  assert.equal(spans[0].traceId, '0af7651916cd43dd8448eb211c80319c');
  assert.equal(spans[0].parentSpanId, 'b7ad6b7169203331');
  assert.deepEqual([spans[0].status, spans[1].status, spans[1].error.message], ['ok', 'error', 'broken']);
  assert.equal(spans[1].attributes['millpond.outcome'], 'failed');
  assert.ok(spans[0].attributes['millpond.run_ms'] >= 0);
});

test('metrics of a real pool add up, have the plan\'s shape, and can be scraped', async (context) => {
  const pool = livePool(context, { maxWorkers: 2, metrics: { enabled: true, histogramBuckets: [1, 10, 1000] } });
  await Promise.all(Array.from({ length: 300 }, (_, at) => pool.exec('add', [at, 1])));
  await reasonOf(pool.exec('fail', ['x']));
  const picture = pool.metrics();
  assert.deepEqual(Object.keys(picture.throughput), ['tasksPerSecond', 'avgLatencyMs']);
  assert.deepEqual(Object.keys(picture.queue).slice(0, 4), ['size', 'enqueued', 'dequeued', 'stolen']);
  assert.deepEqual(Object.keys(picture.scaling).slice(0, 3), ['scaleUps', 'scaleDowns', 'currentWorkers']);
  assert.deepEqual(Object.keys(picture.latencyHistogram).slice(0, 5), ['p50', 'p90', 'p95', 'p99', 'p999']);
  assert.deepEqual(Object.keys(picture.workers[0]).slice(0, 5), [
    'id', 'activeTasks', 'completedTasks', 'avgTaskTimeMs', 'eluPercent',
  ]);
  assert.deepEqual([picture.tasks.submitted, picture.tasks.completed, picture.tasks.failed], [301, 300, 1]);
  assert.equal(picture.queue.size, 0);
  assert.equal(picture.workers.reduce((sum, worker) => sum + worker.completedTasks, 0), 300);
  const { p50, p99, maxMs, count } = picture.latencyHistogram;
  assert.ok(p50 > 0 && p50 <= p99 && p99 <= maxMs * 1.02, JSON.stringify(picture.latencyHistogram));
  assert.ok(count > 0 && picture.throughput.tasksPerSecond > 0 && picture.throughput.avgLatencyMs > 0);
  const samples = parse(pool.metricsPrometheus({ pool: 'p' }));
  assert.equal(samples.get('workerpool_tasks_total{pool="p",status="completed"}'), 300);
  assert.equal(samples.get('workerpool_task_duration_seconds_bucket{pool="p",le="+Inf"}'), count);
});

test('metrics begin with the first look; turned off they still tell what the workers know', async (context) => {
  const later = livePool(context, { maxWorkers: 1 });
  await later.exec('add', [1, 2]);
  assert.equal(later.metrics().tasks.completed, 1);
  await later.exec('add', [1, 2]);
  assert.deepEqual([later.metrics().tasks.completed, later.metrics().latencyHistogram.count], [2, 1]);
  const off = livePool(context, { maxWorkers: 1, metrics: false });
  await off.exec('add', [1, 2]);
  assert.deepEqual([off.metrics().tasks.completed, off.metrics().latencyHistogram.count], [1, 0]);
});
