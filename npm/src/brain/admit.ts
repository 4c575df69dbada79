// What happens to a task when the queue is full: five policies, and the next step for a task that wants in.
//
// The pool says how things stand at its door, takes the step, and asks again if it was to wait or to drop.

import type { PolicyExports } from './exports.ts';
import { place, span } from './setting.ts';
import { time } from './words.ts';

export const POLICIES = ['reject', 'drop-newest', 'drop-oldest', 'block', 'caller-runs'] as const;
export type AdmissionPolicy = (typeof POLICIES)[number];

export const STEPS = ['take', 'refuse', 'drop-this', 'drop-oldest', 'wait', 'run-here'] as const;
export type Step = (typeof STEPS)[number];

const CODES = ['full', 'closed', 'nothing-to-drop', 'too-deep', 'timed-out'] as const;
export type RefusalCode = (typeof CODES)[number];

/** How things stand for one task; what is left out is false, 0 or not said. */
export interface Door {
  isFull?: boolean;
  isClosed?: boolean;
  /** The submitter is a worker of this pool, and must not wait for it. */
  isWorker?: boolean;
  /** How many tasks the submitter runs on top of each other already, and how deep it may go. */
  depth?: number;
  depthMax?: number;
  /** How often an old task was looked for to be dropped, in vain. */
  drops?: number;
  waitedMs?: number;
}

export class Admission {
  private door: Door = {};
  private step: Step = 'take';
  private why = 0;

  constructor(private readonly exports: PolicyExports) {}

  /** The policy from now on, at first `reject`. A limit counts only for `block`. @throws BadSetting */
  configure(policy: string, timeoutMs: number | null = null): void {
    const number = place('back_pressure.policy', POLICIES, policy);
    this.exports.admit_configure(number, timeoutMs === null ? -1 : span('back_pressure.timeout', timeoutMs));
  }

  decide(door: Door): Step {
    const { isFull = false, isClosed = false, isWorker = false } = door;
    const flags = Number(isFull) | Number(isClosed) << 1 | Number(isWorker) << 2;
    const { depth = 0, depthMax = -1, drops = 0, waitedMs = 0 } = door;
    const answer = this.exports.admit_decide(flags, depth, depthMax, drops, waitedMs * 1e6);
    this.door = door;
    this.step = STEPS[answer & 255];
    this.why = answer >> 8;
    return this.step;
  }

  /** How long the last step says to wait; null: without a limit, or it was another step. */
  get waitMs(): number | null {
    const wait = this.exports.admit_wait();
    return wait < 0 ? null : wait / 1e6;
  }

  /** Why the last step was to refuse; undefined if it was another. */
  get code(): RefusalCode | undefined {
    return this.step === 'refuse' ? CODES[this.why] : undefined;
  }

  /** The last step in words. */
  reason(): string {
    switch (this.step) {
      case 'take': return 'there is room';
      case 'refuse': return this.refusal();
      case 'drop-this': return 'the queue is full: the new task is dropped';
      case 'drop-oldest': return 'the queue is full: the oldest task is dropped';
      case 'wait': {
        const wait = this.exports.admit_wait();
        return `the queue is full: the submitter waits for a place${wait < 0 ? '' : `, at most ${time(wait)}`}`;
      }
      case 'run-here': return this.why === 0
        ? 'the queue is full: the submitter runs the task'
        : 'the queue is full: a worker of this pool runs the task instead of waiting';
    }
  }

  private refusal(): string {
    const { depth = 0, drops = 0, waitedMs = 0 } = this.door;
    switch (CODES[this.why]) {
      case 'full': return 'the queue is full; retry later or raise queue_capacity';
      case 'closed': return 'the pool is closed; submit to another';
      case 'nothing-to-drop':
        return `the queue is full, and ${drops} times there was no old task to drop; retry at once`;
      case 'too-deep':
        return `the queue is full, and the submitter runs ${depth} tasks already; retry when they end`;
      case 'timed-out':
        return `the queue was full for ${time(Math.round(waitedMs * 1e6))}; wait longer or raise queue_capacity`;
    }
  }
}

/** The lanes in which to look for a task to drop for a new one in `lane`: the least urgent first, none more urgent. */
export function dropOrder(lane: number, lanes: number): number[] {
  return Array.from({ length: Math.max(0, lanes - lane) }, (_, at) => lanes - 1 - at);
}
