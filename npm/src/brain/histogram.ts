// How long things took: counts in buckets that are a 64th of their value wide, so percentiles are within 0.8 %.
//
// Times are milliseconds here and nanoseconds in the module. A histogram takes 32 KB there.

import type { PolicyExports } from './exports.ts';
import { BrainFull } from './full.ts';
import { BadSetting, whole } from './setting.ts';
import type { Slate } from './slate.ts';
import { plain, shown } from './words.ts';

/** Upper bounds for an exposition in a few buckets. */
export const BOUNDS_DEFAULT_MS: readonly number[] = [1, 5, 10, 25, 50, 100, 250, 500, 1000];

export interface Summary {
  count: number;
  sumMs: number;
  minMs: number;
  maxMs: number;
  meanMs: number;
  p50: number;
  p90: number;
  p95: number;
  p99: number;
  p999: number;
}

const HISTOGRAMS_MAX = 256;
const HALF = 0x1_0000_0000;

export class Histogram {
  /** Its number in the module. */
  readonly number: number;
  private readonly count_: PolicyExports['histogram_record'];

  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {
    this.number = exports.histogram_new();
    this.count_ = exports.histogram_record;
    if (this.number < 0) {
      throw new BrainFull(`histogram: expected at most ${HISTOGRAMS_MAX} at once, got one more`);
    }
  }

  /** Counts a time, perhaps several times. */
  record(ms: number, times = 1): void {
    if (times === 1) {
      this.count_(this.number, ms * 1e6);
      return;
    }
    whole('times', times, 0, Number.MAX_SAFE_INTEGER);
    const nanos = Math.max(0, Math.round(ms * 1e6)) || 0;
    const halves = [nanos % HALF, Math.floor(nanos / HALF), times % HALF, Math.floor(times / HALF)];
    this.exports.histogram_record_exact(this.number, ...halves);
  }

  get count(): number {
    this.exports.histogram_read(this.number);
    return this.slate.whole(0);
  }

  /** What was counted, in milliseconds; all 0 if that is nothing. */
  snapshot(): Summary {
    this.exports.histogram_read(this.number);
    const ms = (at: number): number => this.slate.whole(at) / 1e6;
    return {
      count: this.slate.whole(0), sumMs: ms(1), minMs: ms(2), maxMs: ms(3), meanMs: ms(4),
      p50: ms(5), p90: ms(6), p95: ms(7), p99: ms(8), p999: ms(9),
    };
  }

  /** How many are at or below each of the bounds, which ascend, as Prometheus wants them. @throws BadSetting */
  cumulative(boundsMs: readonly number[] = BOUNDS_DEFAULT_MS): number[] {
    this.slate.writeWholes(boundsInNanos(boundsMs));
    const count = this.exports.histogram_cumulative(this.number, boundsMs.length);
    return Array.from({ length: count }, (_, at) => this.slate.whole(at));
  }
}

/** Bounds in whole nanoseconds. @throws BadSetting */
export function boundsInNanos(boundsMs: readonly number[]): number[] {
  const bad = (got: string): BadSetting => new BadSetting(
    'metrics.histogram_buckets', '1 to 64 ascending numbers of milliseconds, each from 0.000001 to 1000000000', got,
  );
  if (boundsMs.length < 1 || boundsMs.length > 64) throw bad(`${boundsMs.length} numbers`);
  const bounds: number[] = [];
  boundsMs.forEach((bound, index) => {
    const isBound = typeof bound === 'number' && bound >= 0.000_001 && bound <= 1e9;
    if (!isBound) throw bad(`${shown(bound)} at place ${index + 1}`);
    const nanos = Math.floor(bound * 1e6 + 0.5);
    if (index > 0 && bounds[index - 1] >= nanos) throw bad(`${plain(bound)} after ${plain(boundsMs[index - 1])}`);
    bounds.push(nanos);
  });
  return bounds;
}
