// Strategies, stealing and affinity through real threads: a task runs once wherever it goes, and goes where it should.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Pool, WorkerInfo } from 'millpond';
import { flags, livePool, release, until } from './live.ts';

const NAMES = [
  'round-robin', 'least-used', 'least-busy', 'least-elu', 'weighted-round-robin', 'fair-share', 'interleaved-weighted',
  'power-of-two', 'random',
] as const;

async function allReady(pool: Pool, count: number): Promise<void> {
  await until(`${count} workers are ready`, () => pool.workers.filter((handle) => handle.ready).length === count);
}

for (const name of NAMES) {
  test(`${name} gives every task to somebody, and both workers get some`, async (context) => {
    const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, workerChoiceStrategy: name });
    await allReady(pool, 2);
    const ids = await Promise.all(Array.from({ length: 200 }, () => pool.exec('whoami')));
    assert.equal(new Set(ids).size, 2);
  });
}

test('round-robin alternates', async (context) => {
  const pool = livePool(context, { minWorkers: 3, maxWorkers: 3, workerChoiceStrategy: 'round-robin' });
  await allReady(pool, 3);
  const ids: unknown[] = [];
  for (let at = 0; at < 9; at++) ids.push(await pool.exec('whoami'));
  assert.equal(new Set(ids.slice(0, 3)).size, 3);
  assert.deepEqual(ids.slice(3, 6), ids.slice(0, 3));
  assert.deepEqual(ids.slice(6, 9), ids.slice(0, 3));
});

test('least-elu picks the worker whose loop has been idle', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, workerChoiceStrategy: 'least-elu' });
  await allReady(pool, 2);
  const busy = await pool.exec('spin', [400]);
  const next = await pool.exec('whoami');
  assert.notEqual(next, busy);
});

test('a custom function decides, and sees what the plan promises it', async (context) => {
  let seen: readonly WorkerInfo[] = [];
  const pool = livePool(context, {
    minWorkers: 2,
    maxWorkers: 2,
    taskStealing: false,
    workerChoiceStrategy: (workers, task) => {
      seen = workers;
      return task.method === 'whoami' ? workers[1] : workers[0];
    },
  });
  await allReady(pool, 2);
  const second = await pool.exec('whoami');
  const ids = await Promise.all(Array.from({ length: 20 }, () => pool.exec('whoami')));
  assert.deepEqual(new Set(ids), new Set([second]));
  assert.notEqual(await pool.exec('spin', [1]), second);
  assert.equal(seen.length, 2);
  const fields: (keyof WorkerInfo)[] = [
    'id', 'state', 'taskCount', 'activeTasks', 'queuedTasks', 'averageTaskTime', 'lastTaskTime', 'idleTime', 'weight',
    'eluPercent',
  ];
  for (const field of fields) assert.equal(typeof seen[1][field], 'number', field);
});

test('hot swap under load loses nothing and doubles nothing', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, workerChoiceStrategy: 'round-robin' });
  const counts = flags(3000);
  const strategies = [...NAMES, undefined, (workers: readonly WorkerInfo[]) => workers[0]];
  const calls = [];
  for (let at = 0; at < 3000; at++) {
    if (at % 50 === 0) pool.setWorkerChoiceStrategy(strategies[(at / 50) % strategies.length]);
    calls.push(pool.exec('count', [counts, at]));
    if (at % 200 === 0) await calls[at];
  }
  await Promise.all(calls);
  assert.deepEqual(counts.filter((runs) => runs !== 1), new Int32Array());
});

test('a stolen task runs once: one worker is given everything, the other helps', async (context) => {
  const pool = livePool(context, {
    minWorkers: 2,
    maxWorkers: 2,
    metrics: true,
    taskStealing: { enabled: true, stealSize: 'half', stealCooldown: 0 },
    workerChoiceStrategy: (workers) => workers[0],
  });
  await allReady(pool, 2);
  const counts = flags(400);
  const ids = await Promise.all(Array.from({ length: 400 }, (_, at) => pool.exec('count', [counts, at, 0.5])));
  assert.deepEqual(counts.filter((runs) => runs !== 1), new Int32Array());
  assert.equal(new Set(ids).size, 2, 'the idle worker took its part');
  assert.ok(pool.metrics().queue.stolen > 0);
});

test('without stealing everything stays where it was put', async (context) => {
  const pool = livePool(context, {
    minWorkers: 2, maxWorkers: 2, taskStealing: { enabled: false }, workerChoiceStrategy: (workers) => workers[0],
  });
  await allReady(pool, 2);
  const counts = flags(100);
  const ids = await Promise.all(Array.from({ length: 100 }, (_, at) => pool.exec('count', [counts, at, 0.2])));
  assert.equal(new Set(ids).size, 1);
});

test('a key stays on its worker under load, and all its tasks move when the worker dies', async (context) => {
  const pool = livePool(context, { minWorkers: 3, maxWorkers: 3, affinity: { enabled: true } });
  await allReady(pool, 3);
  const keys = Array.from({ length: 12 }, (_, at) => `user:${at}`);
  const run = async (): Promise<Map<string, unknown>> => {
    const calls = keys.flatMap((affinity) => Array.from({ length: 20 }, () => pool.exec('whoami', [], { affinity })));
    const ids = await Promise.all(calls);
    return new Map(keys.map((key, at) => {
      const own = new Set(ids.slice(20 * at, 20 * at + 20));
      assert.equal(own.size, 1, `${key} was on ${own.size} workers`);
      return [key, [...own][0]];
    }));
  };
  const before = await run();
  assert.deepEqual(await run(), before);
  const victim = before.get(keys[0]);
  const gone = new globalThis.Promise((resolve) => pool.once('worker-exited', resolve));
  await assert.rejects(async () => await pool.exec('crash', [], { affinity: keys[0] }));
  await gone;
  const after = await run();
  for (const key of keys) {
    if (before.get(key) === victim) assert.notEqual(after.get(key), victim);
    else assert.equal(after.get(key), before.get(key), `${key} had no reason to move`);
  }
  const { affinity } = pool.metrics();
  assert.ok(affinity.hitRate > 0.9, String(affinity.hitRate));
  assert.ok(affinity.moved >= 1);
});

test('a key works without any option, and waits for its worker although another is idle', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2 });
  await allReady(pool, 2);
  const held = flags();
  const first = pool.exec('hold', [held], { affinity: 'k' });
  const second = pool.exec('whoami', [], { affinity: 'k' });
  const other = await pool.exec('whoami');
  assert.equal(second.pending, true);
  release(held);
  assert.equal(await second, await first);
  assert.notEqual(await second, other);
});

test('higher priorities leave the queue first, equals in their order', async (context) => {
  const pool = livePool(context, { maxWorkers: 1 });
  const held = flags();
  const running = pool.exec('hold', [held]);
  await until('it runs', () => pool.stats().busyWorkers === 1 && pool.workers[0].ready);
  // One may be handed to the worker ahead of its turn: let that be this one.
  const list = flags(8);
  const calls = [pool.exec('note', [list, 50])];
  for (const [name, priority] of [[1, 0], [2, -5], [3, 10], [4, 10], [5, 0]]) {
    calls.push(pool.exec('note', [list, name], { priority }));
  }
  release(held);
  await Promise.all([running, ...calls]);
  assert.deepEqual([...list.slice(1, 7)], [50, 3, 4, 1, 5, 2]);
});

test('where WebAssembly is missing everything still works, by messages and least-busy, with one warning', () => {
  const program = `
    delete globalThis.WebAssembly;
    const { pool } = await import('millpond');
    const busy = pool({ minWorkers: 2, maxWorkers: 2, workerChoiceStrategy: 'fair-share', metrics: true });
    const warnings = [];
    busy.on('warning', (event) => warnings.push(event.code));
    const sums = await busy.execBatch((a, b) => a + b, [[1, 2], [3, 4]], { affinity: 'k' });
    busy.setWorkerChoiceStrategy('round-robin');
    const { latencyHistogram } = busy.metrics();
    console.log(JSON.stringify([sums, warnings, latencyHistogram.count, latencyHistogram.p50 > 0]));
    await busy.terminate();
  `;
  const here = fileURLToPath(new URL('.', import.meta.url));
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: here, encoding: 'utf8' });
  assert.equal(child.stdout, '[[3,7],["no-wasm"],2,true]\n', child.stderr);
});

test('useWasm: false decides in plain JavaScript and warns once', async (context) => {
  const pool = livePool(context, { minWorkers: 2, maxWorkers: 2, useWasm: false, workerChoiceStrategy: 'fair-share' });
  const warnings: string[] = [];
  pool.on('warning', (event) => warnings.push(event.message));
  const calls = Array.from({ length: 50 }, (_, at) => pool.exec('add', [at, 1], { affinity: `k${at % 3}` }));
  const sums = await Promise.all(calls);
  assert.deepEqual(sums, sums.map((_, at) => at + 1));
  assert.deepEqual(warnings, ['workerChoiceStrategy fair-share: needs WebAssembly, least-busy is used instead']);
  assert.equal(pool.metrics().workers.length, 2);
});
