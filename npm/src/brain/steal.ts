// Whom an idle worker robs, and of how much. Every worker is its own thief and remembers its last robbery.
//
// Only tasks that may be stolen should be counted as queued in the picture. The robbery itself is the pool's.

import type { PolicyExports } from './exports.ts';
import { place, span, whole } from './setting.ts';
import type { Slate } from './slate.ts';
import { time } from './words.ts';

export const STEAL_SIZES = ['one', 'half', 'all'] as const;
export type StealSize = (typeof STEAL_SIZES)[number];

export interface StealSettings {
  /** Whether workers rob each other at all. Default true. */
  enabled?: boolean;
  /** How many tasks a robbery takes. Default half of what the victim has more. */
  size?: StealSize;
  /** The most tasks of one robbery, 1 or more. Default 32. */
  tasksMax?: number;
  /** How many more tasks the victim must have for a batch, 1 or more. Default 2. */
  threshold?: number;
  /** For how long after a batch only single tasks are taken from the same victim. Default 10 ms. */
  cooldownMs?: number;
}

const REASONS: readonly ((one: number, two: number) => string)[] = [
  (queued) => `it has the most tasks waiting: ${queued}`,
  (queued, spared) => `it has the most tasks waiting but for worker ${spared}, robbed a moment ago: ${queued}`,
  (queued, threshold) =>
    `the thief has nothing to do: one of ${queued} waiting, below the threshold of ${threshold}`,
  (queued, left) => `it was robbed a moment ago: one of ${queued} waiting, no batch for ${time(left)}`,
];

export class Stealing {
  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {}

  /** @throws BadSetting */
  configure(settings: StealSettings): void {
    const { enabled = true, size = 'half', tasksMax = 32, threshold = 2, cooldownMs = 10 } = settings;
    this.exports.steal_configure(
      Number(enabled), place('stealing.size', STEAL_SIZES, size), whole('stealing.tasks_max', tasksMax),
      whole('stealing.threshold', threshold), span('stealing.cooldown', cooldownMs),
    );
  }

  /** The number of the worker that `thief` should rob, or -1. Then `take` says of how many tasks. */
  decide(thief: number, now: number): number {
    return this.exports.steal_decide(thief, now * 1e6);
  }

  get take(): number {
    return this.exports.steal_take() >>> 0;
  }

  /** Why the last robbery is as it is; empty if there was none. */
  reason(): string {
    const kind = this.exports.steal_reason();
    return kind < 0 ? '' : REASONS[kind](this.slate.whole(0), this.slate.whole(1));
  }

  /** The last robbery of this thief brought nothing: the victim was faster. */
  cameBackEmpty(thief: number): void {
    this.exports.steal_came_back_empty(thief);
  }
}
