// What the raw link can do, without the pool around it: a measurement to run by hand, not a test.
//
//   node --import tsx test/ring/bench.ts [seconds]

import { readFileSync, readdirSync } from 'node:fs';
import { LinkedWorker } from './linked-worker.ts';

const seconds = Number(process.argv[2] ?? 1);

/** Nanoseconds that each thread of this process has run: tells what a task costs on a machine that others use too. */
function threadTimes(): Map<string, number> {
  const times = new Map<string, number>();
  for (const thread of readdirSync('/proc/self/task')) {
    try {
      times.set(thread, Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')[0]));
    } catch {
      // The thread has ended meanwhile.
    }
  }
  return times;
}

async function flood(name: string, workers: number, inFlight: number, method: string, params: unknown[]): Promise<void> {
  const linked = Array.from({ length: workers }, () => new LinkedWorker({ quiet: true }));
  await Promise.all(linked.map((worker) => worker.call('add', [1, 2])));
  const share = Math.ceil(inFlight / workers);
  let done = 0;
  const before = threadTimes();
  const start = performance.now();
  const until = start + seconds * 1000;
  await Promise.all(linked.map((worker) => new Promise<void>((resolve) => {
    let sent = 0;
    let answered = 0;
    let id = 1000;
    const fill = (): void => {
      if (performance.now() > until) {
        if (sent === answered) resolve();
        return;
      }
      while (sent - answered < share) {
        if (worker.link.send(++id, method, params) === 'full') break;
        sent++;
      }
    };
    worker.events.onResult = () => {
      answered++;
      done++;
    };
    worker.events.onBatchEnd = fill;
    fill();
  })));
  const elapsed = (performance.now() - start) / 1000;
  const costs = [...threadTimes()].map(([thread, time]) => (time - (before.get(thread) ?? time)) / done / 1000);
  const threads = costs.filter((cost) => cost > 0.02).map((cost) => cost.toFixed(2)).join(' + ');
  const mean = linked[0].link.runMeanMs * 1000;
  console.log(`${name}, ${workers} workers: ${Math.round(done / elapsed).toLocaleString('en')} /s, run mean ${mean.toFixed(2)} us, threads ${threads} us`);
  await Promise.all(linked.map((worker) => worker.end()));
}

async function pingPong(): Promise<void> {
  const worker = new LinkedWorker();
  await worker.call('add', [1, 2]);
  const times: number[] = [];
  const until = performance.now() + seconds * 1000;
  while (performance.now() < until) {
    const start = performance.now();
    await worker.call('add', [1, 2]);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): string => (times[Math.floor(times.length * share)] * 1000).toFixed(1);
  console.log(`one at a time: p50 ${at(0.5)} us, p99 ${at(0.99)} us, ${times.length} rounds`);
  await worker.end();
}

await flood('add(1,2), 1000 in flight', 1, 1000, 'add', [1, 2]);
await flood('add(1,2), 1000 in flight', 2, 1000, 'add', [1, 2]);
await pingPong();
await flood('echo(1 KB string)', 1, 1000, 'echo', ['x'.repeat(1024)]);
await flood('echo(1 KB string)', 2, 1000, 'echo', ['x'.repeat(1024)]);
await flood('echo(object)', 1, 1000, 'echo', [{ id: 17, name: 'a name', tags: ['a', 'b'], ok: true, score: 1.5 }]);
await flood('echo(64 KB)', 1, 64, 'echo', [new Uint8Array(65_536)]);
await flood('busy(0.8)', 1, 1000, 'busy', [0.8]);
