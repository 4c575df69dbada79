// What the shared link promises the pool: everything handed over ends exactly once, in order, with its own result; what
// is taken back never runs; what does not fit the ring travels all the same.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { SharedHub } from '../../src/links/shared-hub.ts';
import { LinkedWorker, eventually } from './linked-worker.ts';

const hub = new SharedHub();
const worker = new LinkedWorker({ hub });
after(() => worker.end());

test('a thousand calls each get their own answer, in the order in which they were made', async () => {
  const before = worker.order.length;
  const answers: Promise<unknown>[] = [];
  for (let index = 0; index < 1000; index++) {
    await eventually(() => {
      const id = worker.send('add', [index, 1]);
      if (id !== 0) answers.push(worker.endOf(id));
      return id !== 0;
    });
  }
  assert.deepEqual(await Promise.all(answers), Array.from({ length: 1000 }, (_, index) => index + 1));
  const order = worker.order.slice(before);
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
});

test('values of every kind and size arrive, through the ring or beside it', async () => {
  const shared = { here: 'twice' };
  const values: unknown[] = [
    1, 'text', 'ä'.repeat(300), null, undefined, { a: [1, { b: 2 }] }, new Date(5), new Map([[1, new Set([2])]]), [shared, shared],
    new Uint8Array(100), new Uint8Array(65_536), 'x'.repeat(200_000), new Array(5000).fill(3), 2n ** 100n, /regular/g, 12.5,
  ];
  for (const value of values) assert.deepStrictEqual(await worker.call('echo', [value]), structuredClone(value));
  const all = await Promise.all(values.map((value) => worker.call('echo', [value])));
  assert.deepStrictEqual(all, structuredClone(values).map((value: unknown) => structuredClone(value)));
  const [first, second] = (await worker.call('echo', [[shared, shared]])) as object[];
  assert.equal(first, second, 'one object stays one object');
});

test('calls without parameters, with empty ones and with a method that no table holds', async () => {
  assert.equal(await worker.call('count'), 0);
  assert.equal(await worker.call('count', []), 0);
  assert.equal(await worker.call('count', [undefined, undefined]), 2);
  const id = worker.send('no such method '.repeat(20), [1]);
  await assert.rejects(worker.endOf(id), { message: /undefined/ });
});

test('errors come back as errors, and the worker goes on', async () => {
  await assert.rejects(worker.call('throws', ['on purpose']), { message: 'on purpose' });
  await assert.rejects(worker.call('uncloneable'), { name: 'DataCloneError' });
  assert.equal(await worker.call('add', [2, 3]), 5);
});

test('what cannot be cloned throws at once, and nothing was sent', async () => {
  assert.throws(() => worker.send('echo', [() => 1]), { name: 'DataCloneError' });
  assert.equal(await worker.call('add', [4, 5]), 9);
});

test('a transferred buffer is gone here and there at the other end', async () => {
  const buffer = new ArrayBuffer(100_000);
  const answer = worker.call('echo', [buffer], [buffer]);
  assert.equal(buffer.byteLength, 0);
  assert.equal((await answer).byteLength, 100_000);
});

test('events come before the result of their task, however the result travels', async () => {
  for (const count of [1, 10, 500]) {
    worker.emitted.length = 0;
    assert.equal(await worker.call('emits', [count]), 'emitted');
    assert.deepEqual(worker.emitted.map((event) => (event as number[])[1]), Array.from({ length: count }, (_, index) => index));
  }
});

test('events arrive while their task is still running', async () => {
  worker.emitted.length = 0;
  const ended = worker.call('emitsSlowly', [3]);
  await eventually(() => worker.emitted.length === 3);
  assert.equal(await Promise.race([ended, Promise.resolve('runs on')]), 'runs on');
  assert.equal(await ended, 'emitted');
});

test('what comes after the end of its task is heard all the same', async () => {
  worker.emitted.length = 0;
  const id = worker.send('emitsLate');
  await worker.endOf(id);
  await eventually(() => worker.emitted.length === 1 && worker.ends.get(id) === 2);
  worker.ends.set(id, 1);
});

test('a method that returns a promise holds the tasks behind it until it settles', async () => {
  const before = worker.order.length;
  const slow = worker.send('later', [20, 'slow']);
  const fast = worker.send('add', [1, 1]);
  assert.deepEqual(await Promise.all([worker.endOf(slow), worker.endOf(fast)]), ['slow', 2]);
  assert.deepEqual(worker.order.slice(before), [slow, fast]);
});

test('a full ring says so, holds as many as it has slots, and goes on when there is room', async () => {
  const blocker = worker.endOf(worker.send('later', [50, 0]));
  const sent: Promise<unknown>[] = [];
  for (let id = worker.send('add', [1, 2]); id !== 0; id = worker.send('add', [1, 2])) sent.push(worker.endOf(id));
  assert.equal(sent.length, 255);
  await blocker;
  assert.ok((await Promise.all(sent)).every((answer) => answer === 3));
  assert.equal(await worker.call('add', [1, 2]), 3);
});

test('an arena full of parameters says so and is used round and round', async () => {
  const text = 'x'.repeat(3001);
  for (let round = 0; round < 20; round++) {
    const sent: Promise<unknown>[] = [];
    for (let id = worker.send('echo', [text]); id !== 0; id = worker.send('echo', [text])) sent.push(worker.endOf(id));
    assert.ok(sent.length >= 20, `only ${sent.length} fitted`);
    assert.ok((await Promise.all(sent)).every((answer) => answer === text));
  }
});

test('a task taken back never runs, and one that had started is not taken back', async () => {
  const blocker = worker.send('later', [60, 'first']);
  const ended = worker.endOf(blocker);
  await eventually(() => worker.link.startedAt(blocker) !== undefined);
  const ids = Array.from({ length: 40 }, (_, index) => worker.send('echo', [index % 7 === 0 ? 'y'.repeat(70_000) : index]));
  const kept = ids.filter((_, index) => index % 3 === 0).map((id) => worker.endOf(id));
  for (const [index, id] of ids.entries()) if (index % 3 !== 0) assert.equal(worker.link.revoke(id), true);
  assert.equal(worker.link.revoke(blocker), false);
  assert.equal(worker.link.revoke(ids[1]), false, 'only once');
  assert.equal(await ended, 'first');
  await Promise.all(kept);
  assert.equal(await worker.call('add', [1, 2]), 3);
  for (const [index, id] of ids.entries()) assert.equal(worker.ends.get(id) ?? 0, index % 3 === 0 ? 1 : 0);
});

test('of two who want a task, the worker and the pool, exactly one gets it', async () => {
  let taken = 0;
  let ran = 0;
  for (let round = 0; round < 3000; round++) {
    const first = worker.send('add', [round, 0]);
    const second = worker.send('add', [round, 1]);
    for (let spin = round % 97; spin > 0; spin--) worker.link.startedAt(first);
    const isTaken = worker.link.revoke(second);
    await worker.endOf(first);
    if (isTaken) taken++;
    else await (worker.ends.has(second) ? undefined : worker.endOf(second));
    if (!isTaken) ran++;
    assert.equal(worker.ends.get(second) ?? 0, isTaken ? 0 : 1);
  }
  assert.equal(taken + ran, 3000);
  assert.equal(await worker.call('add', [1, 2]), 3);
  assert.ok([...worker.ends.values()].every((count) => count === 1));
});

test('a start is told in the clock of the pool', async () => {
  const before = performance.now();
  const id = worker.send('later', [30, 0]);
  const ended = worker.endOf(id);
  await eventually(() => worker.link.startedAt(id) !== undefined);
  const started = worker.link.startedAt(id)!;
  const next = worker.send('add', [1, 2]);
  const nextEnded = worker.endOf(next);
  assert.equal(worker.link.startedAt(next), undefined, 'one that waits has not started');
  await ended;
  // The clocks of two threads are read from one source but may be set a moment apart.
  assert.ok(started > before - 5 && started < performance.now() + 5, `${before} ${started} ${performance.now()}`);
  assert.ok(worker.link.runMeanMs > 0);
  await nextEnded;
});

test('taking back over and over does not fill the ring for ever', async () => {
  const blocker = worker.send('later', [40, 0]);
  const ended = worker.endOf(blocker);
  let refused = 0;
  for (let round = 0; round < 3000; round++) {
    const id = worker.send('echo', [round]);
    if (id === 0) refused++;
    else assert.equal(worker.link.revoke(id), true);
  }
  assert.ok(refused > 0, 'the lane has an end');
  await ended;
  // The first that finds room may take the only place; when it has ended, so has all that was taken back before it.
  let first: Promise<unknown> = Promise.resolve();
  await eventually(() => {
    const id = worker.send('add', [1, 1]);
    if (id !== 0) first = worker.endOf(id);
    return id !== 0;
  });
  assert.equal(await first, 2);
  assert.equal(await worker.call('add', [1, 2]), 3);
});

test('a link with nothing outstanding is never full, however many large tasks were taken back', async () => {
  const large = new Uint8Array(40_000);
  for (let round = 0; round < 200; round++) {
    const id = worker.send('count', [large]);
    assert.notEqual(id, 0, `full in round ${round}`);
    if (!worker.link.revoke(id)) await worker.endOf(id);
  }
  assert.equal(await worker.call('count', [large]), 1);
});

test('values up to the limit and over it arrive one at a time and many at a time', async () => {
  const texts = [3, 1000, 15_000, 16_370, 16_384, 17_000, 70_000].map((length) => 'z'.repeat(length));
  for (let round = 0; round < 30; round++) {
    for (const text of texts) assert.equal(await worker.call('echo', [text]), text);
    const burst = Array.from({ length: 40 }, (_, index) => texts[(round + index) % texts.length]);
    const sent: Promise<unknown>[] = [];
    for (const text of burst) {
      const id = worker.send('echo', [text]);
      if (id === 0) break;
      sent.push(worker.endOf(id));
    }
    assert.ok(sent.length >= 7, `only ${sent.length} fitted`);
    assert.deepEqual(await Promise.all(sent), burst.slice(0, sent.length));
  }
});

test('one task that takes far longer hardly moves the mean', async () => {
  for (let round = 0; round < 50; round++) await worker.call('busy', [0.05]);
  const before = worker.link.runMeanMs;
  await worker.call('busy', [60]);
  assert.ok(worker.link.lastRunMs >= 59);
  assert.ok(worker.link.runMeanMs <= 2 * before, `${before} ms became ${worker.link.runMeanMs} ms`);
  for (let round = 0; round < 100; round++) await worker.call('busy', [5]);
  assert.ok(worker.link.runMeanMs > 2, 'but many of them do');
});
