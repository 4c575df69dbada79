// Workers that go wrong: whatever they do, every task ends once and the pool goes on.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import workerpool from 'millpond/workerpool';
import { failureOf, open, script, test, TRANSPORTS, until } from './ground.ts';

const { TerminateError } = workerpool;

for (const transport of TRANSPORTS) {
  test(`a worker that exits takes its task along, and says how it ended, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    let workersThen = -1;
    const task = pool.exec('exit', [3]).catch((error) => {
      workersThen = pool.workers.length;
      throw error;
    });
    const error = await failureOf(task);
    assert.ok(error instanceof TerminateError && error instanceof Error);
    assert.match(error.message, /^Workerpool Worker terminated Unexpectedly\n {4}exitCode: `3`\n {4}signalCode: `/);
    assert.match(error.message, /workerpool\.script: `.*methods\.cjs`\n/);
    assert.match(error.message, /spawnArgs: `/);
    assert.equal(workersThen, 0);
    assert.equal(await pool.exec('add', [2, 3]), 5);
  });

  test(`a worker that throws outside of a task takes its task along, with the cause, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const error = await failureOf(pool.exec('crashSoon'));
    assert.ok(error instanceof TerminateError);
    assert.equal(error.message, 'Workerpool Worker error: thrown in a timer');
    assert.equal((error.cause as Error).message, 'thrown in a timer');
    assert.equal(await pool.exec('add', [2, 3]), 5);
  });

  test(`tasks behind a crash run elsewhere, in order and once, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    for (let at = 0; at < 50; at++) await pool.exec('add', [at, 1]);
    const crash = failureOf(pool.exec('exit', [1]));
    const ended: number[] = [];
    const behind = Array.from({ length: 200 }, (_, at) => pool.exec('add', [at, 0]).then((value) => ended.push(value)));
    assert.ok((await crash) instanceof TerminateError);
    await Promise.all(behind);
    assert.deepEqual(ended, Array.from({ length: 200 }, (_, at) => at));
  });

  test(`minWorkers are restored after a crash, by ${transport}`, async () => {
    const pool = open('methods.cjs', { minWorkers: 2, maxWorkers: 2, transport });
    const ids = pool.workers.map((handle) => handle.id);
    await failureOf(pool.exec('exit', [0]));
    assert.equal(pool.workers.length, 2);
    assert.notDeepEqual(pool.workers.map((handle) => handle.id), ids);
  });

  test(`a worker that is killed from outside rejects its task, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const unborn = pool.exec('add', [1, 1]);
    (pool.workers[0].worker as any).kill();
    assert.match((await failureOf(unborn)).message, /terminated Unexpectedly/);
    await pool.exec('add', [1, 1]);
    let isRunning = false;
    const task = pool.exec('never', [], { on: () => (isRunning = true) });
    await until('it runs', () => isRunning);
    (pool.workers[0].worker as any).kill();
    assert.match((await failureOf(task)).message, /terminated Unexpectedly/);
    assert.equal(pool.workers.length, 0);
  });

  test(`workers killed at random under a flood: every task ends once, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    await Promise.all([pool.exec('add', [0, 0]), pool.exec('add', [0, 0])]);
    let done = 0;
    let crashed = 0;
    const count = 3000;
    for (let at = 0; at < count; at++) {
      pool.exec('add', [at, 1]).then(
        (value) => (done += value === at + 1 ? 1 : NaN),
        (error) => (crashed += error instanceof TerminateError ? 1 : NaN),
      );
    }
    for (let kills = 0; kills < 6; kills++) {
      const before = done;
      await until('some more are done', () => done > before + 50 || done + crashed === count);
      (pool.workers[kills % Math.max(pool.workers.length, 1)]?.worker as any)?.kill();
    }
    await until('all have ended', () => !(done + crashed < count));
    assert.equal(done + crashed, count);
    assert.equal(pool.stats().pendingTasks, 0);
    assert.ok(crashed <= 6 * 2, `${crashed} of ${count} were lost with 6 workers`);
  });
}

test('a script that cannot be loaded rejects its task and does not loop', async () => {
  let made = 0;
  const pool = workerpool.pool('/nowhere/at/all.cjs', { maxWorkers: 1, onCreateWorker: () => void (made += 1) });
  const error = await failureOf(pool.exec('add', [1, 1]));
  assert.ok(error instanceof TerminateError);
  assert.match(error.message, /Workerpool Worker error: Cannot find module/);
  assert.equal(made, 1);
  assert.equal(pool.workers.length, 0);
  await pool.terminate();
});

test('a child process that is killed tells its signal', async () => {
  const pool = open('methods.cjs', { maxWorkers: 1, workerType: 'process' });
  const pid = await pool.exec('pid');
  const task = pool.exec('never');
  process.kill(pid, 'SIGKILL');
  const error = await failureOf(task);
  assert.match(error.message, /exitCode: `null`\n {4}signalCode: `SIGKILL`/);
  assert.match(error.message, /spawnArgs: `.*methods\.cjs`\n {4}spawnfile: `.*node.*`\n/);
  assert.match(error.message, /stdout: `null`\n {4}stderr: `null`/);
});

test('a listener that throws is heard of and stops nothing', async () => {
  // In a process of its own: the test runner would take the error for its own.
  const code = `
    const { pool } = require('millpond/workerpool');
    process.on('uncaughtException', (error) => console.log('uncaught', error.message));
    const one = pool(${JSON.stringify(script('methods.cjs'))}, { maxWorkers: 1 });
    const on = () => { throw new Error('from a listener'); };
    one.exec('emit', [['once']], { on }).then((count) => { console.log('done', count); return one.terminate(); });
  `;
  const cwd = new URL('../..', import.meta.url);
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', code], { cwd });
  assert.deepEqual(stdout.trim().split('\n').sort(), ['done 1', 'uncaught from a listener']);
});
