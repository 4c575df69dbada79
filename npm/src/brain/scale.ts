// More workers, or fewer: a sample of the load goes in, a number comes out.
//
// Whoever asks does what the answer says, or the next answer rests on what is not so.

import type { PolicyExports } from './exports.ts';
import { BadSetting, fraction, longer, span, whole } from './setting.ts';
import type { Slate } from './slate.ts';
import { plain, ratio, time } from './words.ts';

export interface ScaleSettings {
  /** The fewest workers, 1 to `workersMax`. Default 1. */
  workersMin?: number;
  /** The most workers, 1 or more. Default 8. */
  workersMax?: number;
  /** Tasks running and waiting for each worker, from which on there should be more. Default 2. */
  scaleUpThreshold?: number;
  /** Tasks running and waiting for each worker, up to which there may be fewer. Default 0.5. */
  scaleDownThreshold?: number;
  /** For how long a worker must have had nothing to do before it may go. Default 30 s. */
  scaleDownIdleMs?: number;
  /** Workers to add at once. Default 1. */
  stepUp?: number;
  /** Workers to let go at once. Default 1. */
  stepDown?: number;
  /** For how long the number stays after a change. Default 5 s. */
  cooldownMs?: number;
  /** Samples in a row that must ask for more. Default 2. */
  samples?: number;
  /** How long a task may wait before there should be more, whatever the load. Default: any time. */
  waitMaxMs?: number | null;
  /** How to look ahead. Default: only the present counts. */
  predict?: { horizonMs?: number; halfLifeMs?: number; utilisation?: number } | null;
  /** How often a sample is taken. Default 1 s. */
  intervalMs?: number;
}

/** A sample of the load; what is left out is 0. */
export interface Load {
  workers: number;
  waiting?: number;
  running?: number;
  idleLong?: number;
  oldestWaitMs?: number;
  arrivalsTotal?: number;
  runMeanMs?: number;
}

const THRESHOLD_MAX = 1_000_000;

const REASONS: readonly ((one: number, two: number, three: number) => string)[] = [
  (least) => `there are fewer workers than workers_min (${least})`,
  (most) => `there are more workers than workers_max (${most})`,
  (load, threshold) => `${ratio(load)} tasks a worker; ${ratio(threshold)} is the threshold`,
  (waited, limit) => `a task has waited ${time(waited)}; ${time(limit)} is the limit`,
  (needed, horizon) => `${needed} workers will be needed in ${time(horizon)}`,
  (idle, load, threshold) =>
    `${idle} idle for long, ${ratio(load)} tasks a worker; ${ratio(threshold)} is the threshold`,
  (load) => `${ratio(load)} tasks a worker`,
  (seen, wanted) => `more are asked for in ${seen} samples in a row; ${wanted} are wanted`,
  (left) => `the number changed a moment ago and stays for ${time(left)}`,
  (most) => `more are asked for, and there are workers_max (${most})`,
  (least) => `fewer would do, and there are workers_min (${least})`,
  (idle) => `fewer would do, and nobody has been idle for ${time(idle)}`,
  (needed) => `fewer would not do: ${needed} are needed`,
];

export class Scaling {
  private workersAfter = 0;

  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {}

  /**
   * Takes settings, of which those left out are the defaults, and keeps what it has seen.
   *
   * @throws BadSetting, and the old settings stay.
   */
  configure(settings: ScaleSettings): void {
    this.slate.writeFloats(checked(settings));
    this.exports.scale_configure();
  }

  /** Above 0: start so many; below 0: let so many retire; 0: nothing, or it is not configured. */
  decide(load: Load, now: number): number {
    const { workers, waiting = 0, running = 0, idleLong = 0 } = load;
    const { oldestWaitMs = 0, arrivalsTotal = 0, runMeanMs = 0 } = load;
    this.slate.writeFloats([workers, waiting, running, idleLong, oldestWaitMs * 1e6, arrivalsTotal, runMeanMs * 1e6]);
    const change = this.exports.scale_decide(now * 1e6);
    this.workersAfter = workers + change;
    return change;
  }

  /** So many workers there are to be after the last decision. */
  get to(): number {
    return this.workersAfter;
  }

  /** Why the last decision was made; empty if there was none. */
  reason(): string {
    const kind = this.exports.scale_reason();
    return kind < 0 ? '' : REASONS[kind](this.slate.whole(0), this.slate.whole(1), this.slate.whole(2));
  }
}

/** The settings in the order of the module; checks come in the order of the Rust side. */
function checked(settings: ScaleSettings): number[] {
  const {
    workersMin = 1, workersMax = 8, scaleUpThreshold = 2, scaleDownThreshold = 0.5, scaleDownIdleMs = 30_000,
    stepUp = 1, stepDown = 1, cooldownMs = 5_000, samples = 2, waitMaxMs = null, predict = null, intervalMs = 1_000,
  } = settings;
  whole('scaling.workers_max', workersMax);
  if (!Number.isInteger(workersMin) || workersMin < 1 || workersMin > workersMax) {
    throw new BadSetting('scaling.workers_min', `1 to workers_max (${workersMax})`, plain(workersMin));
  }
  whole('scaling.step_up', stepUp);
  whole('scaling.step_down', stepDown);
  whole('scaling.samples', samples);
  const interval = longer('scaling.interval', intervalMs);
  fraction('scaling.scale_up_threshold', scaleUpThreshold, 0.001, THRESHOLD_MAX);
  fraction('scaling.scale_down_threshold', scaleDownThreshold, 0.001, THRESHOLD_MAX);
  if (Math.floor(scaleDownThreshold * 1000 + 0.5) >= Math.floor(scaleUpThreshold * 1000 + 0.5)) {
    const expected = `less than scale_up_threshold (${plain(scaleUpThreshold)})`;
    throw new BadSetting('scaling.scale_down_threshold', expected, plain(scaleDownThreshold));
  }
  const { horizonMs = 10_000, halfLifeMs = 3_000, utilisation = 0.8 } = predict ?? {};
  const horizon = longer('scaling.predict.horizon', horizonMs);
  const halfLife = longer('scaling.predict.half_life', halfLifeMs);
  fraction('scaling.predict.utilisation', utilisation, 0.01, 1);
  return [
    workersMin, workersMax, scaleUpThreshold, scaleDownThreshold, span('scaling.scale_down_idle', scaleDownIdleMs),
    stepUp, stepDown, span('scaling.cooldown', cooldownMs), samples,
    waitMaxMs === null ? -1 : span('scaling.wait_max', waitMaxMs), interval, Number(predict !== null), horizon,
    halfLife, utilisation,
  ];
}
