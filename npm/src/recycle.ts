// When a worker has served long enough: after so many tasks, at an age, or when its heap has grown too large.
//
// The count is looked at when a task ends; age and heap by a timer that keeps no program alive. The worker is never
// stopped in the middle of a task: the pool gives it nothing more, takes back what it has not started, and replaces it.
// For age they go one at a time, the next when the last one's successor is ready, so that a pool whose workers were
// born together does not stand still when they grow old together; and none goes before it has run a task, so that an
// age shorter than the start of a worker still lets work be done.
//
// The heap is told by the worker itself, between two tasks. A worker that does not speak our protocol (a script that
// still uses workerpool's own worker()) cannot be asked: `maxHeapUsedMb` then warns once and does nothing. A hard limit
// that also holds inside a task is workerThreadOpts.resourceLimits, which ends the worker.

import type { PoolCore } from './hooks.ts';
import type { RecycleOptions } from './options.ts';
import type { WorkerHandle } from './workers/handle.ts';

/** Up to this many tasks `maxTasks` is exact: the worker is handed nothing ahead of its turn. Above it a few more may
 * have started in the worker by the time the last one is answered; the speed of handing over ahead is worth that. */
export const EXACT_TASKS_MAX = 100;
const LOOK_EVERY_MAX_MS = 500;
const LOOK_EVERY_MIN_MS = 10;
const MEGABYTE = 1024 * 1024;

export class Recycler {
  private timer: ReturnType<typeof setInterval> | undefined;
  private hasWarned = false;

  constructor(
    private readonly settings: RecycleOptions, private readonly pool: PoolCore,
    private readonly warn: (message: string) => void,
  ) {}

  start(): void {
    const { maxAgeMs, maxHeapUsedMb } = this.settings;
    if (this.timer !== undefined || (maxAgeMs === undefined && maxHeapUsedMb === undefined)) return;
    const often = Math.min(LOOK_EVERY_MAX_MS, Math.max(LOOK_EVERY_MIN_MS, (maxAgeMs ?? Infinity) / 4));
    this.timer = setInterval(() => this.look(performance.now()), often);
    (this.timer as { unref?(): void }).unref?.();
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** The worker has ended a task and was not given the next yet. */
  answered(handle: WorkerHandle): void {
    const { maxTasks } = this.settings;
    if (maxTasks !== undefined && handle.completed + handle.failed >= maxTasks) this.recycle(handle);
  }

  /** Looks for one that is too old, and asks the others for their heap. */
  look(now: number): void {
    const { maxAgeMs, maxHeapUsedMb } = this.settings;
    const stays = this.pool.workers.filter((handle) => !handle.terminating && !handle.terminated);
    if (maxAgeMs !== undefined && stays.every((handle) => handle.ready)) {
      const old = stays.find((handle) => now - handle.createdAt >= maxAgeMs && handle.completed + handle.failed > 0);
      if (old) this.recycle(old);
    }
    if (maxHeapUsedMb !== undefined) for (const handle of stays) this.weigh(handle, maxHeapUsedMb);
  }

  private weigh(handle: WorkerHandle, maxHeapUsedMb: number): void {
    if (!handle.ready) return;
    // What it told since the last look; then it is asked anew.
    if (handle.heapUsed > maxHeapUsedMb * MEGABYTE) this.recycle(handle);
    else if (!handle.askHeap() && !this.hasWarned) {
      this.hasWarned = true;
      this.warn('recycle.maxHeapUsedMb: these workers cannot tell their heap; let their script use millpond/worker');
    }
  }

  private recycle(handle: WorkerHandle): void {
    if (!handle.terminating && !handle.terminated) this.pool.recycle(handle);
  }
}
