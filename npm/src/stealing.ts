// How many of a worker's waiting tasks an idle worker takes: one, half or all of them, within limits.
//
// The rules are those of `crates/policy` (steal), and tests/vectors/steal.json holds both to them: below the threshold,
// and for a while after a batch was taken from the same worker, it is one task instead of a batch, but never none while
// a task waits. So the cooldown limits how many tasks travel and never keeps one waiting behind a long one. Half is
// rounded up, so that the last task can be taken too.
//
// Not here: whom to take from, and whether the task had started meanwhile (the pool and the link).

import type { StealPolicy } from './hooks.ts';
import type { StealingSettings } from './options.ts';

/** Whoever does not say whom it robs robs always the same. */
const ANYBODY = -1;

export class Stealing implements StealPolicy {
  readonly enabled: boolean;
  private batchAt = -Infinity;
  private batchFrom = ANYBODY;

  constructor(private readonly settings: StealingSettings) {
    this.enabled = settings.enabled;
  }

  count(unstarted: number, victim = ANYBODY, now = performance.now()): number {
    const { stealSize, stealThreshold, maxStealSize, stealCooldown } = this.settings;
    if (!this.enabled || unstarted <= 0) return 0;
    if (stealSize === 'one' || unstarted === 1 || unstarted < stealThreshold) return 1;
    if (victim === this.batchFrom && now - this.batchAt < stealCooldown) return 1;
    const taken = Math.min(maxStealSize, stealSize === 'half' ? unstarted - (unstarted >> 1) : unstarted);
    if (taken > 1) {
      this.batchAt = now;
      this.batchFrom = victim;
    }
    return taken;
  }

  /** The last robbery brought nothing, since the tasks had started meanwhile: no cooldown follows from it. */
  cameBackEmpty(): void {
    this.batchAt = -Infinity;
  }
}
