// The picture of the workers that the brain decides from, by their numbers.
//
// A row's place in the module changes when a worker before it goes, so places are remembered here and callers speak of
// numbers only. A pool either sets single facts (`setLoad` and so on) or says what happens to its tasks (`queued`,
// `started`, `finished`), which keeps load, state, counts and times right together.

import type { PolicyExports } from './exports.ts';
import { BrainFull } from './full.ts';
import { place, whole } from './setting.ts';
import type { Slate } from './slate.ts';

export const STATES = ['cold', 'warming', 'ready', 'busy', 'terminating', 'terminated'] as const;
export type WorkerState = (typeof STATES)[number];

const WORKERS_MAX = 4096;
const ID_MAX = 0x7fff_ffff;
const HALF = 0x1_0000_0000;

/** All that is known of one worker; a copy. */
export interface WorkerRow {
  id: number;
  state: WorkerState;
  running: number;
  queued: number;
  completed: number;
  runTotalMs: number;
  runMeanMs: number;
  /** From 0 to 1. */
  utilisation: number;
  weight: number;
  idleSince: number;
}

export class Workers {
  private readonly places = new Map<number, number>();

  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {}

  get size(): number {
    return this.places.size;
  }

  has(id: number): boolean {
    return this.places.has(id);
  }

  /** The numbers of the workers, in the order of their rows. */
  ids(): number[] {
    return [...this.places.keys()];
  }

  /** Adds a worker and tells the strategy of it. Its number is never used again. A weight of 0 is measured. */
  add(id: number, now: number, state: WorkerState = 'cold', weight = 0): void {
    whole('worker id', id, 0, ID_MAX);
    whole('weight', weight, 0);
    if (this.places.has(id)) {
      throw new RangeError(`worker ${id}: expected a new number, got one that is in the picture`);
    }
    const code = place('state', STATES, state);
    if (this.exports.workers_add(id, code, weight, now * 1e6) === 0) {
      throw new BrainFull(`worker ${id}: expected at most ${WORKERS_MAX} workers, got one more`);
    }
    this.exports.workers_came(id, now * 1e6);
    this.places.set(id, this.places.size);
  }

  /** Takes a worker away, from the strategy, the thieves and the owners of keys too; false if it is not there. */
  remove(id: number, now: number): boolean {
    const gone = this.places.get(id);
    if (gone === undefined) return false;
    this.exports.workers_remove(gone);
    this.exports.workers_gone(id, now * 1e6);
    this.places.delete(id);
    for (const [other, at] of this.places) if (at > gone) this.places.set(other, at - 1);
    return true;
  }

  setState(id: number, state: WorkerState): void {
    this.exports.workers_state(this.at(id), place('state', STATES, state));
  }

  setLoad(id: number, running: number, queued: number): void {
    this.exports.workers_load(this.at(id), running, queued);
  }

  setCompleted(id: number, completed: number): void {
    this.exports.workers_completed(this.at(id), completed % HALF, Math.floor(completed / HALF));
  }

  setRunTime(id: number, totalMs: number, meanMs: number): void {
    this.exports.workers_run_time(this.at(id), totalMs * 1e6, meanMs * 1e6);
  }

  /** Which share of the last while it was busy, from 0 to 1: the event loop's utilisation, for instance. */
  setUtilisation(id: number, share: number): void {
    this.exports.workers_utilisation(this.at(id), Math.min(share, 1));
  }

  /** How much it can do, up to 1000; 0: that is to be measured. */
  setWeight(id: number, weight: number): void {
    this.exports.workers_weight(this.at(id), whole('weight', weight, 0));
  }

  setIdleSince(id: number, now: number): void {
    this.exports.workers_idle_since(this.at(id), now * 1e6);
  }

  /** A task waits for it. */
  queued(id: number): void {
    this.exports.workers_queued(this.at(id));
  }

  /** Tasks that waited for it do so no more and have not started: cancelled, or stolen. */
  unqueued(id: number, tasks = 1): void {
    this.exports.workers_unqueued(this.at(id), tasks);
  }

  /** One of the tasks that wait for it runs. */
  started(id: number): void {
    this.exports.workers_started(this.at(id));
  }

  /** A task that ran has ended, after so long. */
  finished(id: number, ranMs: number, now: number): void {
    this.exports.workers_finished(this.at(id), ranMs * 1e6, now * 1e6);
  }

  row(id: number): WorkerRow {
    this.exports.workers_row(this.at(id));
    const fact = (at: number): number => this.slate.whole(at);
    return {
      id: fact(0), state: STATES[fact(1)], running: fact(2), queued: fact(3), completed: fact(4),
      runTotalMs: fact(5) / 1e6, runMeanMs: fact(6) / 1e6, utilisation: fact(7) / 10_000, weight: fact(8),
      idleSince: fact(9) / 1e6,
    };
  }

  private at(id: number): number {
    const at = this.places.get(id);
    if (at === undefined) throw new RangeError(`worker ${id}: expected one of the picture, got another; add it first`);
    return at;
  }
}
