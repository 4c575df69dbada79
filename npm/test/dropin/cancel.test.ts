// Cancelling and time limits: what happens to the task, to its worker, and to the tasks behind it.

import assert from 'node:assert/strict';
import workerpool from 'millpond/workerpool';
import { failureOf, open, test, TRANSPORTS, until } from './ground.ts';

const { CancellationError, TimeoutError } = workerpool.Promise;

for (const transport of TRANSPORTS) {
  test(`a task cancelled while it waits never runs, and is counted until its turn, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('count');
    const running = pool.exec('sleep', [30, 'ran']);
    const waiting = pool.exec('count');
    const behind = pool.exec('count');
    waiting.cancel();
    assert.ok((await failureOf(waiting)) instanceof CancellationError);
    assert.equal(pool.taskQueue.size(), 2);
    assert.equal(await running, 'ran');
    assert.equal(await behind, 2);
    assert.equal(pool.taskQueue.size(), 0);
    assert.equal(pool.workers.length, 1);
  });

  test(`cancelling a running task ends its worker, and the next task gets another, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 100, transport });
    await pool.exec('add', [0, 0]);
    const first = pool.workers[0].id;
    let isRunning = false;
    const running = pool.exec('forever', [], { on: () => (isRunning = true) });
    const behind = pool.exec('add', [3, 4]);
    await until('it runs', () => isRunning);
    running.cancel();
    assert.equal(running.rejected, true);
    const { busyWorkers, pendingTasks } = pool.stats();
    assert.deepEqual([busyWorkers, pendingTasks], [1, 1]);
    assert.ok((await failureOf(running)) instanceof CancellationError);
    assert.equal(await behind, 7);
    assert.notEqual(pool.workers[0].id, first);
  });

  test(`a time limit counts from the start and not from exec, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const before = pool.exec('sleep', [150]);
    const quick = pool.exec('sleep', [1, 'in time']).timeout(100);
    assert.equal(await quick, 'in time');
    await before;
  });

  test(`a task that runs too long is rejected and its worker ended, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 50, transport });
    await pool.exec('add', [0, 0]);
    const first = pool.workers[0].id;
    const limits = [pool.exec('never').timeout(20), pool.exec('forever', [], { timeout: 20 })];
    for (const task of limits) {
      const error = await failureOf(task);
      assert.ok(error instanceof TimeoutError);
      assert.equal(error.message, 'Promise timed out after 20 ms');
    }
    assert.equal(await pool.exec('add', [1, 1]), 2);
    assert.notEqual(pool.workers[0].id, first);
  });

  test(`a limit on a chain reaches the task, and one that is met does nothing, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, workerTerminateTimeout: 50, transport });
    assert.equal(await pool.exec('sleep', [1, 'ok']).then((value) => `${value}!`).timeout(5000), 'ok!');
    const task = pool.exec('never');
    assert.ok((await failureOf(task.then(() => 1).timeout(20))) instanceof TimeoutError);
    assert.equal(task.rejected, true);
  });

  for (const how of ['resolves', 'returns nothing']) {
    test(`a worker whose abort listeners are done (${how}) is kept and used again, by ${transport}`, async () => {
      const events: unknown[] = [];
      const pool = open('methods.cjs', { maxWorkers: 1, transport });
      await pool.exec('add', [0, 0]);
      const first = pool.workers[0].id;
      const task = pool.exec('abortable', [how], { on: (event) => events.push(event) }).timeout(50);
      const behind = pool.exec('count');
      assert.ok((await failureOf(task)) instanceof TimeoutError);
      assert.equal(pool.stats().busyWorkers, 1);
      assert.equal(await behind, 1);
      assert.deepEqual(events, [{ aborted: how }]);
      assert.equal(pool.workers[0].id, first);
      assert.equal(await pool.exec('count'), 2);
    });
  }

  for (const how of ['rejects', 'throws', 'hangs']) {
    test(`a worker whose abort listener ${how} is ended, by ${transport}`, async () => {
      const pool = open('methods.cjs', { maxWorkers: 1, transport });
      await pool.exec('add', [0, 0]);
      const first = pool.workers[0].id;
      assert.ok((await failureOf(pool.exec('abortable', [how]).timeout(50))) instanceof TimeoutError);
      assert.equal(await pool.exec('count'), 1);
      assert.notEqual(pool.workers[0].id, first);
    });
  }

  test(`abort listeners of a task that ended are not called for the next one, by ${transport}`, async () => {
    const pool = open({ maxWorkers: 1, workerTerminateTimeout: 200, transport });
    const register = function (this: any): string {
      this.worker.addAbortListener(() => Promise.resolve());
      return 'registered';
    };
    assert.equal(await pool.exec(register), 'registered');
    const first = pool.workers[0].id;
    assert.ok((await failureOf(pool.exec(() => new Promise(() => {})).timeout(20))) instanceof TimeoutError);
    assert.equal(await pool.exec(() => 1), 1);
    assert.notEqual(pool.workers[0].id, first);
  });

  test(`cancelling what has ended, or twice, does nothing, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const done = pool.exec('add', [1, 1]);
    assert.equal(await done, 2);
    done.cancel();
    done.timeout(1);
    const waiting = pool.exec('sleep', [5]);
    const twice = pool.exec('add', [1, 2]);
    twice.cancel();
    twice.cancel();
    await waiting;
    assert.ok((await failureOf(twice)) instanceof CancellationError);
    assert.equal(await pool.exec('add', [1, 2]), 3);
    assert.equal(pool.workers.length, 1);
  });

  test(`of many tasks cancelled at random each ends once and nothing hangs, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, workerTerminateTimeout: 20, transport });
    let ended = 0;
    const tasks = Array.from({ length: 300 }, (_, at) => {
      const task = at % 40 === 0 ? pool.exec('sleep', [20]) : pool.exec('add', [at, 1]);
      task.always(() => (ended += 1));
      return task;
    });
    await until('some are done', () => ended > 20);
    for (let at = 0; at < tasks.length; at += 3) tasks[at].cancel();
    await until('all have ended', () => ended === tasks.length);
    assert.equal(await pool.exec('add', [1, 2]), 3);
    await until('nothing waits', () => pool.stats().busyWorkers === 0);
    assert.equal(pool.stats().pendingTasks, 0);
  });
}

test('cancelling before the worker has even started keeps the worker', async () => {
  const pool = open('late.cjs', { maxWorkers: 1, workerTerminateTimeout: 30_000 });
  const task = pool.exec('early');
  task.cancel();
  assert.equal(pool.stats().busyWorkers, 1);
  assert.ok((await failureOf(task)) instanceof CancellationError);
  assert.equal(await pool.exec('early'), 0);
  assert.equal(pool.workers[0].id, 1);
});

test('a time limit ends a task whose worker never registers', async () => {
  const dumb = { script: 'setInterval(() => {}, 1000)', workerThreadOpts: { eval: true } };
  const pool = open({ maxWorkers: 1, workerTerminateTimeout: 50, onCreateWorker: () => dumb });
  assert.ok((await failureOf(pool.exec('add').timeout(30))) instanceof TimeoutError);
  await until('the dumb worker is gone', () => pool.workers.length === 0);
});
