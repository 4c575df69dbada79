// Which worker gets a task: a strategy by its name, swapped at any time, and its choice with the reason.
//
// A choice is one call into the module, makes no garbage and costs some dozens of nanoseconds. The reason is put into
// words only when somebody asks.

import type { PolicyExports } from './exports.ts';
import { BrainFull, MEMORY_REMEDY } from './full.ts';
import { place, whole } from './setting.ts';
import type { Slate } from './slate.ts';
import { percent } from './words.ts';

/** The strategies in the order of the module, by the names of this package. */
export const STRATEGIES = [
  'round-robin', 'least-used', 'least-busy', 'least-elu', 'weighted-round-robin', 'interleaved-weighted', 'fair-share',
  'power-of-two', 'random',
] as const;
export type StrategyName = (typeof STRATEGIES)[number];

/** What Rust calls what JavaScript knows by the name of its measure, the event loop's utilisation. */
const ALIASES: Readonly<Record<string, StrategyName>> = { 'least-utilised': 'least-elu' };
const HALF = 0x1_0000_0000;

/** Of the first number the last parameter is the exact one: tasks may be more than JavaScript can count. */
const REASONS: readonly ((one: number, two: number, exact: bigint) => string)[] = [
  () => 'it was its turn',
  (weight, left) => `it was its turn: weight ${weight}, ${left} more this round`,
  (_one, _two, given) => `it has been given the fewest tasks: ${given}`,
  (load) => `it has the fewest tasks running and waiting: ${load}`,
  (busy, load) => `it was the least busy: ${percent(busy)}, with ${load} running and waiting`,
  (share) => `it has had the least time lately: ${percent(share)}`,
  (load, other) => `the better of two drawn: ${load} tasks against ${other}`,
  () => 'it was drawn at random',
  () => 'no other worker takes tasks',
];

export class Chooser {
  private name: StrategyName = 'round-robin';
  private readonly ask: PolicyExports['choose'];

  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {
    this.ask = exports.choose;
  }

  /** The present strategy; at first `round-robin`. */
  get strategy(): StrategyName {
    return this.name;
  }

  /**
   * From now on this strategy chooses. It knows nothing of the past and is told of every worker in the picture. The
   * seed is for those that draw at random; left out, it is drawn.
   *
   * @throws BadSetting with the names that are known.
   */
  use(strategy: string, now: number, seed: number = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)): void {
    const name = Object.hasOwn(ALIASES, strategy) ? ALIASES[strategy] : strategy;
    const number = place('strategy', STRATEGIES, name);
    whole('strategy.seed', seed, 0, Number.MAX_SAFE_INTEGER);
    if (this.exports.choose_use(number, seed % HALF, Math.floor(seed / HALF), now * 1e6) === 0) {
      throw new BrainFull(`strategy ${name}: ${MEMORY_REMEDY}`);
    }
    this.name = STRATEGIES[number];
  }

  /** The number of a worker for a task that will probably run so long (0: not known); -1 if none takes tasks. */
  choose(now: number, expectedMs = 0): number {
    return this.ask(now * 1e6, expectedMs * 1e6);
  }

  /** Why the last choice was made; empty if there was none. */
  reason(): string {
    const kind = this.exports.choose_reason();
    return kind < 0 ? '' : REASONS[kind](this.slate.whole(0), this.slate.whole(1), this.slate.exact(0));
  }
}
