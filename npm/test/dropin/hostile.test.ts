// Queues, hooks and workers that misbehave: they cost their user a task at most, never the pool, the thread or the
// process.

import assert from 'node:assert/strict';
import { execFile, fork } from 'node:child_process';
import { promisify } from 'node:util';
import { MessageChannel } from 'node:worker_threads';
import { failureOf, open, script, test, TRANSPORTS, until } from './ground.ts';

const ROOT = new URL('../..', import.meta.url);

/** Runs a program that must end by itself. */
async function run(code: string): Promise<string> {
  const parameters = ['--input-type=module', '-e', code];
  const { stdout } = await promisify(execFile)(process.execPath, parameters, { cwd: ROOT, timeout: 30_000 });
  return stdout;
}

/** A queue that is right but for what is given. */
function queueWith(wrong: object): any {
  const tasks: any[] = [];
  return {
    push: (task: any) => tasks.push(task),
    pop: () => tasks.shift(),
    size: () => tasks.length,
    contains: (task: any) => tasks.includes(task),
    clear: () => (tasks.length = 0),
    tasks,
    ...wrong,
  };
}

test('a queue may say null when it is empty', async () => {
  const tasks: any[] = [];
  const queue = queueWith({ push: (task: any) => tasks.push(task), pop: () => tasks.shift() ?? null });
  const pool = open('methods.cjs', { maxWorkers: 1, queueStrategy: { ...queue, size: () => tasks.length } });
  assert.deepEqual(await Promise.all([1, 2, 3].map((value) => pool.exec('echo', [value]))), [1, 2, 3]);
});

test('a queue that says it is never empty can be terminated', async () => {
  const pool = open('methods.cjs', { maxWorkers: 2, queueStrategy: queueWith({ size: () => 1000 }) });
  assert.equal(await pool.exec('add', [1, 2]), 3);
  await pool.terminate();
  assert.equal(pool.workers.length, 0);
});

test('a queue whose pop throws, or gives what was never pushed, is told so and the tasks before it end', async () => {
  const words = await run(`
    import { pool } from 'millpond';
    const told = [];
    process.on('uncaughtException', (error) => told.push(error.message));
    for (const pop of [() => { throw new Error('pop failed') }, () => ({ method: 'add' })]) {
      const tasks = [];
      let isBroken = false;
      const one = pool({ maxWorkers: 1, queueStrategy: {
        push: (task) => tasks.push(task), pop: () => (isBroken ? pop() : tasks.shift()), size: () => tasks.length,
        contains: () => false, clear: () => (tasks.length = 0),
      } });
      const first = one.exec(() => new Promise((resolve) => setTimeout(resolve, 20, 'first')));
      one.exec(() => 'lost').catch(() => {});
      isBroken = true;
      console.log(await first);
      isBroken = false;
      console.log(await one.exec(() => 'next'));
      await one.terminate();
    }
    console.log(told.length > 0, [...new Set(told)].join('; '));
  `);
  const type = 'queueStrategy.pop(): expected a task that was pushed, or undefined, got object';
  assert.equal(words, `first\nnext\nfirst\nnext\ntrue pop failed; ${type}\n`);
});

test('a queue of our class that two pools share serves both', async () => {
  const { FIFOQueue } = await import('millpond');
  const queueStrategy = new FIFOQueue();
  const pools = [open('methods.cjs', { maxWorkers: 1, queueStrategy }), open('methods.cjs', { maxWorkers: 1 })];
  const tasks = Array.from({ length: 200 }, (_, at) => pools[at % 2].exec('echo', [at]));
  assert.deepEqual(await Promise.all(tasks), tasks.map((_, at) => at));
  assert.equal(queueStrategy.size(), 0);
});

test('a pool whose first workers cannot all be made leaves none behind', async () => {
  const words = await run(`
    import { pool } from 'millpond';
    let made = 0;
    const onCreateWorker = () => { if (made++ > 0) throw new Error('only one'); };
    try { pool({ minWorkers: 3, maxWorkers: 3, onCreateWorker }); } catch (error) { console.log(error.message); }
  `);
  assert.equal(words, 'only one\n');
});

test('a worker that cannot be made for a bound task rejects that task and nothing else', async () => {
  let made = 0;
  const pool = open('methods.cjs', {
    maxWorkers: 1,
    workerChoiceStrategy: 'least-busy',
    onCreateWorker: () => {
      if (made++ === 1) throw new Error('not now');
    },
  });
  await pool.exec('add', [0, 0]);
  const crash = failureOf(pool.exec('exit', [1]));
  const behind = [1, 2].map((value) => pool.exec('echo', [value]));
  assert.match((await crash).message, /terminated Unexpectedly/);
  const ends = await Promise.allSettled(behind);
  const failures = ends.filter((end) => end.status === 'rejected').map((end) => end.reason.message);
  assert.deepEqual(failures, ['not now']);
  assert.equal(await pool.exec('add', [1, 2]), 3);
});

for (const transport of TRANSPORTS) {
  const dead = { script: 'process.exit(7)', workerThreadOpts: { eval: true } };

  test(`workers that die in start-up are not started for ever, and tasks are told why, by ${transport}`, async () => {
    let made = 0;
    const warnings: string[] = [];
    const onCreateWorker = (): any => {
      made += 1;
      return dead;
    };
    const pool = open({ minWorkers: 2, maxWorkers: 2, onCreateWorker, transport });
    pool.on('warning', ({ code }) => warnings.push(code));
    await until('it has given up', () => pool.workers.length === 0);
    assert.ok(made >= 4 && made < 40, `${made} were made`);
    assert.deepEqual(warnings, ['workers-die']);
    const error = await failureOf(pool.exec('add', [1, 1]));
    assert.match(error.message, /terminated Unexpectedly\n {4}exitCode: `7`/);
  });

  test(`minWorkers are there again once a worker works, by ${transport}`, async () => {
    let isDead = true;
    const onCreateWorker = (): any => (isDead ? dead : { script: script('methods.cjs') });
    const pool = open({ minWorkers: 2, maxWorkers: 2, onCreateWorker, transport });
    await until('it has given up', () => pool.workers.length === 0);
    isDead = false;
    assert.equal(await pool.exec('add', [1, 2]), 3);
    assert.equal(pool.workers.length, 2);
  });

  test(`exactly as many tasks wait as may, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, maxQueueSize: 7, transport });
    await Promise.all([pool.exec('add', [0, 0]), pool.exec('add', [0, 0])]);
    for (let round = 0; round < 20; round++) {
      const tasks: PromiseLike<unknown>[] = [];
      const submit = (): number => tasks.push(pool.exec('sleep', [1, round]));
      assert.throws(() => {
        for (;;) submit();
      }, { message: 'Max queue size of 7 reached' });
      assert.equal(tasks.length, 9);
      assert.equal(pool.stats().pendingTasks, 7);
      await Promise.all(tasks);
    }
  });
}

test('a script may register constants and frozen functions beside its methods', async () => {
  const pool = open('constants.cjs', { maxWorkers: 1 });
  assert.equal(await pool.exec('twice', [4]), 8);
  assert.equal(await pool.exec('frozen'), 'frozen');
  assert.deepEqual((await pool.exec('methods')).sort(), ['frozen', 'late', 'methods', 'run', 'twice', 'version']);
  assert.match((await failureOf(pool.exec('version'))).message, /not a function/);
});

test('an abort listener that comes after its task has ended is nobody else\'s', async () => {
  const pool = open('constants.cjs', { maxWorkers: 1, workerTerminateTimeout: 100 });
  const { port1, port2 } = new MessageChannel();
  const added = new Promise((resolve) => port1.once('message', resolve));
  assert.equal(await pool.exec('late', [port2], { transfer: [port2] }), 'over');
  assert.equal(await added, 'added');
  const first = pool.workers[0].id;
  await failureOf(pool.exec(() => new Promise(() => {})).timeout(20));
  assert.equal(await pool.exec('twice', [2]), 4);
  assert.notEqual(pool.workers[0].id, first);
});

test('a child process whose parent has died while it was loading ends by itself', async () => {
  const child = fork(script('orphan.cjs'), { silent: true, execArgv: [] });
  const exited = new Promise((resolve) => child.on('exit', resolve));
  child.disconnect();
  assert.equal(await exited, 1);
});
