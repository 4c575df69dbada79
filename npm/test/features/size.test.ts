// How many workers, and which must go: decisions with a clock of the test's own, so that none of them hangs on timing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ScalingEvent } from '../../src/events.ts';
import { readOptions } from '../../src/options.ts';
import type { RecycleOptions, ScalingOptions } from '../../src/options.ts';
import { PlainBrain } from '../../src/plain-brain.ts';
import { Recycler } from '../../src/recycle.ts';
import { Scaler } from '../../src/scaling.ts';
import type { WorkerHandle } from '../../src/workers/handle.ts';
import { FakeHandle, FakePool } from './fake-pool.ts';

function scalerWith(options: ScalingOptions, workers = 1) {
  const pool = new FakePool();
  for (let id = 0; id < workers; id++) pool.handles.push(new FakeHandle(id, 0));
  const limits = { minWorkers: undefined, maxWorkers: 4, maxQueueSize: Infinity };
  const settings = readOptions({ scaling: { cooldownPeriod: 100, ...options } }, limits).scaling!;
  return { pool, scaler: new Scaler(settings, new PlainBrain(), pool) };
}

test('it grows by steps while the load stays high, up to the most, and tells each step with its reason', () => {
  const heard: [string, ScalingEvent][] = [];
  const { pool, scaler } = scalerWith({ scaleUpStep: 2, onScaling: (type, event) => heard.push([type, event]) });
  assert.equal(pool.growLimit, 1, 'exec itself makes only the least');
  for (let at = 0; at < 50; at++) pool.waiting.push(pool.task());
  scaler.sample(1000);
  assert.equal(pool.handles.length, 1, 'one sample is not a trend');
  scaler.sample(2000);
  assert.equal(pool.handles.length, 3);
  scaler.sample(2050);
  assert.equal(pool.handles.length, 3, 'it cools down');
  for (const now of [3000, 4000, 5000, 6000]) scaler.sample(now);
  assert.equal(pool.handles.length, 4);
  assert.equal(scaler.scaleUps, 2);
  assert.deepEqual(heard.map(([type, event]) => [type, event.added, event.totalWorkers]), [
    ['scale-up', 2, 3], ['scale-up', 1, 4],
  ]);
  assert.match(heard[0][1].reason, /tasks for each worker/);
  assert.deepEqual(pool.emitted.map(([event]) => event), ['scale-up', 'scale-up']);
});

test('it shrinks when workers have long been idle, not below the least, and not while tasks wait', () => {
  const { pool, scaler } = scalerWith({ minWorkers: 2, scaleDownIdleTimeout: 500 }, 4);
  pool.waiting.push(pool.task());
  scaler.sample(400);
  pool.waiting = [];
  scaler.sample(450);
  assert.equal(pool.handles.length, 4, 'idle, but not for long');
  for (let now = 1000; now < 5000; now += 500) scaler.sample(now);
  assert.equal(pool.handles.length, 2);
  assert.equal(scaler.scaleDowns, 2);
  assert.equal(pool.growLimit, 2);
  const told = pool.emitted.map(([event, detail]) => [event, detail.removed]);
  assert.deepEqual(told, [['scale-down', 1], ['scale-down', 1]]);
});

test('an unused pool is left alone', () => {
  const { pool, scaler } = scalerWith({ minWorkers: 2 }, 0);
  scaler.sample(1000);
  assert.equal(pool.handles.length, 0);
});

test('the timers of scaling and recycling keep no program alive and stop', () => {
  const { pool, scaler } = scalerWith({ interval: 1 });
  const recycler = new Recycler({ maxAgeMs: 5 }, pool, () => {});
  const refs = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = refs();
  scaler.start();
  recycler.start();
  assert.equal(refs(), before, 'unref\'ed timers are not counted as active');
  scaler.stop();
  recycler.stop();
});

function recyclerWith(settings: RecycleOptions, workers = 3) {
  const pool = new FakePool();
  for (let id = 0; id < workers; id++) pool.handles.push(new FakeHandle(id, 0));
  const warnings: string[] = [];
  const recycler = new Recycler(settings, pool, (message) => warnings.push(message));
  return { pool, recycler, warnings };
}

test('a worker goes after its last task but not before, and once', () => {
  const { pool, recycler } = recyclerWith({ maxTasks: 3 });
  const handle = pool.handles[1];
  for (let count = 1; count <= 4; count++) {
    handle.completed = count;
    recycler.answered(handle as unknown as WorkerHandle);
    assert.deepEqual(pool.recycled, count < 3 ? [] : [1]);
  }
});

test('workers that grow old together go one after the other', () => {
  const { pool, recycler } = recyclerWith({ maxAgeMs: 100 });
  recycler.look(100);
  assert.deepEqual(pool.recycled, [], 'old, but they have run nothing yet');
  for (const handle of pool.handles) handle.completed = 1;
  recycler.look(99);
  assert.deepEqual(pool.recycled, []);
  recycler.look(100);
  assert.deepEqual(pool.recycled, [0]);
  pool.handles.push(Object.assign(new FakeHandle(3, 100), { ready: false }));
  recycler.look(150);
  assert.deepEqual(pool.recycled, [0], 'the successor is not ready');
  pool.handles[3].ready = true;
  recycler.look(160);
  assert.deepEqual(pool.recycled, [0, 1]);
});

test('a large heap is a reason where workers can tell it, and a warning where they cannot', () => {
  const { pool, recycler, warnings } = recyclerWith({ maxHeapUsedMb: 10 }, 2);
  pool.handles[0].heap = 9 * 1024 * 1024;
  pool.handles[1].heap = 11 * 1024 * 1024;
  recycler.look(0);
  recycler.look(1);
  assert.deepEqual(pool.recycled, [1]);
  const silent = recyclerWith({ maxHeapUsedMb: 10 });
  silent.recycler.look(0);
  silent.recycler.look(1);
  assert.deepEqual(silent.warnings.length, 1);
  assert.match(silent.warnings[0], /^recycle.maxHeapUsedMb: these workers cannot tell their heap/);
  assert.equal(warnings.length, 0);
});
