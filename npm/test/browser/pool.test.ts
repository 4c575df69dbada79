// The pool in a real browser, with shared memory and without: the same promises either way.
//
// Most pages of the world are not cross-origin isolated, so what works only with shared memory does not work. Every
// test here that does not speak of the transport itself runs on both kinds of pages.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Chromium, type Visit } from './chromium.ts';

let browser: Chromium;
before(async () => {
  browser = await Chromium.start();
});
after(() => browser.stop());

const MODULE = `millpond.pool('/workers/methods-module.js', { maxWorkers: 2, workerOpts: { type: 'module' } })`;

/** Runs the body on both kinds of pages; `check` gets what it answered. */
function onBothPages(promise: string, body: string, check: (answer: any, visit: Visit) => void): void {
  for (const isolated of [true, false]) {
    test(`${promise} (${isolated ? 'isolated' : 'not isolated'})`, () =>
      browser.visit({ isolated }, async (visit) => {
        check(await visit.run(body), visit);
        assert.deepEqual(visit.faults, []);
      }));
  }
}

test('an isolated page shares memory with its workers, and another says why it cannot', async () => {
  const body = `
    const shared = millpond.pool({ maxWorkers: 1, transport: 'shared' });
    const sum = await shared.exec((a, b) => a + b, [1, 2]);
    await shared.terminate();
    return { sum, isolated: crossOriginIsolated };
  `;
  await browser.visit({ isolated: true }, async (visit) => {
    assert.deepEqual(await visit.run(body), { sum: 3, isolated: true });
  });
  await browser.visit({ isolated: false }, async (visit) => {
    await assert.rejects(visit.run(body), /COOP|cross-origin/);
  });
});

onBothPages('functions run in workers', `
  const pool = millpond.pool({ maxWorkers: 2 });
  const squares = await Promise.all([1, 2, 3, 4].map((n) => pool.exec((n) => n * n, [n])));
  const inWorker = await pool.exec(() => typeof document, []);
  await pool.terminate();
  return { squares, inWorker };
`, (answer) => assert.deepEqual(answer, { squares: [1, 4, 9, 16], inWorker: 'undefined' }));

onBothPages('a thousand tasks in flight come back to their own callers', `
  const pool = ${MODULE};
  const sums = await Promise.all(Array.from({ length: 1000 }, (_, n) => pool.exec('add', [n, n])));
  await pool.terminate();
  return sums.every((sum, n) => sum === 2 * n);
`, (answer) => assert.equal(answer, true));

onBothPages('module and classic scripts both serve', `
  const pools = [${MODULE}, millpond.pool('/workers/methods-classic.js', { maxWorkers: 1 })];
  const sums = await Promise.all(pools.map((pool) => pool.exec('add', [20, 22])));
  const isolated = await Promise.all(pools.map((pool) => pool.exec('isolated', [])));
  await Promise.all(pools.map((pool) => pool.terminate()));
  return { sums, agree: isolated.every((one) => one === crossOriginIsolated) };
`, (answer) => assert.deepEqual(answer, { sums: [42, 42], agree: true }));

onBothPages('errors keep their words, and events and buffers their way', `
  const pool = ${MODULE};
  const failed = await pool.exec('fail').catch((error) => error.message);
  const steps = [];
  const told = await pool.exec('tell', [3], { on: (payload) => steps.push(payload.step) });
  const buffer = new Uint8Array([1, 2, 3]).buffer;
  const doubled = await pool.exec('double', [buffer], { transfer: [buffer] });
  await pool.terminate();
  return { failed, told, steps, left: buffer.byteLength, doubled: [...new Uint8Array(doubled)] };
`, (answer) => {
  assert.deepEqual(answer, { failed: 'as told', told: 'told', steps: [1, 2, 3], left: 0, doubled: [2, 4, 6] });
});

onBothPages('a task that spins is timed out or cancelled, and the pool lives', `
  const pool = ${MODULE};
  const late = await pool.exec('spin').timeout(50).catch((error) => error instanceof millpond.Promise.TimeoutError);
  const running = pool.exec('spin');
  running.cancel();
  const gone = await running.catch((error) => error instanceof millpond.Promise.CancellationError);
  const sum = await pool.exec('add', [1, 1]);
  await pool.terminate(true);
  return { late, gone, sum };
`, (answer) => assert.deepEqual(answer, { late: true, gone: true, sum: 2 }));

onBothPages('terminate ends every worker, rejects what waits, and the pool can be used again', `
  const pool = ${MODULE};
  const spinning = [pool.exec('spin'), pool.exec('spin')].map((task) => task.catch((error) => error.message));
  const waiting = pool.exec('add', [1, 1]).catch((error) => error.message);
  await pool.terminate(true);
  const stats = pool.stats();
  const again = await pool.exec('add', [2, 2]);
  await pool.terminate();
  return { ended: await Promise.all(spinning), waiting: await waiting, workers: stats.totalWorkers, again };
`, (answer) => {
  assert.deepEqual(answer, {
    ended: ['Worker terminated', 'Worker terminated'],
    waiting: 'Pool terminated',
    workers: 0,
    again: 4,
  });
});

for (const strategy of ['round-robin', 'least-busy', 'least-used', 'fair-share']) {
  onBothPages(`the strategy ${strategy} uses every worker and loses no task`, `
    const pool = millpond.pool('/workers/methods-module.js', {
      minWorkers: 2, maxWorkers: 2, workerOpts: { type: 'module' }, workerChoiceStrategy: '${strategy}',
    });
    const sums = await Promise.all(Array.from({ length: 100 }, (_, n) => pool.exec('add', [n, 1])));
    const done = pool.metrics().workers.map((worker) => worker.completedTasks);
    await pool.terminate();
    return { right: sums.every((sum, n) => sum === n + 1), done };
  `, ({ right, done }) => {
    assert.equal(right, true);
    assert.equal(done.length, 2);
    assert.equal(done[0] + done[1], 100);
    assert.ok(done.every((count: number) => count > 0), `the workers ran ${done}`);
  });
}

onBothPages('metrics tell what was done, for people and for Prometheus', `
  const pool = millpond.pool({ maxWorkers: 1, metrics: { enabled: true } });
  await Promise.all([1, 2, 3].map((n) => pool.exec((n) => n, [n])));
  const text = pool.metricsPrometheus();
  await pool.terminate();
  return text;
`, (answer) => assert.match(answer, /^workerpool_[a-z_]+(\{[^}]*\})? 3$/m));
