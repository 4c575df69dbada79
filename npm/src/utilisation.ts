// How busy a worker's event loop is, as a share from 0 to 1, looked at no more often than ten times a second.
//
// In Node a thread tells its event-loop utilisation itself. Where nobody tells (processes, browsers) the share is made
// from what the pool has seen: tasks that ended since the last look times their mean run time, and a worker that had a
// task in hand all the while counts as fully busy.

import type { WorkerHandle } from './workers/handle.ts';

/** Shorter stretches say more of chance than of load, and every look asks the worker's loop for its counters. */
export const LOOK_EVERY_MS = 100;

interface Look {
  at: number;
  ended: number;
  wasBusy: boolean;
  share: number;
}

export class Utilisation {
  private readonly looks = new WeakMap<WorkerHandle, Look>();

  /** The worker's share over the last stretch. */
  share(handle: WorkerHandle, now: number): number {
    let look = this.looks.get(handle);
    if (!look) {
      look = { at: handle.createdAt, ended: 0, wasBusy: false, share: 0 };
      this.looks.set(handle, look);
    }
    if (now - look.at < LOOK_EVERY_MS) return look.share;
    const told = handle.eventLoopUtilization()?.utilization;
    look.share = told !== undefined && Number.isFinite(told) ? clamp(told) : seen(handle, look, now);
    look.at = now;
    look.ended = handle.completed + handle.failed;
    look.wasBusy = handle.busy();
    return look.share;
  }
}

function seen(handle: WorkerHandle, last: Look, now: number): number {
  const ended = handle.completed + handle.failed - last.ended;
  if (ended === 0) return handle.busy() && last.wasBusy ? 1 : 0;
  return clamp((ended * handle.runMeanMs) / (now - last.at));
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}
