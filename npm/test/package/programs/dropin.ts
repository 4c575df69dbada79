// A TypeScript program written for workerpool, with one import changed. It is compiled and not run.
// Both the default and the names are imported, as its users do either.

import workerpool, { pool, type Pool, type WorkerPoolOptions } from 'millpond/workerpool';

const options: WorkerPoolOptions = { maxWorkers: 2, workerType: 'thread', onCreateWorker: () => ({}) };

export async function main(): Promise<void> {
  const workers: Pool = workerpool.pool('./worker.js', options);
  const sum: number = await workers.exec((a: number, b: number) => a + b, [3, 4]);
  const promise = workers.exec('fibonacci', [sum]).timeout(1_000).always(() => undefined);
  promise.catch((error: unknown) => error instanceof workerpool.Promise.CancellationError);
  const both = await workerpool.Promise.all([workers.exec('a'), workers.exec('b')]);
  void [both.length, workerpool.cpus, workerpool.platform, workerpool.isMainThread, workers.stats().idleWorkers];
  await pool().terminate();
}

workerpool.worker({ fibonacci: (n: number): number => (n < 2 ? n : n) });
workerpool.workerEmit(new workerpool.Transfer(new ArrayBuffer(1), []));
