// The options of a pool: their checks, their defaults, and what reaches the workers.

import assert from 'node:assert/strict';
import { cpus } from 'node:os';
import { pathToFileURL } from 'node:url';
import workerpool from 'millpond/workerpool';
import { failureOf, open, script, test, TRANSPORTS, until } from './ground.ts';

test('numbers of workers that are none are refused with a TypeError', () => {
  const most = /^TypeError: Option maxWorkers must be an integer number >= 1$/;
  for (const maxWorkers of ['a', 2.5, 0, -1, undefined, NaN]) {
    assert.throws(() => workerpool.pool({ maxWorkers: maxWorkers as number }), most);
  }
  const least = /^TypeError: Option minWorkers must be an integer number >= 0$/;
  for (const minWorkers of ['a', 2.5, -1, undefined, NaN]) {
    assert.throws(() => workerpool.pool({ minWorkers: minWorkers as number }), least);
  }
});

test('the defaults are workerpool\'s', () => {
  const pool = open();
  assert.equal(pool.maxWorkers, Math.max(cpus().length - 1, 1));
  assert.equal(pool.script, null);
  assert.equal(pool.workerType, 'auto');
  assert.equal(pool.maxQueueSize, Infinity);
  assert.equal(pool.workerTerminateTimeout, 1000);
  assert.equal(pool.emitStdStreams, false);
  assert.equal(pool.minWorkers, undefined);
  assert.deepEqual([pool.forkArgs, pool.forkOpts, pool.workerOpts, pool.workerThreadOpts], [[], {}, {}, {}]);
  assert.ok(Object.isFrozen(pool.forkOpts));
  assert.deepEqual(pool.workers, []);
});

test('minWorkers are there at once, raise maxWorkers, and can be as many as the most', () => {
  const pool = open({ minWorkers: 3, maxWorkers: 2 });
  assert.deepEqual([pool.workers.length, pool.minWorkers, pool.maxWorkers], [3, 3, 3]);
  const most = open({ minWorkers: 'max', maxWorkers: 2 });
  assert.deepEqual([most.workers.length, most.minWorkers], [2, 2]);
});

test('workers are made inside exec, one for each task, up to the most', async () => {
  const pool = open('methods.cjs', { maxWorkers: 2 });
  const lengths = [pool.workers.length];
  const tasks = [1, 2, 3].map((value) => {
    const task = pool.exec('sleep', [5, value]);
    lengths.push(pool.workers.length);
    return task;
  });
  assert.deepEqual(lengths, [0, 1, 2, 2]);
  assert.equal(pool.taskQueue.size(), 1);
  assert.deepEqual(await Promise.all(tasks), [1, 2, 3]);
  await pool.exec('add', [1, 1]);
  assert.equal(pool.workers.length, 2);
});

for (const transport of TRANSPORTS) {
  test(`a full queue makes exec throw, and takes tasks again later, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, maxQueueSize: 2, transport });
    const tasks = [1, 2, 3].map((value) => pool.exec('sleep', [5, value]));
    assert.throws(() => pool.exec('add', [1, 1]), /^Error: Max queue size of 2 reached$/);
    assert.equal(pool.taskQueue.size(), 2);
    assert.deepEqual(await Promise.all(tasks), [1, 2, 3]);
    assert.equal(await pool.exec('add', [1, 1]), 2);
  });
}

test('every kind of worker can be asked for, and other words mean auto', async () => {
  const kinds: Record<string, unknown> = {};
  for (const workerType of ['thread', 'process', 'auto', 'threads'] as const) {
    const pool = open('methods.cjs', { maxWorkers: 1, workerType: workerType as 'auto' });
    const task = pool.exec('pid');
    const worker: any = pool.workers[0].worker;
    const isOther = (await task) !== process.pid;
    kinds[workerType] = [worker.isWorkerThread ?? false, worker.isChildProcess ?? false, isOther];
  }
  const thread = [true, false, false];
  assert.deepEqual(kinds, { thread, process: [false, true, true], auto: thread, threads: thread });
  assert.equal(open({ nodeWorker: 'process' }).workerType, 'process');
  assert.throws(() => open({ workerType: 'web' }).exec('add'), /^Error: WorkerPool: Web Workers not supported$/);
});

test('a script may be a path, a URL, a CommonJS or an ES module', async () => {
  assert.equal(await open('module.mjs', { maxWorkers: 1 }).exec('add', [1, 2]), 3);
  assert.equal(await open('module.mjs', { maxWorkers: 1, workerType: 'process' }).exec('multiply', [2, 3]), 6);
  for (const place of [pathToFileURL(script('methods.cjs')), pathToFileURL(script('methods.cjs')).href]) {
    for (const workerType of ['thread', 'process'] as const) {
      const pool = workerpool.pool(place, { maxWorkers: 1, workerType });
      assert.equal(await pool.exec('add', [2, 2]), 4);
      await pool.terminate();
    }
  }
});

test('options of threads and processes reach them', async () => {
  const workerThreadOpts = { env: { WORD: 'thread' }, resourceLimits: { maxYoungGenerationSizeMb: 20 } };
  const thread = open('methods.cjs', { maxWorkers: 1, workerThreadOpts });
  assert.equal(await thread.exec('env', ['WORD']), 'thread');
  assert.equal((thread.workers[0].worker as any).resourceLimits.maxYoungGenerationSizeMb, 20);
  const fork = { forkArgs: ['--one', 'two'], forkOpts: { env: { WORD: 'process' } } };
  const child = open('methods.cjs', { maxWorkers: 1, workerType: 'process', ...fork });
  assert.equal(await child.exec('env', ['WORD']), 'process');
  assert.deepEqual(await child.exec('args'), ['--one', 'two']);
});

test('unknown options of workers are refused when a worker is made, and nothing is left in the queue', async () => {
  const forked = open({ workerType: 'process', forkOpts: { foo: 42 } });
  assert.throws(() => forked.exec('run'), /^Error: Object "forkOpts" contains an unknown option "foo"$/);
  const threaded = open({ workerThreadOpts: { bar: 42 } });
  assert.throws(() => threaded.exec('run'), /^Error: Object "workerThreadOpts" contains an unknown option "bar"$/);
  assert.deepEqual([forked, threaded].map((pool) => [pool.workers.length, pool.taskQueue.size()]), [[0, 0], [0, 0]]);
});

test('options that come from a polluted prototype are refused, whatever kind of worker', () => {
  const base = Object.prototype as any;
  const refusals: string[] = [];
  base.env = { NODE_OPTIONS: '--inspect-brk=0.0.0.0:1337' };
  try {
    for (const workerType of ['process', 'thread'] as const) {
      try {
        open({ workerType }).exec('run');
      } catch (error) {
        refusals.push((error as Error).message.split(' which')[0]);
      }
    }
  } finally {
    delete base.env;
  }
  assert.deepEqual(refusals, [
    'Object "forkOpts" contains an inherited option "env"',
    'Object "workerThreadOpts" contains an inherited option "env"',
  ]);
});

test('hooks see every worker come and go, and may change what it is made from', async () => {
  const made: unknown[] = [];
  const ended: string[] = [];
  let serial = 0;
  const pool = open('methods.cjs', {
    maxWorkers: 2,
    onCreateWorker: (arg) => {
      made.push(Object.keys(arg).sort());
      return { workerThreadOpts: { env: { WORD: `worker ${++serial}` } } };
    },
    onTerminateWorker: (arg) => ended.push(arg.workerThreadOpts.env.WORD),
  });
  const words = await Promise.all([pool.exec('env', ['WORD']), pool.exec('env', ['WORD'])]);
  assert.deepEqual(words, ['worker 1', 'worker 2']);
  assert.deepEqual(made[0], ['forkArgs', 'forkOpts', 'script', 'workerOpts', 'workerThreadOpts']);
  await pool.terminate();
  assert.deepEqual(ended.sort(), ['worker 1', 'worker 2']);
  const other = open({ onCreateWorker: () => ({ script: script('methods.cjs') }) });
  assert.equal(await other.exec('add', [1, 2]), 3);
});

test('a hook that throws makes exec throw, and a later worker that cannot be made rejects its task', async () => {
  let allowed = 1;
  const pool = open('methods.cjs', {
    maxWorkers: 1,
    onCreateWorker: () => {
      if (allowed-- <= 0) throw new Error('no more workers');
    },
  });
  const crashed = failureOf(pool.exec('exit', [1]));
  const waiting = failureOf(pool.exec('add', [1, 1]));
  assert.match((await crashed).message, /terminated Unexpectedly/);
  assert.equal((await waiting).message, 'no more workers');
  assert.throws(() => pool.exec('add', [1, 1]), /^Error: no more workers$/);
  assert.equal(pool.taskQueue.size(), 0);
});

test('threads share memory with the pool, and everything else gets messages', async () => {
  const kinds: Record<string, string | undefined> = {};
  const cases = {
    thread: open('methods.cjs', { maxWorkers: 1, workerType: 'thread' }),
    messages: open('methods.cjs', { maxWorkers: 1, transport: 'messages' }),
    process: open('methods.cjs', { maxWorkers: 1, workerType: 'process' }),
    wire: open('wire.cjs', { maxWorkers: 1 }),
    printing: open('methods.cjs', { maxWorkers: 1, emitStdStreams: true }),
    plain: open('methods.cjs', { maxWorkers: 1, useWasm: false }),
  };
  for (const [name, pool] of Object.entries(cases)) {
    assert.equal(await pool.exec('add', [1, 2]), 3);
    kinds[name] = pool.workers[0].link?.kind;
  }
  const { thread, ...others } = kinds;
  assert.equal(thread, 'shared');
  assert.deepEqual(Object.values(others), Array(5).fill('messages'));
});

test('transport "shared" is an error where it cannot be had, at once where that is known', async () => {
  const refused = (options: object): void => void workerpool.pool({ transport: 'shared', ...options });
  const advice = '; use "auto" to fall back to messages';
  const child = `transport "shared": expected a thread or a web worker, got a child process${advice}`;
  assert.throws(() => refused({ workerType: 'process' }), { message: child });
  const plain = `transport "shared": expected WebAssembly, got useWasm: false${advice}`;
  assert.throws(() => refused({ useWasm: false }), { message: plain });
  const forced = open('wire.cjs', { maxWorkers: 1, transport: 'shared' });
  const error = await failureOf(forced.exec('add', [1, 2]));
  assert.match(error.message, /transport "shared": expected a worker script that calls millpond's worker\(\)/);
  await until('the worker is gone', () => forced.workers.length === 0);
});
