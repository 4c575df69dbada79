// The picture of the workers that the brain decides from, by their numbers.
//
// A row's place in the module changes when a worker before it goes, so places are remembered here and callers speak of
// numbers only.

import type { PolicyExports } from './exports.ts';
import { BrainFull } from './full.ts';
import { place, whole } from './setting.ts';

export const STATES = ['cold', 'warming', 'ready', 'busy', 'terminating', 'terminated'] as const;
export type WorkerState = (typeof STATES)[number];

const WORKERS_MAX = 4096;
const ID_MAX = 0x7fff_ffff;
const HALF = 0x1_0000_0000;

export class Workers {
  private readonly places = new Map<number, number>();

  constructor(private readonly exports: PolicyExports) {}

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

  /** Takes a worker away, from the strategy and from the owners of keys too; false if it is not there. */
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

  private at(id: number): number {
    const at = this.places.get(id);
    if (at === undefined) throw new RangeError(`worker ${id}: expected one of the picture, got another; add it first`);
    return at;
  }
}
