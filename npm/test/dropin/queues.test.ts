// The order of waiting tasks: it is a promise to users, and the FIFO is our own structure, so it is tried against a
// plain array with random steps.

import assert from 'node:assert/strict';
import { FIFOQueue, LIFOQueue } from 'millpond';
import workerpool from 'millpond/workerpool';
import { open, test, TRANSPORTS } from './ground.ts';

interface Item {
  serial: number;
  priority: number;
}

function randomOf(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

test('a FIFO does what an array would, for any steps, long and short', () => {
  const seed = Number(process.env.MILLPOND_SEED ?? Date.now() % 1e6);
  const random = randomOf(seed);
  for (let round = 0; round < 20; round++) {
    const queue = new FIFOQueue<Item>();
    const model: Item[] = [];
    const lean = 0.35 + 0.3 * random();
    for (let step = 0; step < 3000; step++) {
      const dice = random();
      const item = { serial: step, priority: 0 };
      if (dice < lean) {
        queue.push(item);
        model.push(item);
      } else if (dice < lean + 0.05) {
        queue.unshift(item);
        model.unshift(item);
      } else {
        assert.equal(queue.pop(), model.shift(), `seed ${seed}`);
      }
      assert.equal(queue.size(), model.length, `seed ${seed}`);
    }
    assert.ok(model.every((item) => queue.contains(item)), `seed ${seed}`);
    queue.clear();
    assert.equal(queue.pop(), undefined);
  }
});

test('higher priorities leave first, equal ones in the order they came', () => {
  const queue = new FIFOQueue<Item>();
  const push = (serial: number, priority: number): void => queue.push({ serial, priority });
  [[1, 0], [2, 5], [3, -1], [4, 0], [5, 5], [6, 9]].forEach(([serial, priority]) => push(serial, priority));
  const order = Array.from({ length: 6 }, () => queue.pop()?.serial);
  assert.deepEqual(order, [6, 2, 5, 1, 4, 3]);
  assert.equal(queue.size(), 0);
  assert.equal(queue.pop(), undefined);
});

test('a LIFO gives back the newest first', () => {
  const queue = new LIFOQueue<string>();
  ['a', 'b', 'c'].forEach((task) => queue.push(task));
  assert.equal(queue.contains('b'), true);
  assert.deepEqual([queue.pop(), queue.pop(), queue.size()], ['c', 'b', 1]);
  queue.clear();
  assert.equal(queue.pop(), undefined);
});

for (const transport of TRANSPORTS) {
  test(`waiting tasks run in the order of the queue, by ${transport}`, async () => {
    const orders: Record<string, number[]> = {};
    for (const queueStrategy of ['fifo', 'lifo'] as const) {
      const pool = open('methods.cjs', { maxWorkers: 1, queueStrategy, transport });
      await pool.exec('add', [0, 0]);
      const ended: number[] = [];
      const tasks = [0, 1, 2, 3].map((value) => pool.exec('sleep', [5, value]).then((result) => ended.push(result)));
      await Promise.all(tasks);
      orders[queueStrategy] = ended;
    }
    assert.deepEqual(orders, { fifo: [0, 1, 2, 3], lifo: [0, 3, 2, 1] });
  });

  test(`a queue of one's own decides every single task, by ${transport}`, async () => {
    const tasks: any[] = [];
    const queueStrategy = {
      push: (task: any) => void tasks.push(task),
      pop: () => {
        tasks.sort((one, other) => other.options.metadata.weight - one.options.metadata.weight);
        return tasks.shift();
      },
      size: () => tasks.length,
      contains: (task: any) => tasks.includes(task),
      clear: () => void (tasks.length = 0),
    };
    const pool = open('methods.cjs', { maxWorkers: 1, queueStrategy, transport });
    assert.equal(pool.taskQueue, queueStrategy);
    const ended: number[] = [];
    const run = (weight: number) =>
      pool.exec('sleep', [2, weight], { metadata: { weight } }).then((value) => ended.push(value));
    const all = [run(0), run(1), run(3), run(2)];
    assert.equal(tasks.length, 3);
    assert.equal(tasks[0].method, 'sleep');
    assert.deepEqual(tasks[0].params, [2, 1]);
    assert.equal(tasks[0].timeout, null);
    assert.equal(typeof tasks[0].resolver.reject, 'function');
    assert.equal(tasks[0].resolver.promise.pending, true);
    await Promise.all(all);
    assert.deepEqual(ended, [0, 3, 2, 1]);
  });
}

test('an order that is none is refused when the pool is made', () => {
  assert.throws(() => workerpool.pool({ queueStrategy: 'random' as any }), /^Error: Unknown queue strategy: random$/);
  const incomplete = { push() {}, pop() {}, size() {}, contains() {} };
  const missing = /^Error: Queue strategy must implement method: clear$/;
  assert.throws(() => workerpool.pool({ queueStrategy: incomplete as any }), missing);
});

test('the queues are called what workerpool calls them', () => {
  assert.equal(open().taskQueue.constructor.name, 'FIFOQueue');
  assert.equal(open({ queueStrategy: 'lifo' }).taskQueue.constructor.name, 'LIFOQueue');
});
