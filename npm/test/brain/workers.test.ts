// The picture stays right whoever comes and goes, and the limits of the brain are errors that say so.
//
// A picture that is wrong by one row gives tasks to the wrong worker for ever, so each row is made to stand out once.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BrainFull, loadBrain } from '../../src/brain/load.ts';
import { module, newBrain, refusal } from './vectors.ts';

test('facts are set for the worker that is named, whoever went before it', () => {
  const { chooser, workers } = newBrain();
  for (let id = 0; id < 6; id += 1) workers.add(id, 0, 'ready', id);
  for (const gone of [0, 3, 5]) assert.equal(workers.remove(gone, 1), true);
  assert.equal(workers.remove(3, 1), false);
  workers.add(10, 2, 'ready');
  assert.deepEqual([workers.size, workers.ids()], [4, [1, 2, 4, 10]]);
  // Each in turn is the one that stands out, so it must be the one that is chosen.
  const standsOut = (strategy: string, set: (id: number, isChosen: boolean) => void): void => {
    chooser.use(strategy, 3);
    for (const chosen of workers.ids()) {
      for (const id of workers.ids()) set(id, id === chosen);
      assert.equal(chooser.choose(4), chosen, strategy);
    }
  };
  standsOut('least-busy', (id, isChosen) => workers.setLoad(id, isChosen ? 0 : 1, isChosen ? 1 : 2));
  for (const id of workers.ids()) workers.setLoad(id, 0, 0);
  standsOut('least-elu', (id, isChosen) => workers.setUtilisation(id, isChosen ? 0.2 : 0.3));
  standsOut('least-used', (id, isChosen) => workers.setCompleted(id, 2 ** 40 + (isChosen ? 1 : 2)));
  standsOut('round-robin', (id, isChosen) => workers.setState(id, isChosen ? 'ready' : 'terminating'));
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
  assert.match(refusal(() => workers.add(3, 0, 'cold', -2)), /weight: expected 0 to/);
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
    brain.chooser.choose(1);
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
