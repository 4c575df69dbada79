// When the number of workers changes: a sample of the load now and then, the brain's decision, and telling of it.
//
// With scaling on, exec makes workers by itself only up to the lower limit; above it they come and go by decision:
// more when the tasks for each worker stay above a threshold (or are forecast to), fewer when workers have been idle
// for long. Its timer never keeps a program alive, and an unused pool starts nothing.
//
// Not here: deciding (`brain/scale.ts`), starting and ending workers without losing a task (the pool).

import type { ScalingEvent } from './events.ts';
import type { PoolCore } from './hooks.ts';
import type { ScalingSettings } from './options.ts';
import type { BrainFace, ScaleLoad } from './plain-brain.ts';

export class Scaler {
  scaleUps = 0;
  scaleDowns = 0;
  private timer: ReturnType<typeof setInterval> | undefined;
  private arrivals = 0;

  constructor(
    private readonly settings: ScalingSettings, private readonly brain: BrainFace, private readonly pool: PoolCore,
  ) {
    brain.scaling.configure({
      workersMin: settings.minWorkers,
      workersMax: settings.maxWorkers,
      scaleUpThreshold: settings.scaleUpThreshold,
      scaleDownThreshold: settings.scaleDownThreshold,
      scaleDownIdleMs: settings.scaleDownIdleTimeout,
      stepUp: settings.scaleUpStep,
      stepDown: settings.scaleDownStep,
      cooldownMs: settings.cooldownPeriod,
      samples: settings.samples,
      predict: settings.predictive
        ? {
          horizonMs: settings.predictive.horizon,
          halfLifeMs: settings.predictive.halfLife,
          utilisation: settings.predictive.utilisation,
        }
        : null,
      intervalMs: settings.interval,
    });
    pool.growLimit = settings.minWorkers;
  }

  /** Whether arrivals must be counted: only a forecast reads them. */
  get countsArrivals(): boolean {
    return this.settings.predictive !== undefined;
  }

  arrived(): void {
    this.arrivals += 1;
  }

  start(): void {
    if (this.timer !== undefined) return;
    this.timer = setInterval(() => this.sample(performance.now()), this.settings.interval);
    (this.timer as { unref?(): void }).unref?.();
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.pool.growLimit = this.settings.minWorkers;
  }

  /** Looks at the load and does what the brain says. Public so that a test can be the clock. */
  sample(now: number): void {
    const load = this.load(now);
    if (load.workers === 0 && load.waiting === 0) return;
    const by = this.brain.scaling.decide(load, now);
    if (by > 0) this.up(by);
    else if (by < 0) this.down(-by);
  }

  private load(now: number): ScaleLoad {
    const load: ScaleLoad = {
      workers: 0, waiting: this.pool.pending(), running: 0, idleLong: 0, arrivalsTotal: this.arrivals, runMeanMs: 0,
    };
    const idleFrom = this.settings.scaleDownIdleTimeout;
    let timed = 0;
    for (const handle of this.pool.workers) {
      if (handle.terminating || handle.terminated) continue;
      load.workers += 1;
      if (handle.given > 0) load.running += 1;
      else if (handle.backlog === 0 && now - handle.lastTaskAt >= idleFrom) load.idleLong += 1;
      if (handle.runMeanMs > 0) {
        timed += 1;
        load.runMeanMs += handle.runMeanMs;
      }
    }
    if (timed > 0) load.runMeanMs /= timed;
    return load;
  }

  private up(by: number): void {
    const { pool } = this;
    const reason = this.brain.scaling.reason();
    pool.growLimit = Math.min(this.settings.maxWorkers, Math.max(pool.growLimit, pool.workers.length + by));
    const added = pool.addWorkers(by);
    if (added === 0) return;
    this.scaleUps += 1;
    this.tell({ type: 'scale-up', added, removed: 0, totalWorkers: pool.workers.length, reason });
  }

  private down(by: number): void {
    const { pool } = this;
    const reason = this.brain.scaling.reason();
    const removed = pool.retireIdle(by, this.settings.scaleDownIdleTimeout);
    if (removed === 0) return;
    pool.growLimit = Math.max(this.settings.minWorkers, pool.workers.length);
    this.scaleDowns += 1;
    this.tell({ type: 'scale-down', added: 0, removed, totalWorkers: pool.workers.length, reason });
  }

  private tell(event: ScalingEvent): void {
    this.pool.emit(event.type, event);
    try {
      this.settings.onScaling?.(event.type, event);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
