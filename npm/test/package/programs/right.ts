// A program that uses what the package offers, as a user would write it. It is compiled and not run: the types must let
// it pass, and infer what is noted beside each line.

import { pool, Promise as PoolPromise, Transfer, worker, workerEmit, type Pool, type PoolOptions } from 'millpond';
import { worker as workerAlone } from 'millpond/worker';

type Is<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
const must = <T extends true>(): T | undefined => undefined;

const options: PoolOptions = {
  minWorkers: 'max',
  maxWorkers: 4,
  maxQueueSize: 100,
  workerType: 'thread',
  queueStrategy: 'lifo',
  workerChoiceStrategy: 'least-elu',
  scaling: { scaleUpThreshold: 2, predictive: { horizon: 5_000 }, onScaling: (type, { reason }) => [type, reason] },
  taskStealing: { stealSize: 'one' },
  backPressure: { policy: 'block', timeout: 100 },
  affinity: { ttl: 1_000 },
  metrics: { histogramBuckets: [1, 10, 100] },
  recycle: { maxTasks: 1_000 },
  transport: 'auto',
  useWasm: true,
  onCreateWorker: (arg) => ({ ...arg, workerThreadOpts: { name: 'mine' } }),
};

export async function main(): Promise<void> {
  const workers: Pool = pool('./methods.js', options);
  pool();
  pool({ maxWorkers: 1 });
  pool(new URL('file:///methods.js'));

  const sum = workers.exec((a: number, b: number) => a + b, [1, 2]);
  must<Is<typeof sum, PoolPromise<number>>>();
  const product: number = await sum.timeout(100).then((value) => value * 2);
  const text = await workers.exec(async () => 'text');
  must<Is<typeof text, string>>();
  const loose = await workers.exec('add', [1, product], { on: (payload) => payload.step, priority: 2, affinity: 'k' });
  must<Is<typeof loose, any>>();
  const aborted = new AbortController();
  workers.exec('add', [1, 2], { signal: aborted.signal, timeout: 10, transfer: [new ArrayBuffer(1)] }).cancel();

  const proxy = await workers.proxy<{ add(a: number, b: number): number }>();
  const added = await proxy.add(1, 2);
  must<Is<typeof added, number>>();

  await workers.execBatch('add', [[1, 2], [3, 4]], { concurrency: 2, onProgress: ({ done, total }) => done / total });
  for await (const step of workers.stream('count', [3])) void step;

  const { totalWorkers, pendingTasks } = workers.stats();
  const { throughput, latencyHistogram } = workers.metrics();
  const figures: number[] = [totalWorkers, pendingTasks, throughput.tasksPerSecond, latencyHistogram.p99];
  const page: string = workers.metricsPrometheus();
  void [figures, page];

  workers.setWorkerChoiceStrategy('round-robin');
  workers.setWorkerChoiceStrategy((candidates) => candidates[0]);
  workers.on('scale-up', (event) => void event.reason);
  workers.on('worker-exited', ({ workerId, reason }) => void [workerId.toFixed(), reason.length]);

  await workers.close();
  await workers.terminate(true, 100);
}

worker({
  add: (a: number, b: number) => a + b,
  tell: (): Transfer => {
    workerEmit({ step: 1 });
    const buffer = new ArrayBuffer(8);
    return new Transfer(buffer, [buffer]);
  },
}, { onTerminate: () => undefined, abortListenerTimeout: 10 });
workerAlone();
