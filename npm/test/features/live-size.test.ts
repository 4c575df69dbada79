// The number of workers follows the load, and no task is lost when workers come, go or are replaced.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolEventMap } from 'millpond';
import { flags, livePool, release, until } from './live.ts';

test('it scales up under load and down when idle, and tells both with their reasons', async (context) => {
  const pool = livePool(context, {
    maxWorkers: 3,
    scaling: { interval: 5, cooldownPeriod: 10, scaleDownIdleTimeout: 40, samples: 2 },
  });
  const events: PoolEventMap['scale-up'][] = [];
  pool.on('scale-up', (event) => events.push(event)).on('scale-down', (event) => events.push(event));
  const held = flags();
  const calls = Array.from({ length: 12 }, () => pool.exec('hold', [held]));
  assert.equal(pool.stats().totalWorkers, 1, 'exec itself makes only the first');
  await until('three workers', () => pool.stats().totalWorkers === 3);
  release(held);
  await Promise.all(calls);
  await until('one worker', () => pool.stats().totalWorkers === 1);
  const ups = events.filter((event) => event.type === 'scale-up');
  const downs = events.filter((event) => event.type === 'scale-down');
  assert.equal(ups.reduce((sum, event) => sum + event.added, 0), 2);
  assert.equal(downs.reduce((sum, event) => sum + event.removed, 0), 2);
  for (const event of events) assert.ok(event.reason.length > 0);
  const { scaling } = pool.metrics();
  assert.deepEqual([scaling.scaleUps, scaling.scaleDowns, scaling.maxWorkers], [ups.length, downs.length, 3]);
  assert.equal(await pool.exec('add', [1, 2]), 3);
});

test('scaling of its own limits, and work that comes while workers go', async (context) => {
  const pool = livePool(context, {
    scaling: {
      minWorkers: 1, maxWorkers: 3, interval: 2, cooldownPeriod: 0, scaleDownIdleTimeout: 1, samples: 1,
      scaleUpThreshold: 1, scaleUpStep: 2, scaleDownStep: 2,
    },
  });
  assert.equal(pool.maxWorkers, 3);
  for (let round = 0; round < 10; round++) {
    const sums = await Promise.all(Array.from({ length: 25 }, (_, at) => pool.exec('add', [at, round])));
    assert.deepEqual(sums, sums.map((_, at) => at + round));
    await new globalThis.Promise((resolve) => setTimeout(resolve, 2 * (round % 8)));
  }
  assert.ok(pool.stats().totalWorkers <= 3);
});

test('predictive scaling is accepted and still obeys its limits', async (context) => {
  const pool = livePool(context, {
    maxWorkers: 2, scaling: { interval: 2, cooldownPeriod: 0, predictive: { horizon: 1000, halfLife: 50 } },
  });
  for (let round = 0; round < 50; round++) await Promise.all([1, 2, 3].map((value) => pool.exec('spin', [value / 10])));
  assert.ok(pool.stats().totalWorkers <= 2);
  assert.equal(await pool.exec('add', [1, 2]), 3);
});

for (const transport of ['auto', 'messages'] as const) {
  test(`recycling after five tasks loses none and gives no worker a sixth (${transport})`, async (context) => {
    const pool = livePool(context, { maxWorkers: 2, transport, metrics: true, recycle: { maxTasks: 5 } });
    const counts = flags(30);
    const ids = await Promise.all(Array.from({ length: 30 }, (_, at) => pool.exec('count', [counts, at])));
    assert.deepEqual(counts.filter((runs) => runs !== 1), new Int32Array());
    const perWorker = new Map<unknown, number>();
    for (const id of ids) perWorker.set(id, (perWorker.get(id) ?? 0) + 1);
    for (const [id, tasks] of perWorker) assert.ok(tasks <= 5, `worker ${id} ran ${tasks}`);
    await until('they have gone', () => pool.metrics().scaling.recycled >= 5);
  });
}

test('a worker whose heap has grown too large is replaced, the others are not', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, metrics: true, recycle: { maxHeapUsedMb: 60 } });
  const large = await pool.exec('hoard', [100]);
  await until('it has gone', () => pool.metrics().scaling.recycled === 1);
  await until('its successor is ready', () => pool.workers.filter((handle) => handle.ready).length === 2);
  const ids = await Promise.all(Array.from({ length: 40 }, () => pool.exec('sleep', [1])));
  assert.ok(!ids.includes(large));
  assert.equal(pool.metrics().scaling.recycled, 1);
});

test('recycling by age replaces workers under load without losing a task', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, metrics: true, recycle: { maxAgeMs: 150 } });
  const counts = flags(100_000);
  let made = 0;
  while (pool.metrics().scaling.recycled < 2 && made < 100_000) {
    const calls = Array.from({ length: 50 }, () => pool.exec('count', [counts, made++]));
    await Promise.all(calls);
  }
  assert.ok(pool.metrics().scaling.recycled >= 2);
  assert.deepEqual(counts.slice(0, made).filter((runs) => runs !== 1), new Int32Array());
});
