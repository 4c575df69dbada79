// A service under load: strategies swapped while work flows, a bounded queue, and /metrics for Prometheus.
// Run: node metrics.mjs, then: curl http://127.0.0.1:9464/metrics

import { createServer } from 'node:http';
import { pool } from 'millpond';

const isQuick = Boolean(process.env.MILLPOND_EXAMPLE_QUICK);
const workers = pool({
  minWorkers: 2,
  maxWorkers: 2,
  workerChoiceStrategy: 'round-robin',
  backPressure: { policy: 'drop-oldest', maxQueueSize: 200 },
  metrics: { enabled: true },
});

const server = createServer((request, response) => {
  if (request.url !== '/metrics') return response.writeHead(404).end();
  response.setHeader('content-type', 'text/plain; version=0.0.4');
  response.end(workers.metricsPrometheus());
});
await new Promise((resolve) => server.listen(isQuick ? 0 : 9464, '127.0.0.1', resolve));
const address = `http://127.0.0.1:${server.address().port}/metrics`;
console.log(`what Prometheus reads: ${address}`);

// Some tasks are a hundred times longer than others, which is where strategies differ.
const busy = (ms) => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};
await Promise.all([workers.exec(busy, [1]), workers.exec(busy, [1])]); // both workers have started
const load = setInterval(() => {
  for (let task = 0; task < 20; task += 1) {
    // What makes room for a newer task is told so; here nobody minds.
    workers.exec(busy, [Math.random() < 0.02 ? 10 : 0.1]).catch(() => undefined);
  }
}, 10);

for (const strategy of ['round-robin', 'least-busy', 'fair-share']) {
  workers.setWorkerChoiceStrategy(strategy);
  await new Promise((resolve) => setTimeout(resolve, isQuick ? 300 : 5_000));
  const { throughput, latencyHistogram, tasks } = workers.metrics();
  const rate = throughput.tasksPerSecond.toFixed(0);
  const late = latencyHistogram.p99.toFixed(1);
  console.log(`${strategy}: ${rate} tasks/s, p99 ${late} ms, ${tasks.dropped} dropped so far`);
}

clearInterval(load);
const text = await (await fetch(address)).text();
console.log(`${text.split('\n').filter((line) => line.startsWith('# TYPE')).length} kinds of figures`);
server.close();
await workers.terminate();
