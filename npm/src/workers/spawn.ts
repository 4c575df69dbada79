// What every kind of worker looks like to its handle, and what is needed to start one.
//
// The extra fields (`isWorkerThread`, `kill`, `send` ...) are those that workerpool puts on its workers, because users
// reach for them through `pool.workers[i].worker`. The starting itself is in `spawn.node.ts` and `spawn.browser.ts`.

export interface SpawnOptions {
  workerType: string;
  forkArgs: readonly string[] | undefined;
  forkOpts: Record<string, any> | undefined;
  workerOpts: any;
  workerThreadOpts: Record<string, any> | undefined;
  emitStdStreams: boolean;
  debugPort: number | undefined;
}

export interface LoopUse {
  active: number;
  idle: number;
  utilization: number;
}

/** A worker of any kind, as it was made by its platform. */
export interface RawWorker {
  isWorkerThread?: boolean;
  isChildProcess?: boolean;
  isBrowserWorker?: boolean;
  on(event: string, callback: (...values: any[]) => void): unknown;
  send(message: unknown, transfer?: readonly Transferable[]): unknown;
  /** Node only. */
  kill?(): unknown;
  /** Web workers and threads. */
  terminate?(): unknown;
  killed?: boolean;
  pid?: number;
  spawnargs?: unknown;
  spawnfile?: unknown;
  stdout?: any;
  stderr?: any;
  performance?: { eventLoopUtilization(now?: object, before?: object): LoopUse };
  removeAllListeners?(event?: string): unknown;
  ref?(): void;
  unref?(): void;
}
