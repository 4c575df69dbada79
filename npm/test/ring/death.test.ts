// A worker may be ended at any instruction. Whatever it had in hand then, every task ends once: with the result that was
// finished, as started and lost, or as unstarted and given back; and the memory serves the next worker.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedHub } from '../../src/links/shared-hub.ts';
import { LinkedWorker, eventually } from './linked-worker.ts';

const ROUNDS = Number(process.env.MILLPOND_KILLS ?? 25);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('a worker ended at a random moment under load loses no task and doubles none', async () => {
  const hub = new SharedHub();
  const seed = Number(process.env.MILLPOND_SEED ?? Math.floor(Math.random() * 1e6));
  let state = seed;
  const roll = (below: number): number => (state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff) % below;
  let unstarted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const worker = new LinkedWorker({ hub });
    await worker.call('add', [1, 2]);
    const sent = new Set<number>();
    const deadline = performance.now() + roll(12);
    const params = [[1, 2], ['x'.repeat(500)], [new Uint8Array(20_000)], [{ a: [1, 2, 3] }]][roll(4)];
    let ended: Promise<{ started: number[]; unstarted: number[] }> | undefined;
    while (ended === undefined) {
      for (let index = 0; index < 20; index++) {
        const id = worker.send('echo', params);
        if (id !== 0) sent.add(id);
      }
      if (performance.now() >= deadline) ended = worker.end();
      else await new Promise((resolve) => setImmediate(resolve));
    }
    const outcome = await ended;
    const context = `seed ${seed}, round ${round}`;
    assert.ok(outcome.started.length <= 1, `${context}: at most one can have been running`);
    unstarted += outcome.unstarted.length;
    const told = new Map(worker.ends);
    for (const id of [...outcome.started, ...outcome.unstarted]) told.set(id, (told.get(id) ?? 0) + 1);
    for (const id of sent) assert.equal(told.get(id), 1, `${context}: task ${id}`);
    assert.deepEqual(outcome.unstarted, [...outcome.unstarted].sort((a, b) => a - b), `${context}: in their order`);
  }
  assert.ok(unstarted > 0, 'some worker was ended with tasks ahead');
});

test('the memory does not grow with the number of workers that lived', async () => {
  const hub = new SharedHub();
  const ended = async (): Promise<void> => {
    const worker = new LinkedWorker({ hub });
    await worker.call('add', [1, 2]);
    await worker.end();
  };
  await ended();
  const bytes = hub.estate.memory.buffer.byteLength;
  for (let life = 0; life < 5; life++) await ended();
  assert.equal(hub.estate.memory.buffer.byteLength, bytes);
});

test('a worker that ends itself in a task leaves that task started and the others unstarted', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  const fatal = worker.send('exits', [3]);
  const behind = [worker.send('add', [1, 2]), worker.send('add', [3, 4])];
  assert.deepEqual(await worker.exited, { started: [fatal], unstarted: behind });
});

test('a worker ended in a task that never ends leaves it started, and a second end says nothing', async () => {
  const worker = new LinkedWorker();
  const stuck = worker.send('busy', [1e9]);
  const behind = worker.send('add', [1, 2]);
  await eventually(() => worker.link.startedAt(stuck) !== undefined);
  assert.deepEqual(await worker.end(), { started: [stuck], unstarted: [behind] });
  assert.deepEqual(worker.link.abandon(), { started: [], unstarted: [] });
});

test('what was finished before the end is delivered although nobody had looked', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  const ids = Array.from({ length: 50 }, (_, index) => worker.send('echo', [index % 2 === 0 ? index : new Uint8Array(50_000)]));
  // This thread does not turn, so it fetches nothing meanwhile.
  const last = ids[ids.length - 1];
  const deadline = performance.now() + 10_000;
  while (worker.link.startedAt(last) === undefined && performance.now() < deadline) {
    // The worker is woken at the end of this code, or after 32 tasks, whichever comes first.
  }
  const outcome = await worker.end();
  for (const id of ids) {
    const given = outcome.started.includes(id) || outcome.unstarted.includes(id);
    assert.equal((worker.ends.get(id) ?? 0) + Number(given), 1);
  }
  assert.ok(worker.ends.size > 40);
});

test('another worker of the same pool is served on while one dies', async () => {
  const hub = new SharedHub();
  const steady = new LinkedWorker({ hub });
  await steady.call('add', [1, 2]);
  for (let life = 0; life < 5; life++) {
    const brief = new LinkedWorker({ hub });
    const calls = Promise.all(Array.from({ length: 100 }, (_, index) => steady.call('add', [index, 1])));
    const first = brief.call('add', [1, 1]);
    await first;
    for (let index = 0; index < 100; index++) brief.send('echo', [index]);
    await pause(life % 3);
    await brief.end();
    assert.equal((await calls).length, 100);
  }
  await steady.end();
});
