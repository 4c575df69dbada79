// What a pool tells about itself: counts kept while it runs, and a picture made of them when somebody asks.
//
// A task costs two counters here. Clocks are dear (two of them can cost more than all the rest), so at high rates only
// one task in up to 64 is timed and stands for the others in the histogram; below some thousands a second all are.
// The picture has the shape of workerpool's plan, and more beside it; numbers at rest add up: every task that was taken
// in waits, runs, or is in one of the endings.
//
// Not here: the text for Prometheus (`prometheus.ts`), which tasks exist (the pool).

import type { Outcome, PoolCore } from './hooks.ts';
import type { LatencyHistogram } from './plain-brain.ts';
import type { Task } from './task.ts';
import type { Utilisation } from './utilisation.ts';
import type { WorkerHandle } from './workers/handle.ts';

export interface WorkerMetrics {
  readonly id: number;
  readonly activeTasks: number;
  readonly completedTasks: number;
  readonly avgTaskTimeMs: number;
  readonly eluPercent: number;
  readonly queuedTasks: number;
  readonly failedTasks: number;
  readonly ageMs: number;
}

export interface LatencyBucket {
  /** Upper bound, ms. */
  readonly le: number;
  /** Tasks up to it, those of the smaller buckets included. */
  readonly count: number;
}

/** A picture of a pool. The first fields of each group are those of workerpool's plan. */
export interface PoolMetrics {
  readonly throughput: { readonly tasksPerSecond: number; readonly avgLatencyMs: number };
  readonly workers: readonly WorkerMetrics[];
  readonly queue: {
    readonly size: number; readonly enqueued: number; readonly dequeued: number; readonly stolen: number;
    readonly maxSize: number;
  };
  readonly scaling: {
    readonly scaleUps: number; readonly scaleDowns: number; readonly currentWorkers: number;
    readonly minWorkers: number; readonly maxWorkers: number; readonly recycled: number; readonly crashed: number;
  };
  readonly latencyHistogram: {
    readonly p50: number; readonly p90: number; readonly p95: number; readonly p99: number; readonly p999: number;
    readonly count: number; readonly sumMs: number; readonly minMs: number; readonly maxMs: number;
    readonly buckets: readonly LatencyBucket[];
  };
  readonly tasks: {
    readonly submitted: number; readonly completed: number; readonly failed: number; readonly cancelled: number;
    readonly timedOut: number; readonly dropped: number; readonly rejected: number; readonly callerRuns: number;
  };
  readonly backPressure: { readonly policy: string; readonly events: number; readonly waiting: number };
  readonly affinity: {
    readonly hits: number; readonly misses: number; readonly moved: number; readonly hitRate: number;
  };
  readonly uptimeMs: number;
}

/** What the other features have counted. */
export interface FeatureCounts {
  scaleUps: number;
  scaleDowns: number;
  policy: string;
  pressureEvents: number;
  rejected: number;
  callerRuns: number;
  blocked: number;
  affinityHits: number;
  affinityMisses: number;
  affinityMoved: number;
}

/** The most tasks one timed task stands for. */
const TIMED_EVERY_MAX = 64;
/** Tasks per millisecond up to which every one is timed. */
const TIMED_ALL_RATE = 5;
/** The rate is looked at anew after so long. */
const RATE_EVERY_MS = 10;

export class Metrics {
  private readonly startedAt = performance.now();
  private readonly rate: SlidingRate;
  private submittedCount = 0;
  private doneCount = 0;
  private failedCount = 0;
  private cancelledCount = 0;
  private timedOutCount = 0;
  private droppedCount = 0;
  private stolenCount = 0;
  private recycledCount = 0;
  private crashedCount = 0;
  private every = 1;
  private untilTimed = 1;
  private rateAt = this.startedAt;
  private rateEnded = 0;
  private timedEnded = 0;

  constructor(
    private readonly pool: PoolCore,
    private readonly histogram: LatencyHistogram,
    private readonly bucketsMs: readonly number[],
    private readonly utilisation: Utilisation,
    /** The pool stamps every task itself (telemetry asks for it): then every task is timed. */
    private readonly isStamped: boolean,
  ) {
    // Metrics may be turned on while the pool runs: then what its workers have counted is where we begin.
    let active = 0;
    for (const handle of pool.workers) {
      this.doneCount += handle.completed;
      this.failedCount += handle.failed;
      active += handle.given > 0 ? 1 : 0;
    }
    this.submittedCount = this.doneCount + this.failedCount + active + pool.pending();
    this.rateEnded = this.ended;
    this.timedEnded = this.ended;
    this.rate = new SlidingRate(this.startedAt, this.ended);
  }

  submitted(task: Task): void {
    this.submittedCount += 1;
    if (this.isStamped) return;
    this.untilTimed -= 1;
    if (this.untilTimed > 0) return;
    this.untilTimed = this.every;
    task.submittedAt = performance.now();
  }

  settled(task: Task, outcome: Outcome): void {
    switch (outcome) {
      case 'done': this.doneCount += 1; break;
      case 'cancelled': this.cancelledCount += 1; break;
      case 'timed-out': this.timedOutCount += 1; break;
      case 'dropped': this.droppedCount += 1; return;
      default: this.failedCount += 1;
    }
    if (task.submittedAt > 0) this.time(task.submittedAt);
  }

  stolen(count: number): void {
    this.stolenCount += count;
  }

  workerRemoved(reason: string): void {
    if (reason === 'recycled') this.recycledCount += 1;
    else if (reason === 'crashed') this.crashedCount += 1;
  }

  get arrivals(): number {
    return this.submittedCount;
  }

  snapshot(counts: FeatureCounts): PoolMetrics {
    const now = performance.now();
    const { pool } = this;
    const size = pool.pending();
    const recent = this.rate.read(now, this.ended);
    const latency = this.histogram.snapshot();
    const buckets = this.histogram.cumulative(this.bucketsMs);
    const looked = counts.affinityHits + counts.affinityMisses;
    return {
      throughput: {
        tasksPerSecond: round(recent.perSecond),
        avgLatencyMs: round(recent.timed > 0 ? recent.latencyMs / recent.timed : latency.meanMs),
      },
      workers: pool.workers.map((handle) => this.worker(handle, now)),
      queue: {
        size,
        enqueued: this.submittedCount,
        dequeued: Math.max(0, this.submittedCount - size),
        stolen: this.stolenCount,
        maxSize: pool.maxQueueSize,
      },
      scaling: {
        scaleUps: counts.scaleUps,
        scaleDowns: counts.scaleDowns,
        currentWorkers: pool.workers.length,
        minWorkers: pool.minWorkers ?? 0,
        maxWorkers: pool.maxWorkers,
        recycled: this.recycledCount,
        crashed: this.crashedCount,
      },
      latencyHistogram: {
        p50: latency.p50,
        p90: latency.p90,
        p95: latency.p95,
        p99: latency.p99,
        p999: latency.p999,
        count: latency.count,
        sumMs: latency.sumMs,
        minMs: latency.minMs,
        maxMs: latency.maxMs,
        buckets: this.bucketsMs.map((le, at) => ({ le, count: buckets[at] })),
      },
      tasks: {
        submitted: this.submittedCount,
        completed: this.doneCount,
        failed: this.failedCount,
        cancelled: this.cancelledCount,
        timedOut: this.timedOutCount,
        dropped: this.droppedCount,
        rejected: counts.rejected,
        callerRuns: counts.callerRuns,
      },
      backPressure: { policy: counts.policy, events: counts.pressureEvents, waiting: counts.blocked },
      affinity: {
        hits: counts.affinityHits,
        misses: counts.affinityMisses,
        moved: counts.affinityMoved,
        hitRate: looked === 0 ? 0 : counts.affinityHits / looked,
      },
      uptimeMs: now - this.startedAt,
    };
  }

  private get ended(): number {
    return this.doneCount + this.failedCount + this.cancelledCount + this.timedOutCount;
  }

  private worker(handle: WorkerHandle, now: number): WorkerMetrics {
    const active = handle.given > 0 ? 1 : 0;
    return {
      id: handle.id,
      activeTasks: active,
      completedTasks: handle.completed,
      avgTaskTimeMs: round(handle.runMeanMs),
      eluPercent: round(100 * this.utilisation.share(handle, now)),
      queuedTasks: handle.given - active + handle.backlog,
      failedTasks: handle.failed,
      ageMs: now - handle.createdAt,
    };
  }

  private time(submittedAt: number): void {
    const now = performance.now();
    const latencyMs = now - submittedAt;
    const { ended } = this;
    // It stands for all that ended since the last one that was timed: so the counts add up, whatever the rate was.
    this.histogram.record(latencyMs, ended - this.timedEnded);
    this.timedEnded = ended;
    this.rate.note(now, ended, latencyMs);
    const elapsed = now - this.rateAt;
    if (elapsed < RATE_EVERY_MS || this.isStamped) return;
    const perMs = (ended - this.rateEnded) / elapsed;
    this.every = Math.max(1, Math.min(TIMED_EVERY_MAX, Math.floor(perMs / TIMED_ALL_RATE)));
    if (this.untilTimed > this.every) this.untilTimed = this.every;
    this.rateAt = now;
    this.rateEnded = ended;
  }
}

const WINDOW_MS = 10_000;
const POINTS = 64;

interface Point {
  at: number;
  ended: number;
  latencyMs: number;
  timed: number;
}

/** How much was done in the last ten seconds, from points on the way that are at least a 64th of it apart. */
export class SlidingRate {
  private readonly points: Point[] = [];
  /** Where we are: the next task makes it a point, if the last one is far enough behind. */
  private latest: Point;

  constructor(at: number, ended: number) {
    this.latest = { at, ended, latencyMs: 0, timed: 0 };
    this.points.push({ ...this.latest });
  }

  note(now: number, ended: number, latencyMs: number): void {
    const { latest, points } = this;
    if (latest.at - points[points.length - 1].at >= WINDOW_MS / POINTS) {
      if (points.length > POINTS) points.shift();
      points.push({ ...latest });
    }
    latest.at = now;
    latest.ended = ended;
    latest.latencyMs += latencyMs;
    latest.timed += 1;
  }

  read(now: number, ended: number): { perSecond: number; latencyMs: number; timed: number } {
    const from = now - WINDOW_MS;
    const { latest } = this;
    let base = this.points[0];
    for (const point of this.points) if (point.at <= from) base = point;
    if (latest.at <= from) base = latest;
    const elapsed = Math.max(1, Math.min(WINDOW_MS, now - base.at));
    return {
      perSecond: (1000 * (ended - base.ended)) / elapsed,
      latencyMs: latest.latencyMs - base.latencyMs,
      timed: latest.timed - base.timed,
    };
  }
}

function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
