// Everything at once: keys, priorities, strategies swapped, workers that crash or are recycled, cancelled calls.
// Whatever happens, each call ends exactly once, nothing runs twice, and the counts add up when the pool is at rest.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import type { PoolOptions, StrategyOption } from 'millpond';
import { flags, livePool, until } from './live.ts';

/** A small generator of numbers, so that a failure can be run again: CHAOS_SEED=n. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const STRATEGIES: readonly (StrategyOption | undefined)[] = [
  'round-robin', 'least-busy', 'fair-share', 'least-elu', undefined, (workers) => workers[0], 'interleaved-weighted',
];

async function chaos(context: TestContext, options: PoolOptions, calls: number): Promise<void> {
  const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1e6);
  context.diagnostic(`CHAOS_SEED=${seed}`);
  const random = generator(seed);
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 3, metrics: true, ...options });
  const counts = flags(calls);
  const endings: string[] = new Array(calls).fill('none');
  const all = Array.from({ length: calls }, async (_, at) => {
    // Spread over turns of the loop, so that answers and calls mix.
    for (let turns = random(40); turns > 0; turns--) await new globalThis.Promise(setImmediate);
    if (random(25) === 0) pool.setWorkerChoiceStrategy(STRATEGIES[random(STRATEGIES.length)]);
    const kind = random(100);
    const key = random(3) === 0 ? `key${random(5)}` : undefined;
    const call = kind === 0
      ? pool.exec('crash', [], { affinity: key })
      : pool.exec('count', [counts, at, random(3) * 0.2], { affinity: key, priority: random(5) - 2 });
    if (kind === 1) call.cancel();
    else if (kind === 2) setTimeout(() => call.cancel(), random(5));
    try {
      await call;
      assert.equal(endings[at], 'none');
      endings[at] = 'done';
    } catch {
      assert.equal(endings[at], 'none');
      endings[at] = 'failed';
    }
  });
  await Promise.all(all);
  await until('the pool is at rest', () => pool.stats().pendingTasks === 0 && pool.stats().busyWorkers === 0);
  endings.forEach((ending, at) => {
    assert.ok(counts[at] <= 1, `call ${at} ran ${counts[at]} times (seed ${seed})`);
    if (ending === 'done') assert.equal(counts[at], 1, `call ${at} has a result and did not run (seed ${seed})`);
  });
  const { tasks } = pool.metrics();
  assert.equal(tasks.submitted, calls);
  const ended = tasks.completed + tasks.failed + tasks.cancelled + tasks.timedOut + tasks.dropped;
  assert.equal(ended, calls, JSON.stringify(tasks));
  assert.equal(tasks.completed, endings.filter((ending) => ending === 'done').length);
  assert.equal(await pool.exec('add', [1, 2]), 3);
}

test('with routing and stealing', async (context) => {
  await chaos(context, { workerChoiceStrategy: 'round-robin' }, 300);
});

test('by messages, with a queue that blocks', async (context) => {
  await chaos(context, {
    transport: 'messages', backPressure: { policy: 'block', maxQueueSize: 10 }, affinity: true,
  }, 300);
});

test('with recycling, scaling and a blocking queue', async (context) => {
  await chaos(context, {
    workerChoiceStrategy: 'least-busy',
    recycle: { maxTasks: 40 },
    scaling: { minWorkers: 2, maxWorkers: 3, interval: 5, cooldownPeriod: 0, scaleDownIdleTimeout: 5 },
    backPressure: { policy: 'block', maxQueueSize: 50 },
  }, 300);
});

test('in child processes', async (context) => {
  const pool = livePool(context, {
    workerType: 'process', minWorkers: 2, maxWorkers: 2, workerChoiceStrategy: 'least-elu', metrics: true,
  });
  const sums = await pool.execBatch('add', Array.from({ length: 100 }, (_, at) => [at, 1]), { affinity: 'k' });
  assert.deepEqual(sums, sums.map((_, at) => at + 1));
  const payloads: unknown[] = [];
  for await (const payload of pool.stream('emits', [5])) payloads.push(payload);
  assert.deepEqual(payloads, [0, 1, 2, 3, 4]);
  for (const worker of pool.metrics().workers) assert.ok(worker.eluPercent >= 0 && worker.eluPercent <= 100);
});
