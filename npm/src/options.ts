// What every option beyond workerpool's may be, what it is when nothing is said, and what is said when it is wrong.
//
// All options are read once, when the pool is made, into plain settings with every default filled in, so that no other
// file asks "was it given?". A wrong value is a TypeError of the form "name: expected ..., got ...". In our own option
// groups an unknown key is an error as well, with the nearest known one; at the top level it is not, because workerpool
// ignores what it does not know and its users rely on that. Workerpool's own options are read by the pool itself.

import type { StrategyOption } from './strategy.ts';
import { STRATEGY_NAMES } from './strategy.ts';
import type { TelemetrySettings } from './telemetry.ts';
import { isTraceparent } from './telemetry.ts';
import { checkFields, fail, flag, integerIn, kind, list, nearest, numberIn, oneOf } from './option-checks.ts';
import type { ScalingEvent, DropEvent } from './events.ts';

/** The longest time a timer can wait, in ms. */
export const TIME_MAX_MS = 2 ** 31 - 1;
/** The longest affinity key, in UTF-16 units: a key is hashed on every call. */
export const AFFINITY_KEY_MAX = 1024;

export type BackPressurePolicy = 'reject' | 'drop-oldest' | 'drop-newest' | 'block' | 'caller-runs';
export const POLICY_NAMES: readonly BackPressurePolicy[] = [
  'reject', 'drop-oldest', 'drop-newest', 'block', 'caller-runs',
];

export interface PredictiveOptions {
  /** How far to look ahead, ms. Default 10000. */
  horizon?: number;
  /** After how long a past rate of arrivals counts half, ms. Default 3000. */
  halfLife?: number;
  /** Which share of their time workers should be busy, 0.01 to 1. Default 0.8. */
  utilisation?: number;
}

export interface ScalingOptions {
  enabled?: boolean;
  /** Tasks running and waiting for each worker from which on there should be more. Default 2. */
  scaleUpThreshold?: number;
  /** Tasks running and waiting for each worker up to which there may be fewer. Default scaleUpThreshold / 4. */
  scaleDownThreshold?: number;
  /** For how long a worker must have been idle before it may go, ms. Default 30000. */
  scaleDownIdleTimeout?: number;
  scaleUpStep?: number;
  scaleDownStep?: number;
  /** For how long the number stays after a change in either direction, ms. Default 5000. */
  cooldownPeriod?: number;
  minWorkers?: number;
  maxWorkers?: number;
  /** How many samples in a row must ask for more. Default 2. */
  samples?: number;
  /** How often the load is looked at, ms. Default 1000. */
  interval?: number;
  /** Look ahead by the trend of arrivals. Default false. */
  predictive?: boolean | PredictiveOptions;
  onScaling?: (type: 'scale-up' | 'scale-down', details: ScalingEvent) => void;
}

export interface TaskStealingOptions {
  enabled?: boolean;
  stealSize?: 'one' | 'half' | 'all';
  stealThreshold?: number;
  maxStealSize?: number;
  stealCooldown?: number;
}

export interface BackPressureOptions {
  policy?: BackPressurePolicy;
  /** Default: the pool's maxQueueSize if it is finite, else 10000. */
  maxQueueSize?: number;
  /** How long `block` waits for a place, ms. Default 30000. */
  timeout?: number;
  /** How many calls may wait for a place with `block`. Default 1000. */
  maxWaiters?: number;
  /** What `caller-runs` runs for named methods: the worker's own functions, here in the calling thread. */
  methods?: Readonly<Record<string, (...params: never[]) => unknown>>;
  onDrop?: (event: DropEvent) => void;
}

export interface AffinityOptions {
  enabled?: boolean;
  /** 'rendezvous' spreads best; 'ring' (virtual nodes) is faster from some dozens of workers on. */
  method?: 'rendezvous' | 'ring';
  /** Points of each worker on the ring. Default 150. Naming it without `method` chooses 'ring'. */
  virtualNodes?: number;
  /** For how long after its last task a key stays with its worker even if its owner changes, ms. Default 60000. */
  ttl?: number;
  /** How many keys are remembered for that. Default 4096. */
  maxKeys?: number;
}

export interface MetricsOptions {
  enabled?: boolean;
  /** Upper bounds in ms of the buckets of the exported histogram. */
  histogramBuckets?: readonly number[];
}

export interface RecycleOptions {
  /** A worker that has run so many tasks is replaced; exact up to 100, above that a few more may slip in. */
  maxTasks?: number;
  /** A worker of this age is replaced, ms. */
  maxAgeMs?: number;
  /** A worker whose heap is larger than this between two tasks is replaced, MB. */
  maxHeapUsedMb?: number;
}

export interface TelemetryOptions {
  enabled?: boolean;
  tracer?: TelemetrySettings['tracer'];
  api?: TelemetrySettings['api'];
  onSpan?: TelemetrySettings['onSpan'];
}

/** The options of a pool that workerpool does not have. */
export interface FeatureOptions {
  workerChoiceStrategy?: StrategyOption;
  scaling?: boolean | ScalingOptions;
  taskStealing?: boolean | TaskStealingOptions;
  backPressure?: BackPressurePolicy | BackPressureOptions;
  affinity?: boolean | AffinityOptions;
  metrics?: boolean | MetricsOptions;
  telemetry?: TelemetryOptions;
  recycle?: RecycleOptions;
  useWasm?: boolean;
  transport?: 'auto' | 'messages' | 'shared';
}

/** The options of one call that workerpool does not have. */
export interface CallOptions {
  /** Higher runs first; 0 when not given. */
  priority?: number;
  /** Calls with the same key go to the same worker. */
  affinity?: string;
  /** Milliseconds from the start of the task, as `.timeout(ms)` of its promise. */
  timeout?: number;
  signal?: AbortSignal;
  /** W3C trace context of the caller. */
  traceparent?: string;
}

export interface ScalingSettings {
  scaleUpThreshold: number;
  scaleDownThreshold: number;
  scaleDownIdleTimeout: number;
  scaleUpStep: number;
  scaleDownStep: number;
  cooldownPeriod: number;
  minWorkers: number;
  maxWorkers: number;
  samples: number;
  interval: number;
  predictive: Required<PredictiveOptions> | undefined;
  onScaling: ScalingOptions['onScaling'];
}

export type StealingSettings = Required<TaskStealingOptions>;

export interface BackPressureSettings {
  policy: BackPressurePolicy;
  maxQueueSize: number;
  timeout: number;
  maxWaiters: number;
  methods: BackPressureOptions['methods'];
  onDrop: BackPressureOptions['onDrop'];
}

export interface AffinitySettings {
  method: 'rendezvous' | 'ring';
  virtualNodes: number;
  ttl: number;
  maxKeys: number;
}

export interface MetricsSettings {
  histogramBuckets: readonly number[];
}

/** Everything decided: a group that is off is undefined. */
export interface FeatureSettings {
  strategy: StrategyOption | undefined;
  scaling: ScalingSettings | undefined;
  stealing: StealingSettings;
  backPressure: BackPressureSettings | undefined;
  affinity: AffinitySettings | undefined;
  metrics: MetricsSettings | undefined;
  telemetry: TelemetrySettings | undefined;
  recycle: RecycleOptions | undefined;
  useWasm: boolean;
  transport: 'auto' | 'messages' | 'shared';
}

/** What the pool has read of workerpool's own options before it asks for ours. */
export interface PoolLimits {
  minWorkers: number | undefined;
  maxWorkers: number;
  maxQueueSize: number;
}

export const HISTOGRAM_BUCKETS_MS: readonly number[] = [1, 5, 10, 25, 50, 100, 250, 500, 1000];

/** Reads and checks all options beyond workerpool's. */
export function readOptions(options: FeatureOptions, limits: PoolLimits): FeatureSettings {
  if (options.workerChoiceStrategy !== undefined) checkStrategy(options.workerChoiceStrategy);
  return {
    strategy: options.workerChoiceStrategy,
    scaling: readScaling(options.scaling, limits),
    stealing: readStealing(options.taskStealing),
    backPressure: readBackPressure(options.backPressure, limits),
    affinity: readAffinity(options.affinity),
    metrics: readMetrics(options.metrics),
    telemetry: readTelemetry(options.telemetry),
    recycle: readRecycle(options.recycle),
    useWasm: options.useWasm === undefined ? true : flag('useWasm', options.useWasm),
    transport: oneOf('transport', options.transport ?? 'auto', ['auto', 'messages', 'shared'] as const),
  };
}

/** Throws for any wrong option. Limits that hang on the pool's own numbers are looked at when it is put together. */
export function checkOptions(options: FeatureOptions): void {
  readOptions(options, { minWorkers: 1, maxWorkers: 2 ** 31 - 1, maxQueueSize: Infinity });
}

/** Throws unless it is a name, a function or an object with `select`. */
export function checkStrategy(strategy: unknown): void {
  if (typeof strategy === 'function') return;
  if (typeof strategy === 'object' && strategy !== null) {
    const select = (strategy as { select?: unknown }).select;
    if (typeof select !== 'function') fail('workerChoiceStrategy.select', 'a function', select);
    return;
  }
  if (typeof strategy === 'string' && (STRATEGY_NAMES as readonly string[]).includes(strategy)) return;
  const close = typeof strategy === 'string' ? nearest(strategy, STRATEGY_NAMES) : undefined;
  const names = `one of ${STRATEGY_NAMES.join(', ')}, a function or a strategy object`;
  fail('workerChoiceStrategy', names, strategy, close && `did you mean "${close}"?`);
}

/** Checks the options of one call; workerpool's (on, transfer, metadata) are left to it. A key asks for routing. */
export function checkCallOptions(options: CallOptions, hooks: { wantAffinity?(): void }): void {
  const { priority, affinity, timeout, signal, traceparent } = options;
  if (priority !== undefined && !Number.isSafeInteger(priority)) fail('priority', 'a whole number', priority);
  if (affinity !== undefined) {
    if (typeof affinity !== 'string') fail('affinity', 'a string', affinity);
    if (affinity.length > AFFINITY_KEY_MAX) {
      fail(`affinity (${affinity.length} characters)`, `a string of at most ${AFFINITY_KEY_MAX}`, affinity);
    }
    hooks.wantAffinity?.();
  }
  if (timeout !== undefined) numberIn('timeout', timeout, 0, TIME_MAX_MS, 'milliseconds');
  if (signal !== undefined && !isSignal(signal)) fail('signal', 'an AbortSignal', signal);
  if (traceparent !== undefined && !isTraceparent(traceparent)) {
    fail('traceparent', 'a W3C traceparent such as 00-<32 hex>-<16 hex>-01', traceparent);
  }
}

function isSignal(value: unknown): value is AbortSignal {
  const signal = value as AbortSignal | null;
  return typeof signal === 'object' && signal !== null
    && typeof signal.aborted === 'boolean' && typeof signal.addEventListener === 'function';
}

/** A group that may be written as true, false or an object with its own `enabled`. */
function group<Group extends { enabled?: boolean }>(
  name: string, value: unknown, fields: readonly (keyof Group & string)[],
): Group {
  if (value === undefined || value === null) return {} as Group;
  if (typeof value === 'boolean') return { enabled: value } as Group;
  checkFields(name, value, ['enabled', ...fields]);
  const read = value as Group;
  if (read.enabled !== undefined) flag(`${name}.enabled`, read.enabled);
  return read;
}

const SCALING_FIELDS: readonly (keyof ScalingOptions)[] = [
  'scaleUpThreshold', 'scaleDownThreshold', 'scaleDownIdleTimeout', 'scaleUpStep', 'scaleDownStep', 'cooldownPeriod',
  'minWorkers', 'maxWorkers', 'samples', 'interval', 'predictive', 'onScaling',
];

function readScaling(value: FeatureOptions['scaling'], limits: PoolLimits): ScalingSettings | undefined {
  const given = group<ScalingOptions>('scaling', value, SCALING_FIELDS);
  const up = numberIn('scaling.scaleUpThreshold', given.scaleUpThreshold ?? 2, 0.004, 1e6);
  const down = numberIn('scaling.scaleDownThreshold', given.scaleDownThreshold ?? up / 4, 0.001, 1e6);
  if (down >= up) fail('scaling.scaleDownThreshold', `less than scaleUpThreshold (${up})`, down);
  const most = integerIn('scaling.maxWorkers', given.maxWorkers ?? limits.maxWorkers, 1);
  const least = integerIn('scaling.minWorkers', given.minWorkers ?? Math.max(1, limits.minWorkers ?? 1), 1);
  if (least > most) fail('scaling.minWorkers', `at most scaling.maxWorkers (${most})`, least);
  if (given.onScaling !== undefined) kind('scaling.onScaling', given.onScaling, 'function');
  const settings: ScalingSettings = {
    scaleUpThreshold: up,
    scaleDownThreshold: down,
    scaleDownIdleTimeout: time('scaling.scaleDownIdleTimeout', given.scaleDownIdleTimeout ?? 30_000),
    scaleUpStep: integerIn('scaling.scaleUpStep', given.scaleUpStep ?? 1, 1),
    scaleDownStep: integerIn('scaling.scaleDownStep', given.scaleDownStep ?? 1, 1),
    cooldownPeriod: time('scaling.cooldownPeriod', given.cooldownPeriod ?? 5000),
    minWorkers: least,
    maxWorkers: most,
    samples: integerIn('scaling.samples', given.samples ?? 2, 1),
    interval: numberIn('scaling.interval', given.interval ?? 1000, 1, TIME_MAX_MS, 'milliseconds'),
    predictive: readPredictive(given.predictive),
    onScaling: given.onScaling,
  };
  const asked = value !== undefined && value !== null;
  return asked && given.enabled !== false ? settings : undefined;
}

function readPredictive(value: ScalingOptions['predictive']): Required<PredictiveOptions> | undefined {
  if (value === undefined || value === false) return undefined;
  if (value !== true) checkFields('scaling.predictive', value, ['horizon', 'halfLife', 'utilisation']);
  const given: PredictiveOptions = value === true ? {} : value;
  return {
    horizon: numberIn('scaling.predictive.horizon', given.horizon ?? 10_000, 1, TIME_MAX_MS, 'milliseconds'),
    halfLife: numberIn('scaling.predictive.halfLife', given.halfLife ?? 3000, 1, TIME_MAX_MS, 'milliseconds'),
    utilisation: numberIn('scaling.predictive.utilisation', given.utilisation ?? 0.8, 0.01, 1),
  };
}

function readStealing(value: FeatureOptions['taskStealing']): StealingSettings {
  const given = group<TaskStealingOptions>('taskStealing', value, [
    'stealSize', 'stealThreshold', 'maxStealSize', 'stealCooldown',
  ]);
  return {
    enabled: given.enabled ?? true,
    stealSize: oneOf('taskStealing.stealSize', given.stealSize ?? 'half', ['one', 'half', 'all'] as const),
    stealThreshold: integerIn('taskStealing.stealThreshold', given.stealThreshold ?? 2, 1),
    maxStealSize: integerIn('taskStealing.maxStealSize', given.maxStealSize ?? 32, 1),
    stealCooldown: time('taskStealing.stealCooldown', given.stealCooldown ?? 10),
  };
}

function readBackPressure(
  value: FeatureOptions['backPressure'], limits: PoolLimits,
): BackPressureSettings | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') {
    checkFields('backPressure', value, ['policy', 'maxQueueSize', 'timeout', 'maxWaiters', 'methods', 'onDrop']);
  }
  const given: BackPressureOptions = typeof value === 'string' ? { policy: value } : value;
  const methods = given.methods;
  if (methods !== undefined) {
    kind('backPressure.methods', methods, 'object');
    for (const name of Object.keys(methods)) kind(`backPressure.methods.${name}`, methods[name], 'function');
  }
  if (given.onDrop !== undefined) kind('backPressure.onDrop', given.onDrop, 'function');
  const otherwise = Number.isFinite(limits.maxQueueSize) ? limits.maxQueueSize : 10_000;
  return {
    policy: oneOf('backPressure.policy', given.policy ?? 'reject', POLICY_NAMES),
    maxQueueSize: integerIn('backPressure.maxQueueSize', given.maxQueueSize ?? otherwise, 1),
    timeout: time('backPressure.timeout', given.timeout ?? 30_000),
    maxWaiters: integerIn('backPressure.maxWaiters', given.maxWaiters ?? 1000, 0),
    methods,
    onDrop: given.onDrop,
  };
}

function readAffinity(value: FeatureOptions['affinity']): AffinitySettings | undefined {
  const given = group<AffinityOptions>('affinity', value, ['method', 'virtualNodes', 'ttl', 'maxKeys']);
  const method = given.method ?? (given.virtualNodes === undefined ? 'rendezvous' : 'ring');
  const settings: AffinitySettings = {
    method: oneOf('affinity.method', method, ['rendezvous', 'ring'] as const),
    virtualNodes: integerIn('affinity.virtualNodes', given.virtualNodes ?? 150, 1, 10_000),
    ttl: numberIn('affinity.ttl', given.ttl ?? 60_000, 1, TIME_MAX_MS, 'milliseconds'),
    maxKeys: integerIn('affinity.maxKeys', given.maxKeys ?? 4096, 1, 1 << 20),
  };
  return given.enabled === false ? undefined : settings;
}

function readMetrics(value: FeatureOptions['metrics']): MetricsSettings | undefined {
  const given = group<MetricsOptions>('metrics', value, ['histogramBuckets']);
  const buckets = given.histogramBuckets ?? HISTOGRAM_BUCKETS_MS;
  list('metrics.histogramBuckets', buckets, 1, 100);
  buckets.forEach((bound, at) => {
    numberIn(`metrics.histogramBuckets[${at}]`, bound, 1e-6, TIME_MAX_MS, 'milliseconds');
    if (at > 0 && bound <= buckets[at - 1]) {
      fail(`metrics.histogramBuckets[${at}]`, `more than the bound before it (${buckets[at - 1]})`, bound);
    }
  });
  return given.enabled === false ? undefined : { histogramBuckets: [...buckets] };
}

function readTelemetry(value: FeatureOptions['telemetry']): TelemetrySettings | undefined {
  const given = group<TelemetryOptions>('telemetry', value, ['tracer', 'api', 'onSpan']);
  if (value === undefined || value === null || given.enabled === false) return undefined;
  if (given.onSpan !== undefined) kind('telemetry.onSpan', given.onSpan, 'function');
  if (given.tracer !== undefined && typeof given.tracer?.startSpan !== 'function') {
    fail('telemetry.tracer', 'a tracer of @opentelemetry/api (an object with startSpan)', given.tracer);
  }
  if (given.onSpan === undefined && given.tracer === undefined) {
    fail('telemetry', 'an object with a tracer or an onSpan callback', value);
  }
  return { tracer: given.tracer, api: given.api, onSpan: given.onSpan };
}

function readRecycle(value: FeatureOptions['recycle']): RecycleOptions | undefined {
  if (value === undefined || value === null) return undefined;
  checkFields('recycle', value, ['maxTasks', 'maxAgeMs', 'maxHeapUsedMb']);
  if (value.maxTasks !== undefined) integerIn('recycle.maxTasks', value.maxTasks, 1);
  if (value.maxAgeMs !== undefined) numberIn('recycle.maxAgeMs', value.maxAgeMs, 1, TIME_MAX_MS, 'milliseconds');
  if (value.maxHeapUsedMb !== undefined) numberIn('recycle.maxHeapUsedMb', value.maxHeapUsedMb, 1, 1e6, 'megabytes');
  return { ...value };
}

function time(name: string, value: unknown): number {
  return numberIn(name, value, 0, TIME_MAX_MS, 'milliseconds');
}
