// What decides when there is no WebAssembly (or it is turned off): the same questions, answered in plain JavaScript.
//
// Not the brain's equal, and it says so: every strategy is 'least-busy', percentiles are those of buckets that grow by
// an eighth, and there is no prediction. Affinity and scaling keep their promises: a key stays with its worker, only a
// lost worker's keys move, and the number of workers does not swing. Everything has a limit, as in the brain.
//
// Not here: when to use it (`features.ts`).

/** The picture of the workers, as far as the package writes it. */
export interface Picture {
  add(id: number, now: number, state?: 'ready', weight?: number): void;
  remove(id: number, now: number): boolean;
  setState(id: number, state: 'ready' | 'terminating'): void;
  setLoad(id: number, running: number, queued: number): void;
  setCompleted(id: number, completed: number): void;
  setRunTime(id: number, totalMs: number, meanMs: number): void;
  setUtilisation(id: number, share: number): void;
}

export interface Choice {
  use(strategy: string, now: number): void;
  choose(now: number): number;
  reason(): string;
}

export interface ScaleSettings {
  workersMin: number;
  workersMax: number;
  scaleUpThreshold: number;
  scaleDownThreshold: number;
  scaleDownIdleMs: number;
  stepUp: number;
  stepDown: number;
  cooldownMs: number;
  samples: number;
  predict: { horizonMs: number; halfLifeMs: number; utilisation: number } | null;
  intervalMs: number;
}

export interface ScaleLoad {
  workers: number;
  waiting: number;
  running: number;
  idleLong: number;
  arrivalsTotal: number;
  runMeanMs: number;
}

export interface Scale {
  configure(settings: ScaleSettings): void;
  /** +n: start n; -n: let n retire; 0: stay. */
  decide(load: ScaleLoad, now: number): number;
  reason(): string;
}

export interface AffinityCounts {
  hits: number;
  misses: number;
  moved: number;
}

export interface Owners {
  configure(settings: {
    method: 'rendezvous' | 'ring'; virtualNodes: number; stickyForMs: number; stickyKeysMax: number;
  }): void;
  add(id: number): boolean;
  remove(id: number, now: number): number;
  /** The worker the key is with, or else its owner; -1 if there are no workers. Then `hit` tells which. */
  route(key: string, now: number): number;
  readonly hit: boolean;
  preference(key: string, most: number): number[];
  counts(): AffinityCounts;
}

export interface LatencySummary {
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

export interface LatencyHistogram {
  record(ms: number, times?: number): void;
  snapshot(): LatencySummary;
  cumulative(boundsMs: readonly number[]): number[];
}

/** What the package asks of a brain, whoever answers. */
export interface BrainFace {
  readonly workers: Picture;
  readonly chooser: Choice;
  readonly scaling: Scale;
  readonly affinity: Owners;
  histogram(): LatencyHistogram;
}

export class PlainBrain implements BrainFace {
  readonly workers = new PlainPicture();
  readonly chooser = new LeastBusy(this.workers);
  readonly scaling = new PlainScale();
  readonly affinity = new PlainOwners();

  histogram(): LatencyHistogram {
    return new PlainHistogram();
  }
}

interface Row {
  load: number;
  takes: boolean;
}

class PlainPicture implements Picture {
  readonly rows = new Map<number, Row>();

  add(id: number): void {
    this.rows.set(id, { load: 0, takes: true });
  }

  remove(id: number): boolean {
    return this.rows.delete(id);
  }

  setState(id: number, state: 'ready' | 'terminating'): void {
    const row = this.rows.get(id);
    if (row) row.takes = state === 'ready';
  }

  setLoad(id: number, running: number, queued: number): void {
    const row = this.rows.get(id);
    if (row) row.load = running + queued;
  }

  setCompleted(): void {}
  setRunTime(): void {}
  setUtilisation(): void {}
}

class LeastBusy implements Choice {
  private last = -1;

  constructor(private readonly picture: PlainPicture) {}

  use(): void {}

  /** Equals take turns: the first after the last one chosen wins. */
  choose(): number {
    let best = -1;
    let least = Infinity;
    let isBestAfterLast = false;
    for (const [id, row] of this.picture.rows) {
      if (!row.takes) continue;
      const isAfterLast = id > this.last;
      if (row.load < least || (row.load === least && isAfterLast && !isBestAfterLast)) {
        best = id;
        least = row.load;
        isBestAfterLast = isAfterLast;
      }
    }
    this.last = best;
    return best;
  }

  reason(): string {
    return 'least-busy';
  }
}

class PlainScale implements Scale {
  private settings: ScaleSettings | undefined;
  private pressing = 0;
  private changedAt = -Infinity;
  private why = 'nothing decided yet';

  configure(settings: ScaleSettings): void {
    this.settings = settings;
  }

  decide(load: ScaleLoad, now: number): number {
    const { settings } = this;
    if (!settings) return 0;
    const { workersMin, workersMax } = settings;
    if (load.workers < workersMin) return this.say(`there must be ${workersMin} workers`, workersMin - load.workers);
    if (load.workers > workersMax) return this.say(`there may be ${workersMax} workers`, workersMax - load.workers);
    const tasks = load.waiting + load.running;
    const ratio = tasks / Math.max(1, load.workers);
    this.pressing = ratio >= settings.scaleUpThreshold ? this.pressing + 1 : 0;
    if (now - this.changedAt < settings.cooldownMs) return this.say('the number changed a moment ago', 0);
    if (this.pressing >= settings.samples && load.workers < workersMax) {
      this.changedAt = now;
      this.pressing = 0;
      const by = Math.min(settings.stepUp, workersMax - load.workers);
      return this.say(`${ratio} tasks for each worker, at or above ${settings.scaleUpThreshold}`, by);
    }
    const fewest = Math.max(workersMin, Math.floor(tasks / settings.scaleUpThreshold) + 1);
    const by = Math.min(settings.stepDown, load.idleLong, load.workers - fewest);
    if (by <= 0 || load.waiting > 0 || ratio > settings.scaleDownThreshold) return this.say('the load is steady', 0);
    this.changedAt = now;
    return this.say(`${load.idleLong} workers idle for ${settings.scaleDownIdleMs} ms or longer`, -by);
  }

  reason(): string {
    return this.why;
  }

  private say(reason: string, by: number): number {
    this.why = reason;
    return by;
  }
}

class PlainOwners implements Owners {
  hit = false;
  private readonly ids = new Set<number>();
  /** Keys in the order of their last use, so that the first is the one to forget. */
  private readonly sticky = new Map<string, { id: number; until: number }>();
  private stickyForMs = 60_000;
  private stickyKeysMax = 4096;
  private readonly tally: AffinityCounts = { hits: 0, misses: 0, moved: 0 };

  configure(settings: { stickyForMs: number; stickyKeysMax: number }): void {
    this.stickyForMs = settings.stickyForMs;
    this.stickyKeysMax = settings.stickyKeysMax;
    this.sticky.clear();
    this.ids.clear();
  }

  add(id: number): boolean {
    const isNew = !this.ids.has(id);
    this.ids.add(id);
    return isNew;
  }

  remove(id: number): number {
    if (!this.ids.delete(id)) return -1;
    let moved = 0;
    for (const [key, place] of this.sticky) {
      if (place.id !== id) continue;
      this.sticky.delete(key);
      moved += 1;
    }
    this.tally.moved += moved;
    return moved;
  }

  route(key: string, now: number): number {
    const place = this.sticky.get(key);
    this.hit = place !== undefined && place.until > now;
    this.tally[this.hit ? 'hits' : 'misses'] += 1;
    const id = this.hit ? (place as { id: number }).id : (this.preference(key, 1)[0] ?? -1);
    this.sticky.delete(key);
    if (id < 0) return -1;
    if (this.sticky.size >= this.stickyKeysMax) this.sticky.delete(this.sticky.keys().next().value as string);
    this.sticky.set(key, { id, until: now + this.stickyForMs });
    return id;
  }

  preference(key: string, most: number): number[] {
    const drawn = [...this.ids].map((id) => ({ id, draw: hash(`${id}\0${key}`) }));
    drawn.sort((one, other) => other.draw - one.draw || one.id - other.id);
    return drawn.slice(0, most).map(({ id }) => id);
  }

  counts(): AffinityCounts {
    return { ...this.tally };
  }
}

/** FNV-1a with whole-number products and a finaliser, over UTF-16 units: good enough to spread keys. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}

/** Buckets from a microsecond to some days, eight for each doubling. */
class PlainHistogram implements LatencyHistogram {
  private static readonly PER_DOUBLING = 8;
  private static readonly SMALLEST_MS = 0.001;
  private readonly counts = new Float64Array(320);
  private count = 0;
  private sumMs = 0;
  private minMs = Infinity;
  private maxMs = 0;

  record(ms: number, times = 1): void {
    if (!(ms >= 0)) return;
    const steps = Math.ceil(Math.log2(ms / PlainHistogram.SMALLEST_MS) * PlainHistogram.PER_DOUBLING);
    this.counts[Math.max(0, Math.min(this.counts.length - 1, steps))] += times;
    this.count += times;
    this.sumMs += ms * times;
    if (ms < this.minMs) this.minMs = ms;
    if (ms > this.maxMs) this.maxMs = ms;
  }

  snapshot(): LatencySummary {
    const { count, sumMs, maxMs } = this;
    return {
      count,
      sumMs,
      minMs: count === 0 ? 0 : this.minMs,
      maxMs,
      meanMs: count === 0 ? 0 : sumMs / count,
      p50: this.quantile(0.5),
      p90: this.quantile(0.9),
      p95: this.quantile(0.95),
      p99: this.quantile(0.99),
      p999: this.quantile(0.999),
    };
  }

  cumulative(boundsMs: readonly number[]): number[] {
    return boundsMs.map((bound) => {
      let below = 0;
      for (let at = 0; at < this.counts.length && upper(at) <= bound; at++) below += this.counts[at];
      return below;
    });
  }

  private quantile(share: number): number {
    let left = Math.ceil(share * this.count);
    for (let at = 0; at < this.counts.length && this.count > 0; at++) {
      left -= this.counts[at];
      if (left <= 0) return Math.min(this.maxMs, Math.max(this.minMs, upper(at)));
    }
    return 0;
  }
}

function upper(bucket: number): number {
  return 0.001 * 2 ** (bucket / 8);
}
