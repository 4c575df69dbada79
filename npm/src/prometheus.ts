// A pool's metrics as the text that Prometheus reads (exposition format 0.0.4), under the names of workerpool's plan.
//
// Times are seconds there and milliseconds here; counters end in _total; a histogram's buckets are cumulative and end
// with +Inf, which equals its count. Names are fixed, labels may be anything and are escaped.
//
// Not here: counting (`metrics.ts`), serving the text over HTTP (the user's server).

import type { PoolMetrics } from './metrics.ts';

/** The Content-Type to serve the text with. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export type Labels = Readonly<Record<string, string>>;

const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/** Labels that the families below set themselves. */
const RESERVED = new Set(['status', 'le', 'worker', 'direction', 'result', 'state', 'policy']);
const LABELS_MAX = 32;

type Sample = readonly [suffix: string, labels: Labels, value: number];

/** The text, with `labels` (a pool's name, say) on every line. */
export function prometheusText(metrics: PoolMetrics, labels: Labels = {}): string {
  checkLabels(labels);
  const lines: string[] = [];
  const family = (name: string, type: string, help: string, samples: readonly Sample[]): void => {
    if (samples.length === 0) return;
    lines.push(`# HELP workerpool_${name} ${escapeHelp(help)}`, `# TYPE workerpool_${name} ${type}`);
    for (const [suffix, own, value] of samples) {
      lines.push(`workerpool_${name}${suffix}${labelText({ ...labels, ...own })} ${numberText(value)}`);
    }
  };
  taskFamilies(metrics, family);
  queueFamilies(metrics, family);
  workerFamilies(metrics, family);
  return `${lines.join('\n')}\n`;
}

type Family = (name: string, type: string, help: string, samples: readonly Sample[]) => void;

function taskFamilies(metrics: PoolMetrics, family: Family): void {
  const { tasks, throughput, latencyHistogram: latency } = metrics;
  family('tasks_total', 'counter', 'Tasks that ended, by how they did.', [
    ['', { status: 'completed' }, tasks.completed],
    ['', { status: 'failed' }, tasks.failed],
    ['', { status: 'cancelled' }, tasks.cancelled],
    ['', { status: 'timed_out' }, tasks.timedOut],
    ['', { status: 'dropped' }, tasks.dropped],
    ['', { status: 'rejected' }, tasks.rejected],
  ]);
  family('tasks_submitted_total', 'counter', 'Tasks that were taken in.', [['', {}, tasks.submitted]]);
  const buckets = latency.buckets.map(({ le, count }): Sample => ['_bucket', { le: numberText(le / 1000) }, count]);
  family('task_duration_seconds', 'histogram', 'Time from exec to the result, of the tasks that were timed.', [
    ...buckets,
    ['_bucket', { le: '+Inf' }, latency.count],
    ['_sum', {}, latency.sumMs / 1000],
    ['_count', {}, latency.count],
  ]);
  family('throughput_tasks_per_second', 'gauge', 'Tasks that ended in a second, over the last ten.', [
    ['', {}, throughput.tasksPerSecond],
  ]);
}

function queueFamilies(metrics: PoolMetrics, family: Family): void {
  const { queue, backPressure, affinity } = metrics;
  family('queue_size', 'gauge', 'Tasks that wait.', [['', {}, queue.size]]);
  family('queue_size_max', 'gauge', 'Tasks that may wait.', [['', {}, queue.maxSize]]);
  family('queue_enqueued_total', 'counter', 'Tasks that came into the queue.', [['', {}, queue.enqueued]]);
  family('queue_dequeued_total', 'counter', 'Tasks that left the queue.', [['', {}, queue.dequeued]]);
  family('queue_stolen_total', 'counter', 'Tasks that an idle worker took from another.', [['', {}, queue.stolen]]);
  family('back_pressure_total', 'counter', 'Times a task met a full queue.', [
    ['', { policy: backPressure.policy }, backPressure.events],
  ]);
  family('back_pressure_waiting', 'gauge', 'Calls that wait for a place in the queue.', [
    ['', {}, backPressure.waiting],
  ]);
  family('affinity_lookups_total', 'counter', 'Tasks with a key, by whether the key was known.', [
    ['', { result: 'hit' }, affinity.hits],
    ['', { result: 'miss' }, affinity.misses],
  ]);
}

function workerFamilies(metrics: PoolMetrics, family: Family): void {
  const { workers, scaling } = metrics;
  const busy = workers.filter((worker) => worker.activeTasks > 0).length;
  const each = (value: (worker: PoolMetrics['workers'][number]) => number): Sample[] =>
    workers.map((worker) => ['', { worker: String(worker.id) }, value(worker)]);
  family('workers', 'gauge', 'Workers there are.', [
    ['', { state: 'busy' }, busy],
    ['', { state: 'idle' }, workers.length - busy],
  ]);
  family('worker_active_tasks', 'gauge', 'Tasks a worker runs.', each((worker) => worker.activeTasks));
  family('worker_queued_tasks', 'gauge', 'Tasks that wait for a worker.', each((worker) => worker.queuedTasks));
  family('worker_tasks_total', 'counter', 'Tasks a worker has run.', each((worker) => worker.completedTasks));
  family('worker_task_duration_seconds_mean', 'gauge', 'Mean run time of recent tasks.',
    each((worker) => worker.avgTaskTimeMs / 1000));
  family('worker_event_loop_utilization_ratio', 'gauge', 'Share of time a worker was busy, 0 to 1.',
    each((worker) => worker.eluPercent / 100));
  family('scaling_events_total', 'counter', 'Times the number of workers was changed.', [
    ['', { direction: 'up' }, scaling.scaleUps],
    ['', { direction: 'down' }, scaling.scaleDowns],
  ]);
  family('workers_recycled_total', 'counter', 'Workers replaced for age, tasks or memory.', [
    ['', {}, scaling.recycled],
  ]);
  family('workers_crashed_total', 'counter', 'Workers that went without being asked.', [['', {}, scaling.crashed]]);
}

function checkLabels(labels: Labels): void {
  const names = Object.keys(labels);
  if (names.length > LABELS_MAX) {
    throw new TypeError(`labels: expected at most ${LABELS_MAX}, got ${names.length}`);
  }
  for (const name of names) {
    if (!LABEL_NAME.test(name) || name.startsWith('__') || RESERVED.has(name)) {
      throw new TypeError(
        `labels: expected names of letters, digits and _, not one of ${[...RESERVED].join(', ')}; `
        + `got ${JSON.stringify(name)}`,
      );
    }
    if (typeof labels[name] !== 'string') {
      throw new TypeError(`labels.${name}: expected a string, got ${typeof labels[name]}`);
    }
  }
}

function labelText(labels: Labels): string {
  const pairs = Object.keys(labels).map((name) => `${name}="${escapeLabel(labels[name])}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf';
  if (value === -Infinity) return '-Inf';
  return Number.isNaN(value) ? 'NaN' : String(value);
}
