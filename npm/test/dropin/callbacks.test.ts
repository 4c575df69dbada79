// Callbacks run inside of the pool, at the moment a task ends, and may do anything: submit, cancel, terminate, throw.
// Whatever they do, every task ends once and no task is left behind beside an idle worker.

import assert from 'node:assert/strict';
import workerpool from 'millpond/workerpool';
import { failureOf, open, test, TRANSPORTS, until } from './ground.ts';

for (const transport of TRANSPORTS) {
  test(`tasks that cannot be sent do not hold up those behind them, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const first = pool.exec('sleep', [20]);
    const bad = Array.from({ length: 10 }, () => failureOf(pool.exec('echo', [() => {}])));
    const good = pool.exec('add', [1, 2]);
    await first;
    assert.ok((await Promise.all(bad)).every((error) => error.name === 'DataCloneError'));
    assert.equal(await good, 3);
    assert.equal(pool.stats().pendingTasks, 0);
  });

  test(`a callback may submit, and what it submits runs in turn, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    const seen: number[] = [];
    const inner: PromiseLike<unknown>[] = [];
    const outer = Array.from({ length: 200 }, (_, at) => pool.exec('echo', [at]).then((value: number) => {
      inner.push(pool.exec('echo', [value + 1000]).then((late: number) => void seen.push(late)));
    }));
    await Promise.all(outer);
    await Promise.all(inner);
    assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 200 }, (_, at) => at + 1000));
    assert.deepEqual([pool.stats().pendingTasks, pool.stats().busyWorkers], [0, 0]);
  });

  test(`a callback that throws harms nobody else, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const broken = Array.from({ length: 20 }, (_, at) => pool.exec('echo', [at]).then(() => {
      throw new Error(`callback ${at}`);
    }));
    const errors = await Promise.all(broken.map(failureOf));
    assert.deepEqual(errors.map((error) => error.message), errors.map((_, at) => `callback ${at}`));
    assert.equal(await pool.exec('add', [1, 2]), 3);
  });

  test(`a callback may cancel the tasks behind its own, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    for (let at = 0; at < 20; at++) await pool.exec('add', [at, 1]);
    const tasks = Array.from({ length: 100 }, (_, at) => pool.exec('echo', [at]));
    let others = 0;
    tasks[0].then(() => tasks.slice(1).forEach((task) => task.cancel()));
    for (const task of tasks.slice(1)) task.always(() => (others += 1));
    await until('all have ended', () => others === 99);
    assert.equal(await pool.exec('add', [1, 2]), 3);
    await until('nothing waits', () => pool.stats().pendingTasks === 0 && pool.stats().busyWorkers === 0);
  });

  test(`terminate inside a callback of a crash rejects what was behind it, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    for (let at = 0; at < 50; at++) await pool.exec('add', [at, 1]);
    let ended: PromiseLike<unknown> | undefined;
    pool.exec('exit', [1]).catch(() => (ended = pool.terminate(true)));
    const behind = Array.from({ length: 20 }, (_, at) => failureOf(pool.exec('echo', [at])));
    const words = new Set((await Promise.all(behind)).map((error) => error.message));
    const isKnown = (text: string): boolean => text === 'Pool terminated' || text === 'Worker terminated';
    assert.deepEqual([...words].filter((text) => !isKnown(text)), []);
    await ended;
    await until('all are gone', () => pool.workers.length === 0);
    assert.equal(pool.stats().pendingTasks, 0);
  });

  test(`terminate inside a callback ends the pool, and it can be used again, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    for (let at = 0; at < 20; at++) await pool.exec('add', [at, 1]);
    let ended = 0;
    const tasks = Array.from({ length: 300 }, (_, at) => {
      const task = pool.exec('echo', [at]);
      task.always(() => (ended += 1));
      return task;
    });
    await tasks[0].then(() => pool.terminate(true));
    assert.equal(ended, 300);
    assert.equal(await pool.exec('add', [1, 2]), 3);
  });

  test(`what is submitted while the pool terminates is run, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    pool.exec('sleep', [20]);
    const again = pool.exec('add', [1, 1]).catch(() => pool.exec('add', [2, 2]));
    await pool.terminate();
    assert.equal(await again, 4);
  });

  test(`tasks bound to a worker that must go run elsewhere, by ${transport}`, async () => {
    const pool = open('methods.cjs', {
      maxWorkers: 2, minWorkers: 2, transport, taskStealing: { enabled: false },
      workerChoiceStrategy: (workers: readonly any[]) => workers[0],
    });
    await pool.exec('add', [0, 0]);
    const running = pool.exec('abortable', ['rejects']);
    const behind = Array.from({ length: 10 }, (_, at) => pool.exec('echo', [at]));
    await until('it runs', () => pool.stats().activeTasks > 0);
    running.cancel();
    assert.deepEqual(await Promise.all(behind), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
}

test('a loop of calls that each return the next one may be of any length', async () => {
  const { Promise: PoolPromise } = workerpool;
  const resolvers = Array.from({ length: 50_000 }, () => PoolPromise.defer<any>());
  const step = (at: number): any => (at < resolvers.length ? resolvers[at].promise.then(() => step(at + 1)) : 'done');
  const whole = step(0);
  for (const resolver of resolvers) resolver.resolve(null);
  assert.equal(await whole, 'done');
});

test('retrying for ever where no worker can be made does not freeze the thread', async () => {
  let made = 0;
  const pool = open('methods.cjs', {
    maxWorkers: 1,
    onCreateWorker: () => {
      if (made++ > 0) throw new Error('no more workers');
    },
  });
  await pool.exec('add', [0, 0]);
  let tries = 0;
  let isOver = false;
  const retry = (): void => {
    tries += 1;
    try {
      if (!isOver) pool.exec('add', [1, 1]).catch(retry);
    } catch {
      setTimeout(retry, 1);
    }
  };
  failureOf(pool.exec('exit', [1]));
  retry();
  await until('it was tried often, and this thread lives', () => tries > 5);
  isOver = true;
});
