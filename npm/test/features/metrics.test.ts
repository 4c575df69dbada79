// Metrics are what people act upon at night: their shape is a promise, their numbers must add up, and nobody may pay
// for them in throughput.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics, SlidingRate } from '../../src/metrics.ts';
import type { FeatureCounts } from '../../src/metrics.ts';
import { PlainBrain } from '../../src/plain-brain.ts';
import { prometheusText } from '../../src/prometheus.ts';
import { Utilisation } from '../../src/utilisation.ts';
import type { WorkerHandle } from '../../src/workers/handle.ts';
import { parse } from './exposition.ts';
import { FakeHandle, FakePool } from './fake-pool.ts';

const COUNTS: FeatureCounts = {
  scaleUps: 3, scaleDowns: 1, policy: 'block', pressureEvents: 5, rejected: 2, callerRuns: 1, blocked: 4,
  affinityHits: 3, affinityMisses: 1, affinityMoved: 2,
};

function meteredPool() {
  const pool = new FakePool();
  pool.handles.push(new FakeHandle(0), new FakeHandle(1));
  const metrics = new Metrics(pool, new PlainBrain().histogram(), [1, 5, 10], new Utilisation(), false);
  return { pool, metrics };
}

test('the picture has the shape of workerpool\'s plan', () => {
  const { pool, metrics } = meteredPool();
  Object.assign(pool.handles[0], { completed: 1234, given: 3, backlog: 2, runMeanMs: 5.2, share: 0.45 });
  pool.handles[0].lastTaskAt = 0;
  const picture = metrics.snapshot(COUNTS);
  const shape: Record<string, readonly string[]> = {
    throughput: ['tasksPerSecond', 'avgLatencyMs'],
    queue: ['size', 'enqueued', 'dequeued', 'stolen'],
    scaling: ['scaleUps', 'scaleDowns', 'currentWorkers'],
    latencyHistogram: ['p50', 'p90', 'p95', 'p99', 'p999'],
  };
  for (const [group, fields] of Object.entries(shape)) {
    const values = picture[group as keyof typeof picture] as unknown as Record<string, unknown>;
    for (const field of fields) assert.equal(typeof values[field], 'number', `${group}.${field}`);
  }
  assert.equal(picture.workers.length, 2);
  const { id, activeTasks, completedTasks, avgTaskTimeMs, queuedTasks } = picture.workers[0];
  assert.deepEqual([id, activeTasks, completedTasks, avgTaskTimeMs, queuedTasks], [0, 1, 1234, 5.2, 4]);
  for (const worker of picture.workers) assert.equal(typeof worker.eluPercent, 'number');
  assert.equal(picture.affinity.hitRate, 0.75);
});

test('every task is in exactly one ending, and what left the queue is what came less what waits', () => {
  const { pool, metrics } = meteredPool();
  const endings = ['done', 'done', 'failed', 'crashed', 'cancelled', 'timed-out', 'dropped', 'terminated'] as const;
  for (const ending of endings) {
    const task = pool.task();
    metrics.submitted(task);
    metrics.settled(task, ending);
  }
  const waiting = pool.task();
  metrics.submitted(waiting);
  pool.waiting.push(waiting);
  metrics.stolen(4);
  metrics.workerRemoved('recycled');
  metrics.workerRemoved('crashed');
  metrics.workerRemoved('idle');
  const { tasks, queue, scaling, latencyHistogram } = metrics.snapshot(COUNTS);
  assert.deepEqual(tasks, {
    submitted: 9, completed: 2, failed: 3, cancelled: 1, timedOut: 1, dropped: 1, rejected: 2, callerRuns: 1,
  });
  assert.deepEqual(queue, { size: 1, enqueued: 9, dequeued: 8, stolen: 4, maxSize: Infinity });
  assert.deepEqual([scaling.recycled, scaling.crashed], [1, 1]);
  assert.equal(latencyHistogram.count, 7, 'all but the dropped one were timed');
});

test('turned on late, the counts begin with what the workers have done', () => {
  const pool = new FakePool();
  pool.handles.push(Object.assign(new FakeHandle(0), { completed: 40, failed: 2, given: 1 }));
  pool.waiting.push(pool.task());
  const metrics = new Metrics(pool, new PlainBrain().histogram(), [1], new Utilisation(), false);
  const { tasks, queue } = metrics.snapshot(COUNTS);
  assert.deepEqual([tasks.submitted, tasks.completed, tasks.failed, queue.dequeued], [44, 40, 2, 43]);
});

test('at high rates few tasks are timed and stand for the others; at low rates all are', () => {
  const { pool, metrics } = meteredPool();
  let timed = 0;
  const run = (count: number): void => {
    for (let at = 0; at < count; at++) {
      const task = pool.task();
      metrics.submitted(task);
      timed += task.submittedAt > 0 ? 1 : 0;
      metrics.settled(task, 'done');
    }
  };
  run(50);
  assert.equal(timed, 50);
  const until = performance.now() + 150;
  let total = 50;
  while (performance.now() < until) {
    run(1000);
    total += 1000;
  }
  assert.ok(timed < total / 4, `timed ${timed} of ${total}`);
  const { count } = metrics.snapshot(COUNTS).latencyHistogram;
  assert.ok(total - count >= 0 && total - count < 64, `${count} stand for ${total}`);
});

test('throughput is that of the last ten seconds', () => {
  const rate = new SlidingRate(0, 0);
  let ended = 0;
  for (let now = 100; now <= 20_000; now += 100) rate.note(now, ++ended, 5);
  const steady = rate.read(20_000, ended);
  assert.ok(Math.abs(steady.perSecond - 10) < 0.5, String(steady.perSecond));
  assert.equal(steady.latencyMs / steady.timed, 5);
  assert.equal(rate.read(60_000, ended).perSecond, 0, 'nothing in the last ten seconds');
  rate.note(60_000, ++ended, 7);
  rate.note(60_500, ++ended, 7);
  const again = rate.read(61_000, ended);
  assert.equal(again.perSecond, 0.2);
  assert.equal(again.latencyMs / again.timed, 7);
  assert.equal(new SlidingRate(0, 0).read(1000, 5).perSecond, 5, 'a young pool is measured over its age');
});

test('utilisation is what the worker tells, and what was seen of it where it cannot tell', () => {
  const utilisation = new Utilisation();
  const handle = new FakeHandle(0, 0);
  const share = (now: number): number => utilisation.share(handle as unknown as WorkerHandle, now);
  handle.share = 0.25;
  assert.equal(share(1000), 0.25);
  handle.share = 0.75;
  assert.equal(share(1050), 0.25, 'looked at a moment ago');
  assert.equal(share(1200), 0.75);
  handle.share = undefined;
  Object.assign(handle, { completed: 10, runMeanMs: 50 });
  assert.equal(share(2200), 0.5, 'ten tasks of 50 ms in a second');
  handle.given = 1;
  assert.equal(share(3200), 0, 'nothing ended, and it was not busy before');
  assert.equal(share(4200), 1, 'busy all the while');
});

test('the Prometheus text can be read line by line: HELP, TYPE, then samples that belong to them', () => {
  const { pool, metrics } = meteredPool();
  for (const latency of [0.5, 0.7, 3, 20]) {
    const task = pool.task();
    metrics.submitted(task);
    task.submittedAt = performance.now() - latency;
    metrics.settled(task, 'done');
  }
  const text = prometheusText(metrics.snapshot(COUNTS), { pool: 'a "b"\\\n' });
  const samples = parse(text);
  const value = (name: string, labels: string): number | undefined =>
    samples.get(`${name}{pool="a \\"b\\"\\\\\\n"${labels}}`);
  assert.equal(value('workerpool_tasks_total', ',status="completed"'), 4);
  assert.equal(value('workerpool_task_duration_seconds_bucket', ',le="0.001"'), 2);
  assert.equal(value('workerpool_task_duration_seconds_bucket', ',le="0.005"'), 3);
  assert.equal(value('workerpool_task_duration_seconds_bucket', ',le="0.01"'), 3);
  assert.equal(value('workerpool_task_duration_seconds_bucket', ',le="+Inf"'), 4);
  assert.equal(value('workerpool_task_duration_seconds_count', ''), 4);
  assert.equal(value('workerpool_queue_size_max', ''), Infinity);
  assert.equal(value('workerpool_scaling_events_total', ',direction="up"'), 3);
  assert.equal(value('workerpool_back_pressure_total', ',policy="block"'), 5);
  assert.equal(value('workerpool_worker_tasks_total', ',worker="1"'), 0);
});

test('label names that would break or shadow a line are refused', () => {
  const picture = meteredPool().metrics.snapshot(COUNTS);
  for (const name of ['a-b', 'le', '__name__']) {
    assert.throws(() => prometheusText(picture, { [name]: 'x' }), /^TypeError: labels: expected names of letters/);
  }
  assert.throws(() => prometheusText(picture, { a: 1 as never }), /labels.a: expected a string, got number$/);
});
