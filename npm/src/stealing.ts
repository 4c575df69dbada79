// How many of a worker's waiting tasks an idle worker takes: one, half or all of them, within limits.
//
// The rules are those of `crates/policy` (steal): below the threshold, and for a while after a batch was taken, it is
// one task instead of a batch, but never none while a task waits. So the cooldown limits how many tasks travel and
// never keeps one waiting behind a long one. Half is rounded up, so that the last task can be taken too.
//
// Not here: whom to take from, and whether the task had started meanwhile (the pool and the link).

import type { StealPolicy } from './hooks.ts';
import type { StealingSettings } from './options.ts';

export class Stealing implements StealPolicy {
  readonly enabled: boolean;
  private batchAt = -Infinity;

  constructor(private readonly settings: StealingSettings) {
    this.enabled = settings.enabled;
  }

  count(unstarted: number): number {
    const { stealSize, stealThreshold, maxStealSize, stealCooldown } = this.settings;
    if (!this.enabled || unstarted <= 0) return 0;
    if (stealSize === 'one' || unstarted === 1 || unstarted < stealThreshold) return 1;
    const now = performance.now();
    if (now - this.batchAt < stealCooldown) return 1;
    this.batchAt = now;
    return Math.min(maxStealSize, stealSize === 'half' ? unstarted - (unstarted >> 1) : unstarted);
  }
}
