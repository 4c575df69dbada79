// The end of a pool and of its workers: who is waited for, who is rejected with which words, and that it can start
// anew.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { MessageChannel } from 'node:worker_threads';
import workerpool from 'millpond/workerpool';
import { failureOf, open, test, TRANSPORTS, until } from './ground.ts';

for (const transport of TRANSPORTS) {
  test(`running tasks finish, waiting ones are rejected, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const running = pool.exec('sleep', [30, 'finished']);
    const waiting = [1, 2, 3].map((value) => failureOf(pool.exec('add', [value, 1])));
    const ended = pool.terminate();
    assert.equal(pool.taskQueue.size(), 0);
    assert.deepEqual((await Promise.all(waiting)).map((error) => error.message), Array(3).fill('Pool terminated'));
    assert.equal(await running, 'finished');
    await ended;
    assert.deepEqual(Object.values(pool.stats()), [0, 0, 0, 0, 0]);
  });

  test(`by force running tasks are rejected at once, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 50, transport });
    await pool.exec('add', [0, 0]);
    let isRunning = false;
    const running = pool.exec('forever', [], { on: () => (isRunning = true) });
    const waiting = pool.exec('add', [1, 1]);
    await until('it runs', () => isRunning);
    const ended = pool.terminate(true);
    assert.equal(running.rejected, true);
    assert.equal((await failureOf(running)).message, 'Worker terminated');
    assert.equal((await failureOf(waiting)).message, 'Pool terminated');
    await ended;
    assert.equal(pool.workers.length, 0);
  });

  test(`the first task of a worker that has not even started yet finishes, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    const tasks = [pool.exec('add', [1, 1]), pool.exec('add', [2, 2])];
    await pool.terminate();
    assert.deepEqual(await Promise.all(tasks), [2, 4]);
  });

  test(`a pool can be used again after terminate, and while it goes on, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    assert.equal(await pool.exec('count'), 1);
    const ended = pool.terminate();
    const early = pool.exec('count');
    await ended;
    assert.equal(await early, 1);
    await pool.terminate();
    assert.equal(await pool.exec('count'), 1);
  });

  test(`terminate rejects after its timeout if a worker does not end, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 300, transport });
    await pool.exec('add', [0, 0]);
    let isRunning = false;
    pool.exec('forever', [], { on: () => (isRunning = true) });
    await until('it runs', () => isRunning);
    const error = await failureOf(pool.terminate(true, 10));
    assert.ok(error instanceof workerpool.Promise.TimeoutError);
    await until('it is killed all the same', () => pool.workers.length === 0);
  });

  for (const kind of ['now', 'later', 'never']) {
    test(`a worker cleans up (${kind}) before it ends, or is killed, by ${transport}`, async () => {
      const workerTerminateTimeout = kind === 'never' ? 50 : 5000;
      const pool = open('cleanup.cjs', { maxWorkers: 1, workerTerminateTimeout, transport });
      const channel = new MessageChannel();
      const codes: unknown[] = [];
      channel.port1.on('message', (code) => codes.push(code));
      assert.equal(await pool.exec('open', [kind, channel.port2], { transfer: [channel.port2] }), 'opened');
      await pool.terminate();
      channel.port1.close();
      assert.deepEqual(codes, kind === 'never' ? [] : [0]);
    });
  }
}

test('terminate waits until child processes are gone', async () => {
  const pool = open({ maxWorkers: 1, workerType: 'process' });
  const pid = await pool.exec(() => process.pid);
  await pool.terminate();
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
});

test('terminate may be called twice, and on a pool that never ran', async () => {
  const pool = open('methods.cjs', { maxWorkers: 2 });
  await pool.terminate();
  await pool.exec('add', [1, 1]);
  await Promise.all([pool.terminate(), pool.terminate(true)]);
  assert.equal(pool.workers.length, 0);
});

test('close waits for everything, waiting tasks as well', async () => {
  const pool = open('methods.cjs', { maxWorkers: 1 });
  const tasks = [1, 2, 3].map((value) => pool.exec('sleep', [5, value]));
  await pool.close();
  assert.deepEqual(tasks.map((task) => task.resolved), [true, true, true]);
  assert.equal(pool.workers.length, 0);
});

test('a process ends by itself once its pool is terminated', async () => {
  const code = `
    import { pool } from 'millpond';
    const one = pool();
    console.log(await one.exec((a, b) => a + b, [1, 2]));
    await one.terminate();
  `;
  const cwd = new URL('../..', import.meta.url);
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], { cwd });
  assert.equal(stdout, '3\n');
});
