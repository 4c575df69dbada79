// Puts the parts together that a pool has beyond workerpool's, each only if an option asks for it.
//
// A pool without such options gets four nulls and pays nothing. What is wanted later is made later: metrics from the
// first call of metrics() on, affinity from the first task with a key on, the brain when the first part needs it. So
// there is one place that knows which parts exist, and none of them knows another.
//
// Not here: what each part does; when the pool calls it (`hooks.ts`).

import { BackPressure } from './admission.ts';
import { KeyRouter } from './affinity.ts';
import { loadBrain } from './brain/load.ts';
import { policyWasm } from './embedded.node.ts';
import type { Outcome, Observer, PoolCore, PoolHooks, RemovalReason, Router } from './hooks.ts';
import { Metrics } from './metrics.ts';
import type { FeatureCounts, PoolMetrics } from './metrics.ts';
import { HISTOGRAM_BUCKETS_MS, checkStrategy, readOptions } from './options.ts';
import type { FeatureSettings } from './options.ts';
import { PlainBrain } from './plain-brain.ts';
import type { BrainFace } from './plain-brain.ts';
import type { PoolOptions } from './pool-options.ts';
import { prometheusText } from './prometheus.ts';
import type { Labels } from './prometheus.ts';
import { EXACT_TASKS_MAX, Recycler } from './recycle.ts';
import { Scaler } from './scaling.ts';
import { Stealing } from './stealing.ts';
import { Chooser } from './strategy.ts';
import type { StrategyOption } from './strategy.ts';
import type { Task } from './task.ts';
import { Telemetry } from './telemetry.ts';
import type { TaskSpan } from './telemetry.ts';
import { Utilisation } from './utilisation.ts';
import type { WorkerHandle } from './workers/handle.ts';

/** The hooks of a pool, and what its own methods of the same purpose call. */
export interface FeatureHooks extends PoolHooks {
  metrics: { snapshot(): PoolMetrics; prometheus(labels?: Labels): string };
  setStrategy(strategy: StrategyOption | undefined): void;
  /** A task has a key: from now on keys are routed, unless affinity is turned off. */
  wantAffinity(): void;
  /** Whether a worker may hold no task beyond the one it runs. */
  readonly oneAtATime: boolean;
}

export function attachFeatures(pool: PoolCore, options: PoolOptions): FeatureHooks {
  return new Features(pool, options);
}

class Features implements FeatureHooks {
  admission: BackPressure | null = null;
  router: PartsRouter | null = null;
  steal: Stealing | null = null;
  observer: PartsObserver | null = null;
  readonly oneAtATime: boolean;
  readonly metrics = {
    snapshot: (): PoolMetrics => this.meter().snapshot(this.counts()),
    prometheus: (labels?: Labels): string => prometheusText(this.metrics.snapshot(), labels),
  };
  private readonly settings: FeatureSettings;
  private readonly scaler: Scaler | null = null;
  private readonly recycler: Recycler | null = null;
  private readonly telemetry: Telemetry | null = null;
  private readonly utilisation = new Utilisation();
  private measured: Metrics | null = null;
  private mind: BrainFace | null = null;
  private hasWarnedNoWasm = false;

  constructor(private readonly pool: PoolCore, options: PoolOptions) {
    const { minWorkers, maxWorkers, maxQueueSize } = pool;
    const settings = readOptions(options, { minWorkers, maxWorkers, maxQueueSize });
    this.settings = settings;
    this.oneAtATime = (settings.recycle?.maxTasks ?? Infinity) <= EXACT_TASKS_MAX;
    if (settings.backPressure) {
      const { backPressure } = settings;
      setLimits(pool, { maxQueueSize: backPressure.maxQueueSize });
      this.admission = new BackPressure(backPressure, pool);
    }
    if (settings.scaling) {
      // Lazily made workers and replaced ones must keep to the same limits as the scaler.
      const isMinGiven = typeof options.scaling === 'object' && options.scaling.minWorkers !== undefined;
      setLimits(pool, { maxWorkers: settings.scaling.maxWorkers });
      if (isMinGiven) setLimits(pool, { minWorkers: settings.scaling.minWorkers });
      this.scaler = new Scaler(settings.scaling, this.brain(), pool);
    }
    if (options.taskStealing !== undefined) this.steal = new Stealing(settings.stealing);
    const warn = (code: string) => (message: string): void => this.warn(code, message);
    if (settings.recycle) this.recycler = new Recycler(settings.recycle, pool, warn('recycle'));
    if (settings.telemetry) this.telemetry = new Telemetry(settings.telemetry, warn('telemetry'));
    if (settings.strategy !== undefined) this.setStrategy(settings.strategy);
    if (settings.affinity && options.affinity !== undefined) this.wantAffinity();
    if (settings.metrics && options.metrics !== undefined) this.meter();
    this.observe();
    this.restart();
  }

  setStrategy(strategy: StrategyOption | undefined): void {
    if (strategy !== undefined) checkStrategy(strategy);
    if (typeof strategy === 'string' && strategy !== 'least-busy' && this.brain() instanceof PlainBrain) {
      this.warnNoWasm(`workerChoiceStrategy ${strategy}: needs WebAssembly, least-busy is used instead`);
    }
    const router = this.makeRouter();
    if (strategy === undefined) {
      router.chooser = null;
      if (router.keys === null) this.dropRouter(router);
    } else if (router.chooser) {
      router.chooser.use(strategy, this.pool.workers);
    } else {
      const warn = (message: string): void => this.warn('strategy', message);
      router.chooser = new Chooser(strategy, this.brain(), this.utilisation, warn);
      for (const handle of this.pool.workers) router.chooser.added(handle);
    }
  }

  wantAffinity(): void {
    const { affinity } = this.settings;
    if (!affinity || this.router?.keys) return;
    const router = this.makeRouter();
    router.keys = new KeyRouter(affinity, this.brain());
    for (const handle of this.pool.workers) router.keys.added(handle);
  }

  dispose(): void {
    this.scaler?.stop();
    this.recycler?.stop();
  }

  restart(): void {
    this.scaler?.start();
    this.recycler?.start();
  }

  private makeRouter(): PartsRouter {
    if (this.router) return this.router;
    const router = new PartsRouter(this.brain());
    for (const handle of this.pool.workers) router.added(handle);
    this.router = router;
    return router;
  }

  /** Nobody routes any more: the picture forgets the workers, as nobody will tell it of them. */
  private dropRouter(router: PartsRouter): void {
    for (const handle of this.pool.workers) router.removed(handle);
    this.router = null;
  }

  private brain(): BrainFace {
    this.mind ??= this.openBrain();
    return this.mind;
  }

  private openBrain(): BrainFace {
    if (!this.settings.useWasm) return new PlainBrain();
    try {
      return loadBrain(brainModule());
    } catch (error) {
      this.warnNoWasm(`WebAssembly is not to be had: plain JavaScript decides, by least-busy: ${String(error)}`);
      return new PlainBrain();
    }
  }

  private meter(): Metrics {
    if (this.measured) return this.measured;
    const { metrics } = this.settings;
    const buckets = metrics?.histogramBuckets ?? HISTOGRAM_BUCKETS_MS;
    const isStamped = this.telemetry !== null;
    // Turned off: a picture of what the workers themselves have counted, anew at each call.
    const histogram = (metrics ? this.brain() : new PlainBrain()).histogram();
    const meter = new Metrics(this.pool, histogram, buckets, this.utilisation, isStamped);
    if (!metrics) return meter;
    this.measured = meter;
    this.observe();
    return meter;
  }

  /** One observer for all parts that watch, or none. */
  private observe(): void {
    const { measured, telemetry, recycler, admission, scaler } = this;
    const arrivals = scaler?.countsArrivals ? scaler : null;
    if (!measured && !telemetry && !recycler && !admission && !arrivals) return;
    this.observer = new PartsObserver(measured, telemetry, recycler, admission, arrivals);
  }

  private counts(): FeatureCounts {
    const { scaler, admission } = this;
    const keys = this.router?.keys?.counts();
    return {
      scaleUps: scaler?.scaleUps ?? 0,
      scaleDowns: scaler?.scaleDowns ?? 0,
      policy: admission?.policy ?? 'reject',
      pressureEvents: admission?.events ?? 0,
      rejected: admission?.rejected ?? 0,
      callerRuns: admission?.callerRuns ?? 0,
      blocked: admission?.waiting ?? 0,
      affinityHits: keys?.hits ?? 0,
      affinityMisses: keys?.misses ?? 0,
      affinityMoved: keys?.moved ?? 0,
    };
  }

  /** Once: whatever is asked for after that, the reason is the same. */
  private warnNoWasm(message: string): void {
    if (this.hasWarnedNoWasm) return;
    this.hasWarnedNoWasm = true;
    this.warn('no-wasm', message);
  }

  /** In a microtask, so that whoever makes the pool can listen first. */
  private warn(code: string, message: string): void {
    queueMicrotask(() => this.pool.emit('warning', { code, message }));
  }
}

/** Keys first, then the strategy; both keep their own account of the workers. */
class PartsRouter implements Router {
  chooser: Chooser | null = null;
  keys: KeyRouter | null = null;

  constructor(private readonly brain: BrainFace) {}

  choose(task: Task, workers: readonly WorkerHandle[]): WorkerHandle | undefined {
    if (task.affinity !== undefined && this.keys !== null) return this.keys.choose(task.affinity, workers);
    return this.chooser === null ? undefined : this.chooser.choose(task, workers);
  }

  mayMove(task: Task): boolean {
    return task.affinity === undefined || this.keys === null || this.keys.mayMove(task);
  }

  added(handle: WorkerHandle): void {
    this.brain.workers.add(handle.id, performance.now(), 'ready', 0);
    this.keys?.added(handle);
    this.chooser?.added(handle);
  }

  removed(handle: WorkerHandle): void {
    this.keys?.removed(handle);
    this.chooser?.removed(handle);
    this.brain.workers.remove(handle.id, performance.now());
  }

  completed(handle: WorkerHandle, runMs: number): void {
    this.chooser?.completed(handle, runMs);
  }
}

class PartsObserver implements Observer {
  /** Only spans need every moment of every task; metrics take their own samples. */
  readonly clocks: boolean;

  constructor(
    private readonly metrics: Metrics | null, private readonly telemetry: Telemetry | null,
    private readonly recycler: Recycler | null, private readonly admission: BackPressure | null,
    private readonly arrivals: Scaler | null,
  ) {
    this.clocks = telemetry !== null;
  }

  submitted(task: Task): void {
    if (this.metrics !== null) this.metrics.submitted(task);
    if (this.arrivals !== null) this.arrivals.arrived();
    // A signal may have ended it before it came here: then there is nothing to trace.
    if (this.telemetry === null || !task.promise.pending) return;
    const { method, priority, affinity, traceparent } = task;
    const span = this.telemetry.start({ method, priority, affinity, traceparent });
    task.data = span;
    if (span) task.traceparent = span.traceparent;
  }

  answered(handle: WorkerHandle): void {
    if (this.recycler !== null) this.recycler.answered(handle);
  }

  settled(task: Task, outcome: Outcome, handle: WorkerHandle | null, valueOrError?: unknown): void {
    if (this.metrics !== null) this.metrics.settled(task, outcome);
    if (this.admission !== null) this.admission.ended();
    if (task.data !== undefined) endSpan(task, outcome, handle, valueOrError);
  }

  workerAdded(): void {}

  workerRemoved(_handle: WorkerHandle, reason: RemovalReason): void {
    this.metrics?.workerRemoved(reason);
  }

  stolen(count: number): void {
    this.metrics?.stolen(count);
  }
}

function endSpan(task: Task, outcome: Outcome, handle: WorkerHandle | null, valueOrError: unknown): void {
  const span = task.data as TaskSpan;
  span.attribute('millpond.outcome', outcome);
  if (handle !== null) span.attribute('millpond.worker', handle.id);
  // Unknown when the worker could not tell how long it ran.
  if (task.startedAt > 0 && task.submittedAt > 0) {
    span.attribute('millpond.wait_ms', Math.max(0, task.startedAt - task.submittedAt));
    span.attribute('millpond.run_ms', task.runMs);
  }
  if (outcome === 'done') span.succeed();
  else span.fail(valueOrError);
}

/** Compiled once for all pools; each pool has its own instance. */
let compiled: WebAssembly.Module | undefined;
function brainModule(): WebAssembly.Module {
  compiled ??= new WebAssembly.Module(policyWasm() as BufferSource);
  return compiled;
}

/** The pool's limits are read-only for users; they are set here before its first worker is made. */
function setLimits(
  pool: PoolCore, limits: Partial<Pick<PoolCore, 'minWorkers' | 'maxWorkers' | 'maxQueueSize'>>,
): void {
  Object.assign(pool as object, limits);
}
