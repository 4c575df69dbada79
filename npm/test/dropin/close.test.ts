// close(): what was accepted ends, what comes later is refused, and whoever waits for it is told, however often it was
// called and whatever happens meanwhile. A close() that never settles is a server that never stops.

import assert from 'node:assert/strict';
import { pool as makePool } from 'millpond';
import { failureOf, open, script, test, TRANSPORTS, until } from './ground.ts';

const CLOSING = /^pool is closing: expected no more tasks after close\(\), got one/;

for (const transport of TRANSPORTS) {
  test(`every close() settles, the second as well as the first, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const tasks = [1, 2, 3].map((value) => pool.exec('sleep', [5, value]));
    await Promise.all([pool.close(), pool.close(), pool[Symbol.asyncDispose]()]);
    assert.deepEqual(await Promise.all(tasks), [1, 2, 3]);
    await pool.close();
    assert.equal(pool.workers.length, 0);
  });

  test(`while it closes new tasks are refused, and afterwards taken again, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const accepted = pool.exec('sleep', [20, 'accepted']);
    const closed = pool.close();
    assert.throws(() => pool.exec('add', [1, 1]), { message: CLOSING });
    assert.throws(() => pool.execBatch('add', [[1, 1]]), { message: CLOSING });
    assert.throws(() => pool.stream('add', [1, 1]), { message: CLOSING });
    assert.equal(await accepted, 'accepted');
    await closed;
    assert.equal(await pool.exec('add', [1, 1]), 2);
  });

  test(`a task that is cancelled while the pool closes does not keep it open, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const running = pool.exec('abortable', ['resolves']);
    await until('it runs', () => pool.stats().activeTasks === 1);
    const waiting = pool.exec('add', [1, 1]);
    const closed = pool.close();
    waiting.cancel();
    running.cancel();
    await closed;
    assert.deepEqual([running.rejected, waiting.rejected, pool.workers.length], [true, true, 0]);
  });

  test(`terminate cuts close() short, and both settle, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 50, transport });
    await pool.exec('add', [0, 0]);
    const running = failureOf(pool.exec('never'));
    const waiting = failureOf(pool.exec('add', [1, 1]));
    const closed = pool.close();
    await pool.terminate(true);
    await closed;
    assert.equal((await running).message, 'Worker terminated');
    assert.equal((await waiting).message, 'Pool terminated');
    assert.equal(await pool.exec('add', [1, 1]), 2);
  });

  test(`close() outlives the crash of the last worker, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const crash = failureOf(pool.exec('exit', [1]));
    const behind = pool.exec('add', [1, 1]);
    await pool.close();
    assert.match((await crash).message, /terminated Unexpectedly/);
    assert.equal(await behind, 2);
  });
}

test('a batch that was accepted is finished, also the calls it has not submitted yet', async () => {
  const pool = open('methods.cjs', { maxWorkers: 1 });
  const calls = Array.from({ length: 50 }, (_, at) => [at, 1]);
  const batch = pool.execBatch('add', calls, { concurrency: 2 });
  const closed = pool.close();
  assert.deepEqual(await batch, calls.map(([at]) => at + 1));
  await closed;
  assert.throws(() => pool.execBatch('add', 5 as never), TypeError);
  await pool.close();
});

test('tasks that wait for a place are done before the pool closes', async () => {
  const backPressure = { policy: 'block' as const, maxQueueSize: 1 };
  const pool = makePool(script('methods.cjs'), { maxWorkers: 1, backPressure });
  const tasks = [1, 2, 3, 4, 5].map((value) => pool.exec('sleep', [2, value]));
  await pool.close();
  assert.deepEqual(await Promise.all(tasks), [1, 2, 3, 4, 5]);
});
