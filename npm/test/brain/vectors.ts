// What the tests of the brain share: the module as it is kept, the vectors, and pictures of workers as these write
// them.
//
// The vectors are the files that the Rust tests read, so what passes here and there decides alike.

import { readFileSync } from 'node:fs';
import { loadBrain } from '../../src/brain/load.ts';
import type { Brain } from '../../src/brain/load.ts';
import { STATES } from '../../src/brain/workers.ts';

export const module = new WebAssembly.Module(readFileSync(new URL('../../wasm/policy.wasm', import.meta.url)));

export const newBrain = (): Brain => loadBrain(module);

export function vectorText(name: string): string {
  return readFileSync(new URL(`../../../tests/vectors/${name}.json`, import.meta.url), 'utf8');
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the tests say what each file holds
export const vectors = (name: string): any => JSON.parse(vectorText(name));

/** Numbers from 2^53 on are written as text. */
export function halves(value: number | string | undefined): [number, number] {
  const number = BigInt(value ?? 0);
  return [Number(number & 0xffff_ffffn), Number(number >> 32n)];
}

export interface VectorWorker {
  id: number;
  state?: string;
  running?: number;
  queued?: number;
  completed?: number | string;
  run_total_ns?: number;
  run_mean_ns?: number;
  utilisation?: number;
  weight?: number;
  idle_since_ms?: number;
}

/** How many workers were painted into the picture of each brain. */
const painted = new WeakMap<Brain, number>();

/** Puts exactly these workers into the picture; nobody is told of their coming or going. */
export function paint(brain: Brain, workers: readonly VectorWorker[], usualState = 'ready'): void {
  const { exports } = brain;
  for (let left = painted.get(brain) ?? 0; left > 0; left -= 1) exports.workers_remove(0);
  painted.set(brain, workers.length);
  workers.forEach((worker, at) => {
    const state = STATES.indexOf((worker.state ?? usualState) as (typeof STATES)[number]);
    exports.workers_add(worker.id, state, worker.weight ?? 0, (worker.idle_since_ms ?? 0) * 1e6);
    exports.workers_load(at, worker.running ?? 0, worker.queued ?? 0);
    exports.workers_completed(at, ...halves(worker.completed));
    exports.workers_run_time(at, worker.run_total_ns ?? 0, worker.run_mean_ns ?? 0);
    exports.workers_utilisation(at, (worker.utilisation ?? 0) / 10_000);
  });
}

/** The text of the error that `act` throws. */
export function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('expected a refusal, got none');
}
