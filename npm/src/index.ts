// Everything the package offers: workerpool's nine exports, and the names of what is added.
//
// `millpond/workerpool` has the nine alone; `millpond/worker` has the worker's half alone.

export { DroppedError, QueueFullError } from './admission.ts';
export type { BatchCall, BatchOptions, BatchOutcome, BatchProgress } from './batch.ts';
export { cpus, isMainThread, platform } from './environment.node.ts';
export { CancellationError, TerminateError, TimeoutError } from './errors.ts';
export type {
  BackPressureEvent, DrainEvent, DropEvent, PoolEventMap, ScalingEvent, WarningEvent, WorkerEvent, WorkerExitEvent,
} from './events.ts';
export type { Outcome, PoolStats } from './hooks.ts';
export type { PoolMetrics, WorkerMetrics } from './metrics.ts';
export type {
  AffinityOptions, BackPressureOptions, BackPressurePolicy, MetricsOptions, PredictiveOptions, RecycleOptions,
  ScalingOptions, TaskStealingOptions, TelemetryOptions,
} from './options.ts';
export { Pool } from './pool.ts';
export type { Proxy } from './pool.ts';
export type { ExecOptions, PoolOptions, WorkerArg, WorkerPoolOptions, WorkerRegisterOptions } from './pool-options.ts';
export { Promise } from './promise.ts';
export type { Resolver } from './promise.ts';
export { FIFOQueue, LIFOQueue } from './queue.ts';
export type { TaskQueue } from './queue.ts';
export type {
  SelectionResult, StrategyName, StrategyOption, TaskInfo, WorkerChoiceStrategy, WorkerChoiceStrategyFn, WorkerInfo,
} from './strategy.ts';
export { WorkerState } from './strategy.ts';
export { StreamOverflowError, TaskStream } from './stream.ts';
export type { StreamOptions } from './stream.ts';
export type { Task } from './task.ts';
export { Transfer } from './transfer.ts';
export { traceparent, worker, workerEmit } from './worker/register.ts';
export type { PublicWorker } from './worker/runner.ts';
export { pool } from './workerpool.ts';
