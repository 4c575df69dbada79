// Running tasks: what exec takes, what it throws at once and what it rejects later, and how values and errors cross.

import assert from 'node:assert/strict';
import { failureOf, open, test, TRANSPORTS, until } from './ground.ts';

function statsOf(totalWorkers: number, busyWorkers: number, pendingTasks: number): object {
  return { totalWorkers, busyWorkers, idleWorkers: totalWorkers - busyWorkers, pendingTasks, activeTasks: busyWorkers };
}

test('exec refuses wrong arguments at once, in workerpool\'s words', () => {
  const pool = open() as any;
  const method = { name: 'TypeError', message: 'Function or string expected as argument "method"' };
  const params = { name: 'TypeError', message: 'Array expected as argument "params"' };
  assert.throws(() => pool.exec(), method);
  assert.throws(() => pool.exec(23), method);
  assert.throws(() => pool.exec('add', {}), params);
  assert.throws(() => pool.exec(() => 1, 2, 3), params);
  assert.throws(() => pool.exec('add', 'a string'), params);
  assert.throws(() => pool.proxy(1), /^Error: No arguments expected$/);
  assert.equal(pool.workers.length, 0);
});

for (const transport of TRANSPORTS) {
  test(`functions and methods run with their arguments, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    assert.equal(await pool.exec('add', [2, 3]), 5);
    assert.equal(await pool.exec((a: number, b: number) => a * b, [2, 3]), 6);
    assert.equal(await pool.exec(function (this: unknown, ...rest: any[]) {
      return rest.length;
    }, null as any), 0);
    assert.equal(await pool.exec(async (name: string) => `hello ${name}`, ['you']), 'hello you');
    assert.equal(await pool.exec('count', null), 1);
    assert.equal(await pool.exec('sleep', [1, 'later']), 'later');
  });

  test(`values cross as structured clone carries them, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const shared = { deep: [1, { x: null }] };
    const values: unknown[] = [
      0, -0, 1.5, NaN, Infinity, 2 ** 53, 123n, '', 'text', 'ünïcödé 🐟', true, null, undefined, [], {},
      [1, 'two', [3]], { a: 1, b: { c: [undefined] } }, new Date(5), /x/gi, new Map([[1, { y: 2 }]]), new Set(['s']),
      new Uint8Array([1, 2, 3]), new Float64Array([1.5]), [shared, shared], 'x'.repeat(100_000),
      new Array(5000).fill('y'),
    ];
    for (const value of values) assert.deepEqual(await pool.exec('echo', [value]), value);
    const [one, other] = await pool.exec<(v: unknown) => any>('echo', [[shared, shared]]);
    assert.equal(one, other);
  });

  test(`an offloaded function is fresh each time and reaches its worker, by ${transport}`, async () => {
    const pool = open({ maxWorkers: 1, transport });
    function stateful(this: any): [number, string] {
      this.times = (this.times ?? 0) + 1;
      return [this.times, typeof this.worker.addAbortListener];
    }
    assert.deepEqual(await pool.exec(stateful), [1, 'function']);
    assert.deepEqual(await pool.exec(stateful), [1, 'function']);
  });

  test(`errors arrive as Error with message, stack and their own fields, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const error = await failureOf(pool.exec('fail', ['wrong', { code: 'E1', detail: { at: 3 } }]));
    assert.deepEqual([error instanceof Error, error instanceof TypeError], [true, false]);
    assert.equal(error.message, 'wrong');
    assert.equal(error.code, 'E1');
    assert.match(error.stack, /TypeError: wrong\n/);
    assert.match((await failureOf(pool.exec('failLater', ['later']))).message, /^later$/);
    const json = await failureOf(pool.exec('failWith', ['json']));
    assert.equal(json.message, 'as json');
    assert.equal(json.code, 4);
  });

  test(`whatever is thrown arrives as an Error and the worker lives on, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const messages: Record<string, string> = {};
    for (const kind of ['text', 'nothing', 'nil', 'number', 'cycle']) {
      const error = await failureOf(pool.exec('failWith', [kind]));
      assert.ok(error instanceof Error);
      messages[kind] = error.message;
    }
    const words = { text: 'plain text', nothing: 'undefined', nil: 'null', number: '7', cycle: 'in a circle' };
    assert.deepEqual(messages, words);
    assert.match((await failureOf(pool.exec('unclonable'))).message, /could not be cloned/);
    assert.match((await failureOf(pool.exec('unclonableLater'))).message, /could not be cloned/);
    assert.equal(await pool.exec('count'), 1);
  });

  test(`methods that nobody registered are unknown, inherited names too, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    for (const name of ['nope', 'constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      assert.equal((await failureOf(pool.exec(name))).message, `Unknown method "${name}"`);
    }
  });

  test(`parameters that cannot be cloned reject their task and no other, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const tasks = [pool.exec('add', [1, 1]), pool.exec('echo', [() => {}]), pool.exec('add', [2, 2])];
    await until('the good ones are done', () => tasks[0].resolved && tasks[2].resolved);
    assert.match((await failureOf(tasks[1])).message, /could not be cloned/);
    assert.match((await failureOf(pool.exec('echo', [Symbol('x')]))).message, /could not be cloned/);
    assert.deepEqual(pool.stats(), statsOf(1, 0, 0));
  });

  test(`a proxy has one function per method of the worker, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const proxy = await pool.proxy<{ add(a: number, b: number): number; run(): any; methods(): string[] }>();
    assert.equal(await proxy.add(20, 3), 23);
    assert.ok((await proxy.methods()).includes('emitByThis'));
    assert.deepEqual(Object.keys(await open().proxy()).sort(), ['methods', 'run']);
  });

  test(`a flood is answered once each, and stats tell the truth on the way, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    const count = 5000;
    let sum = 0;
    const tasks = Array.from({ length: count }, (_, at) => pool.exec('add', [at, 1]).then((value) => (sum += value)));
    assert.deepEqual(pool.stats(), statsOf(2, 2, count - 2));
    assert.equal(pool.taskQueue.size(), count - 2);
    await Promise.all(tasks);
    assert.equal(sum, (count * (count + 1)) / 2);
    assert.deepEqual(pool.stats(), statsOf(2, 0, 0));
  });

  test(`a callback finds its worker free or already at the next task, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    await pool.exec('add', [0, 0]);
    const first = pool.exec('sleep', [5]).then(() => pool.stats());
    const second = pool.exec('sleep', [5]).then(() => pool.stats());
    assert.deepEqual(await first, statsOf(1, 1, 0));
    assert.deepEqual(await second, statsOf(1, 0, 0));
  });
}
