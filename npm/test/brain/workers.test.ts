// The picture stays right whoever comes and goes, and the limits of the brain are errors that say so.
//
// A picture that is wrong by one row gives tasks to the wrong worker for ever, so rows are compared after every change.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BrainFull, loadBrain } from '../../src/brain/load.ts';
import { module, newBrain, refusal } from './vectors.ts';

test('a task that comes, starts and ends keeps the row right', () => {
  const { workers } = newBrain();
  workers.add(7, 1, 'ready');
  workers.queued(7);
  workers.queued(7);
  workers.started(7);
  assert.deepEqual(pick(workers.row(7)), ['busy', 1, 1, 0]);
  workers.finished(7, 80, 100);
  workers.started(7);
  workers.finished(7, 160, 300);
  assert.deepEqual(pick(workers.row(7)), ['ready', 0, 0, 2]);
  const { runTotalMs, runMeanMs, idleSince } = workers.row(7);
  assert.deepEqual([runTotalMs, runMeanMs, idleSince], [240, 90, 300]);
});

function pick(row: { state: string; running: number; queued: number; completed: number }): unknown[] {
  return [row.state, row.running, row.queued, row.completed];
}

test('facts are set for the worker that is named, whoever went before it', () => {
  const { workers } = newBrain();
  for (let id = 0; id < 6; id += 1) workers.add(id, 0, 'ready', id);
  for (const gone of [0, 3, 5]) assert.equal(workers.remove(gone, 1), true);
  assert.equal(workers.remove(3, 1), false);
  workers.add(10, 2, 'cold');
  assert.deepEqual([workers.size, workers.ids()], [4, [1, 2, 4, 10]]);
  for (const id of workers.ids()) {
    workers.setLoad(id, id, 2 * id);
    workers.setCompleted(id, 2 ** 40 + id);
    workers.setUtilisation(id, id / 100);
    workers.setIdleSince(id, id);
  }
  for (const id of workers.ids()) {
    const row = workers.row(id);
    assert.deepEqual([row.id, row.running, row.queued, row.completed], [id, id, 2 * id, 2 ** 40 + id]);
    assert.deepEqual([row.utilisation, row.idleSince], [id / 100, id]);
  }
  workers.setWeight(2, 9);
  workers.setRunTime(2, 5, 0.25);
  workers.setState(2, 'terminating');
  const { weight, runTotalMs, runMeanMs, state } = workers.row(2);
  assert.deepEqual([weight, runTotalMs, runMeanMs, state], [9, 5, 0.25, 'terminating']);
});

test('numbers that are taken, unknown or no numbers are refused', () => {
  const { workers } = newBrain();
  workers.add(1, 0);
  assert.match(refusal(() => workers.add(1, 0)), /worker 1: expected a new number/);
  assert.match(refusal(() => workers.add(-1, 0)), /worker id: expected 0 to 2147483647, got -1/);
  assert.match(refusal(() => workers.add(1.5, 0)), /got 1\.5/);
  assert.match(refusal(() => workers.add(2, 0, 'asleep' as 'cold')), /state: expected one of cold, .* got "asleep"/);
  const stranger = refusal(() => workers.setLoad(9, 0, 0));
  assert.match(stranger, /worker 9: expected one of the picture, got another; add it first/);
  assert.match(refusal(() => workers.setWeight(1, -2)), /weight: expected 0 to/);
  assert.equal(workers.size, 1);
});

test('there may be 4096 workers, and the memory stays small', () => {
  const brain = newBrain();
  assert.ok(brain.memoryBytes <= 3 * 65_536, `${brain.memoryBytes} bytes at first`);
  for (let id = 0; id < 4096; id += 1) brain.workers.add(id, 0, 'ready');
  assert.throws(() => brain.workers.add(4096, 0), BrainFull);
  brain.chooser.use('fair-share', 0);
  assert.equal(brain.chooser.choose(1), 0);
  assert.ok(brain.memoryBytes < 4 << 20, `${brain.memoryBytes} bytes`);
  for (let id = 4095; id >= 0; id -= 1) brain.workers.remove(id, 2);
  assert.equal(brain.chooser.choose(3), -1);
});

test('workers that come and go for ever take no more memory', () => {
  const brain = newBrain();
  brain.chooser.use('fair-share', 0);
  const turn = (from: number): void => {
    for (let id = from; id < from + 64; id += 1) brain.workers.add(id, 0, 'ready');
    for (let id = from; id < from + 64; id += 1) brain.stealing.decide(id, 1);
    for (let id = from; id < from + 64; id += 1) brain.workers.remove(id, 1);
  };
  for (let round = 0; round < 4; round += 1) turn(round * 64);
  const before = brain.memoryBytes;
  for (let round = 4; round < 300; round += 1) turn(round * 64);
  assert.equal(brain.memoryBytes, before);
});

test('a module that is none, or not ours, is refused with what to do', () => {
  const empty = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0);
  assert.match(refusal(() => loadBrain(empty)), /policy\.wasm: expected the function version, got a module without it/);
  assert.match(refusal(() => loadBrain(Uint8Array.of(1, 2, 3))), /policy\.wasm: expected the module of this release/);
  const real = globalThis.WebAssembly;
  try {
    (globalThis as { WebAssembly?: unknown }).WebAssembly = undefined;
    assert.match(refusal(() => loadBrain(module)), /WebAssembly is missing here/);
    const forbidden = class { constructor() { throw new EvalError('blocked by Content Security Policy'); } };
    (globalThis as { WebAssembly?: unknown }).WebAssembly = { ...names(real), Module: forbidden };
    assert.match(refusal(() => loadBrain(empty)), /may not be used here .*'wasm-unsafe-eval'/);
  } finally {
    globalThis.WebAssembly = real;
  }
});

function names(real: typeof WebAssembly): object {
  const { Instance, Memory, CompileError, LinkError, RuntimeError } = real;
  return { Instance, Memory, CompileError, LinkError, RuntimeError };
}
