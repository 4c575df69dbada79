// What is left after many tasks, and after the last one: nothing that grows, and nothing that keeps the process alive
// but workers that nobody ended.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { promisify } from 'node:util';
import { open, script, test, TRANSPORTS, until } from './ground.ts';

const ROOT = new URL('../..', import.meta.url);

for (const transport of TRANSPORTS) {
  test(`many tasks leave no listener, timer or place behind, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const { signal } = new AbortController();
    const raw: any = pool.workers[0].worker;
    const before = raw.eventNames().map((name: string) => raw.listenerCount(name));
    const timersBefore = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    for (let round = 0; round < 20; round++) {
      const tasks = Array.from({ length: 500 }, (_, at) => pool.exec('add', [at, 1], { signal, timeout: 60_000 }));
      await Promise.all(tasks);
    }
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    assert.deepEqual(raw.eventNames().map((name: string) => raw.listenerCount(name)), before);
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    assert.ok(timers <= timersBefore + 1, `${timersBefore} timers before, ${timers} after`);
    assert.deepEqual([pool.stats().pendingTasks, pool.taskQueue.size()], [0, 0]);
  });

  test(`a call that is refused leaves nothing on its signal, by ${transport}`, async () => {
    const { signal } = new AbortController();
    const full = open('methods.cjs', { maxWorkers: 1, maxQueueSize: 1, transport });
    const tasks = [full.exec('sleep', [30]), full.exec('sleep', [1])];
    assert.throws(() => full.exec('add', [1, 1], { signal }), { message: /Max queue size/ });
    const onCreateWorker = (): never => {
      throw new Error('none today');
    };
    const none = open('methods.cjs', { maxWorkers: 1, onCreateWorker, transport });
    assert.throws(() => none.exec('add', [1, 1], { signal }), { message: 'none today' });
    const policy = { policy: 'reject' as const, maxQueueSize: 1 };
    const strict = open('methods.cjs', { maxWorkers: 1, backPressure: policy, transport });
    tasks.push(strict.exec('sleep', [30]), strict.exec('sleep', [1]));
    assert.throws(() => strict.exec('add', [1, 1], { signal }), { message: /queue is full/ });
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    await Promise.all(tasks);
  });

  test(`a hundred thousand waiting tasks are all rejected by terminate, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    let rejected = 0;
    const running = pool.exec('never');
    for (let at = 0; at < 100_000; at++) pool.exec('add', [at, 1]).catch(() => (rejected += 1));
    assert.equal(pool.stats().pendingTasks, 100_000);
    const ended = pool.terminate(true);
    assert.deepEqual([rejected, running.rejected, pool.stats().pendingTasks], [100_000, true, 0]);
    await ended;
  });
}

test('a limit that no timer can hold is no limit, and does not spin', async () => {
  const pool = open('methods.cjs', { maxWorkers: 1 });
  const warnings: string[] = [];
  const hear = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', hear);
  const tasks = [Infinity, 2 ** 40].map((limit) => pool.exec('sleep', [20, 'slept']).timeout(limit));
  assert.deepEqual(await Promise.all(tasks), ['slept', 'slept']);
  process.off('warning', hear);
  assert.deepEqual(warnings, []);
});

test('debug ports of workers that could not be made are given back', async () => {
  const { pool: makePool } = await import('millpond');
  const forkOpts = { nonsense: true };
  for (let at = 0; at < 3; at++) {
    const pool = makePool({ maxWorkers: 1, workerType: 'process', forkOpts, debugPortStart: 65_534 });
    assert.throws(() => pool.exec('add'), { message: /unknown option "nonsense"/ });
  }
});

test('idle workers keep their process alive until the pool is terminated, as in workerpool', async () => {
  const code = `
    import { pool } from 'millpond';
    const one = pool();
    await one.exec(() => 1);
    console.log('idle');
    process.on('message', () => one.terminate());
    process.channel.unref();
  `;
  const parameters = ['--input-type=module', '-e', code];
  const child = spawn(process.execPath, parameters, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  let isGone = false;
  let output = '';
  child.stdout?.on('data', (data) => (output += data));
  child.on('exit', () => (isGone = true));
  await until('it is idle', () => output.includes('idle'));
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(isGone, false);
  child.send('end');
  await until('it is gone', () => isGone);
});

test('a rejection that nobody awaits is silent, and one that is awaited is caught', async () => {
  const code = `
    import { pool } from 'millpond';
    const one = pool();
    one.exec(() => { throw new Error('unheard') });
    try { await one.exec(() => { throw new Error('heard') }); } catch (error) { console.log(error.message); }
    await one.terminate();
  `;
  const parameters = ['--input-type=module', '-e', code];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, parameters, { cwd: ROOT, timeout: 30_000 });
  assert.deepEqual([stdout, stderr], ['heard\n', '']);
});

test('a crash under a pool that is being terminated leaves no timer', async () => {
  const code = `
    import { pool } from 'millpond';
    const one = pool(${JSON.stringify(script('methods.cjs'))}, { maxWorkers: 1, workerTerminateTimeout: 60_000 });
    await one.exec('add', [0, 0]);
    one.exec('exit', [1]).catch(() => {});
    for (let at = 0; at < 20; at++) one.exec('add', [at, 1]).catch(() => {});
    await one.terminate();
    console.log('ended');
  `;
  const parameters = ['--input-type=module', '-e', code];
  const { stdout } = await promisify(execFile)(process.execPath, parameters, { cwd: ROOT, timeout: 30_000 });
  assert.equal(stdout, 'ended\n');
});
