// What the ticks of the daemon add up to: columns of time for the charts, and the figures of the moment.
// A tick has totals since the start. Here the difference between two ticks is added to one column of each
// scale, so that an hour of ticks takes no more room than a minute. A daemon that began anew has smaller
// totals; its first tick then is only where counting begins, and the charts show a gap.

/** How much time the charts can show, and how much of it one column stands for. */
export const SCALES = [
  { name: "1 min", window_ms: 60_000, column_ms: 500 },
  { name: "5 min", window_ms: 300_000, column_ms: 2_000 },
  { name: "20 min", window_ms: 1_200_000, column_ms: 10_000 },
];
const RECENT_MS = 10_000;
const GAP_MS = 3_000;
/** Seats in which nobody sits: not yet, or no longer. */
const VACANT = ["cold", "terminated"];

export class History {
  constructor() {
    this.scales = SCALES.map(() => []);
    this.recent = [];
    this.last = null;
    this.marks = [];
  }

  /** Takes a tick in; says whether the daemon has begun anew since the last one. */
  push(tick) {
    const before = this.last;
    this.last = { ...tick, workers: tick.workers.filter(({ state }) => !VACANT.includes(state)) };
    if (before === null) return false;
    if (tick.uptime_ms < before.uptime_ms) {
      this.mark(tick.at_ms, "restarted");
      this.recent = [];
      return true;
    }
    const milliseconds = tick.at_ms - before.at_ms;
    if (milliseconds <= 0 || milliseconds > GAP_MS) return false;
    const step = difference(before, tick, milliseconds);
    SCALES.forEach((scale, place) => addToColumn(this.scales[place], scale, step));
    this.recent.push(step);
    while (this.recent[0].at < tick.at_ms - RECENT_MS) this.recent.shift();
    return false;
  }

  mark(at, kind) {
    this.marks.push({ at, kind });
    if (this.marks.length > 200) this.marks.shift();
  }

  /** The span of time to show: all of the scale, or the quarter or half of it that is filled so far. */
  span(place) {
    const { window_ms } = SCALES[place];
    const to = this.last.at_ms;
    const filled = to - (this.scales[place][0]?.at ?? to);
    const shown = [window_ms / 4, window_ms / 2].find((part) => filled <= part) ?? window_ms;
    return { from: to - shown, to };
  }

  /** The columns of a scale, oldest first. */
  columns(place) {
    return this.scales[place];
  }

  /** What the last so many milliseconds add up to. */
  sum(milliseconds) {
    const total = emptyColumn(0);
    if (this.last === null) return total;
    for (const step of this.recent) {
      if (step.at > this.last.at_ms - milliseconds) add(total, step);
    }
    return total;
  }
}

function addToColumn(columns, scale, step) {
  const at = Math.floor(step.at / scale.column_ms) * scale.column_ms;
  let column = columns.at(-1);
  if (column === undefined || column.at !== at) {
    column = emptyColumn(at);
    columns.push(column);
  }
  add(column, step);
  while (columns[0].at < at - scale.window_ms) columns.shift();
}

function emptyColumn(at) {
  return {
    at,
    seconds: 0,
    done: 0,
    failed: 0,
    refused: 0,
    turned_away: 0,
    ran: [],
    waited: [],
    depths: {},
    workers: new Map(),
  };
}

function difference(before, tick, milliseconds) {
  const grown = (of) => Math.max(0, of(tick) - of(before));
  const step = emptyColumn(tick.at_ms);
  step.seconds = milliseconds / 1000;
  step.done = grown((of) => of.succeeded);
  step.failed = grown((of) => of.failed);
  step.refused = grown((of) => of.refused);
  step.turned_away = grown((of) => of.connections.refused);
  step.ran = bucketsGrown(before.ran, tick.ran);
  step.waited = bucketsGrown(before.waited, tick.waited);
  for (const lane of tick.lanes) step.depths[lane.priority] = lane.queued;
  step.depths.connections = tick.connections.queue;
  const earlier = new Map(before.workers.map((worker) => [worker.worker, worker]));
  for (const worker of tick.workers) {
    const was = earlier.get(worker.worker);
    if (was !== undefined) step.workers.set(worker.worker, workerStep(was, worker, step.seconds));
  }
  return step;
}

/**
 * One that was busy both times with the same task was busy all the time, though nothing has been counted
 * yet.
 */
function workerStep(was, now, seconds) {
  const stuck = was.is_busy && now.is_busy && was.completed === now.completed;
  const busy = stuck ? seconds : Math.max(0, now.run_total_us - was.run_total_us) / 1e6;
  return {
    busy: Math.min(busy, seconds),
    seconds,
    stolen: Math.max(0, now.stolen - was.stolen),
  };
}

function bucketsGrown(before, now) {
  return now.counts.map((value, place) => Math.max(0, value - (before.counts[place] ?? 0)));
}

function add(column, step) {
  for (const name of ["seconds", "done", "failed", "refused", "turned_away"]) column[name] += step[name];
  for (const name of ["ran", "waited"]) {
    step[name].forEach((value, place) => (column[name][place] = (column[name][place] ?? 0) + value));
  }
  for (const [name, depth] of Object.entries(step.depths)) {
    column.depths[name] = Math.max(column.depths[name] ?? 0, depth);
  }
  for (const [number, worker] of step.workers) {
    const own = column.workers.get(number) ?? { busy: 0, seconds: 0, stolen: 0 };
    own.busy += worker.busy;
    own.seconds += worker.seconds;
    own.stolen += worker.stolen;
    column.workers.set(number, own);
  }
}

/**
 * The value that a share of all lies below, between the bounds of its bucket; undefined if there are
 * none.
 */
export function quantile(bounds, counts, share) {
  const all = counts.reduce((sum, value) => sum + value, 0);
  if (all === 0) return undefined;
  const wanted = share * all;
  let passed = 0;
  for (let place = 0; place < counts.length; place += 1) {
    if (counts[place] > 0 && passed + counts[place] >= wanted) {
      const below = place === 0 ? 0 : bounds[place - 1];
      const above = bounds[place] ?? below;
      return below + ((above - below) * (wanted - passed)) / counts[place];
    }
    passed += counts[place];
  }
  return bounds.at(-1);
}
