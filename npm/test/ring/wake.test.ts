// No wake-up is lost, whichever way a side waits: looking, blocked, by a promise, or by a message where there is no
// `Atomics.waitAsync`; waiting burns no processor; and the event loop of a worker lives between and under tasks.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SharedHub } from '../../src/links/shared-hub.ts';
import { openSharedLink, sharedLinkPossible } from '../../src/links/shared-link.ts';
import type { SharedLinkSettings } from '../../src/links/shared-link.ts';
import { Patience } from '../../src/links/wake.ts';
import { TERMINATE } from '../../src/links/link.ts';
import { LinkedWorker, eventually } from './linked-worker.ts';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Calls with pauses of every length between, so that each side is met in each state. */
async function roundsOfEveryLength(settings: SharedLinkSettings, rounds: number): Promise<void> {
  const worker = new LinkedWorker(settings);
  for (let round = 0; round < rounds; round++) {
    const answers = Array.from({ length: 1 + (round % 5) }, (_, index) => worker.call('add', [round, index]));
    assert.equal((await Promise.all(answers)).at(-1), round + (round % 5));
    const until = performance.now() + (round % 31) * 0.02;
    while (performance.now() < until);
    if (round % 40 === 0) await pause(round % 4);
  }
  await worker.end();
}

test('no wake-up is lost where the worker looks, blocks and waits', () => roundsOfEveryLength({ hub: new SharedHub() }, 1500));

test('no wake-up is lost where the worker neither looks nor blocks', () =>
  roundsOfEveryLength({ hub: new SharedHub(), spin: false, wait: false }, 800));

test('no wake-up is lost where there is no waitAsync and messages wake both sides', () =>
  roundsOfEveryLength({ hub: new SharedHub({ waitAsync: false }) }, 800));

test('no wake-up is lost by message alone', () =>
  roundsOfEveryLength({ hub: new SharedHub({ waitAsync: false }), spin: false, wait: false }, 800));

test('two workers that answer at the same time wake the pool for both', async () => {
  const hub = new SharedHub();
  const workers = [new LinkedWorker({ hub }), new LinkedWorker({ hub })];
  for (let round = 0; round < 300; round++) {
    const ms = (round % 7) * 0.1;
    assert.deepEqual(await Promise.all(workers.map((worker) => worker.call('busy', [ms]))), [ms, ms]);
  }
  await Promise.all(workers.map((worker) => worker.end()));
});

test('the timers of a worker run while tasks flow without a pause', async () => {
  const worker = new LinkedWorker();
  const before = (await worker.call('turns')) as number;
  const until = performance.now() + 150;
  while (performance.now() < until) {
    await Promise.all(Array.from({ length: 100 }, () => worker.call('busy', [0.02])));
  }
  assert.ok((await worker.call('turns')) > before, 'a timer of the worker has run');
  await worker.end();
});

test('a control message is heard although tasks lie ahead without end', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  const flood = Array.from({ length: 200 }, () => worker.call('busy', [0.2]));
  worker.link.control(TERMINATE);
  const heard = worker.call('heard');
  await Promise.all(flood);
  assert.equal(await heard, true);
  await worker.end();
});

test('a control message is heard by a worker that sleeps', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  await pause(20);
  worker.link.control(TERMINATE);
  let isHeard = false;
  void (async () => {
    while (!isHeard) isHeard = await worker.call('heard');
  })();
  await eventually(() => isHeard);
  await worker.end();
});

test('waiting for a long task takes next to no processor time', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  const before = process.cpuUsage();
  assert.equal(await worker.call('later', [400, 'slept']), 'slept');
  const used = process.cpuUsage(before);
  assert.ok((used.user + used.system) / 1000 < 200, `${(used.user + used.system) / 1000} ms of processor time in 400 ms`);
  await worker.end();
});

test('looking is given up when it does not pay, and taken up again when it does', () => {
  const patience = new Patience(0.05, 0.2);
  assert.equal(patience.lookMs, 0.05);
  patience.miss(5);
  assert.equal(patience.lookMs, 0);
  for (let round = 0; round < 10; round++) patience.miss(0.1);
  assert.equal(patience.lookMs, 0, 'given up after a few');
  for (let round = 0; round < 32 && patience.lookMs === 0; round++) patience.miss(0.1);
  assert.ok(Math.abs(patience.lookMs - 0.15) < 1e-9, 'tried again, for longer than the wait was');
  patience.hit(0.04);
  assert.ok(patience.lookMs >= 0.05 && patience.lookMs <= 0.2);
  const never = new Patience(0, 0);
  never.miss(0);
  assert.equal(never.lookMs, 0);
});

test('a look that took far too long is followed by a rest, and then by looks again', () => {
  const patience = new Patience(0.05, 0.2);
  patience.hit(3);
  assert.equal(patience.lookMs, 0, 'somebody had no processor');
  let waits = 0;
  for (; waits < 1000 && patience.lookMs === 0; waits++) patience.miss(0.1);
  assert.ok(waits > 32 && waits < 200, `looked again after ${waits} waits`);
  patience.hit(0.4);
  assert.equal(patience.lookMs, 0.2, 'twice the limit is not far too long');
});

test('a task starts although the thread that handed it over never comes to rest', async () => {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  await pause(20);
  const id = worker.send('add', [3, 4]);
  const ended = worker.endOf(id);
  const deadline = performance.now() + 10_000;
  while (worker.link.startedAt(id) === undefined && performance.now() < deadline);
  assert.notEqual(worker.link.startedAt(id), undefined);
  assert.equal(await ended, 7);
  await worker.end();
});

test('without SharedArrayBuffer the link says that it is not possible', () => {
  assert.equal(sharedLinkPossible(), true);
  const original = globalThis.SharedArrayBuffer;
  try {
    (globalThis as { SharedArrayBuffer?: unknown }).SharedArrayBuffer = undefined;
    assert.equal(sharedLinkPossible(), false);
  } finally {
    globalThis.SharedArrayBuffer = original;
  }
  const memory = WebAssembly.Memory;
  try {
    WebAssembly.Memory = class { constructor() { throw new TypeError('no shared memory'); } } as never;
    assert.equal(sharedLinkPossible(), false);
    const port = { kind: 'thread', post: () => {} } as const;
    assert.throws(() => openSharedLink(port, {} as never, { get hub() { return new SharedHub(); } }), /no shared memory/);
  } finally {
    WebAssembly.Memory = memory;
  }
});

test('an idle link does not keep the process alive', () => {
  const program = fileURLToPath(new URL('./idle-program.ts', import.meta.url));
  const output = execFileSync(process.execPath, ['--import', 'tsx', program], { timeout: 30_000, encoding: 'utf8' });
  assert.equal(output.trim(), '3');
});
