// The worker of these tests: methods whose length the test decides, and that tell who ran them.
//
// `hold` waits for a flag in shared memory instead of a time, so that a test can keep a worker busy exactly as long as
// it needs; `count` notes each run in shared memory, so that a task that ran twice is seen.

import { threadId } from 'node:worker_threads';
import { traceparent, worker, workerEmit } from 'millpond/worker';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function hold(flags, at = 0) {
  while (Atomics.load(flags, at) === 0) await pause(1);
  return threadId;
}

function spin(ms) {
  const until = performance.now() + ms;
  while (performance.now() < until);
  return threadId;
}

worker({
  add: (a, b) => a + b,
  whoami: () => threadId,
  hold,
  spin,
  async sleep(ms) {
    await pause(ms);
    return threadId;
  },
  count(counts, at, ms = 0) {
    Atomics.add(counts, at, 1);
    if (ms > 0) spin(ms);
    return threadId;
  },
  note(list, name) {
    Atomics.store(list, Atomics.add(list, 0, 1) + 1, name);
  },
  crash: () => process.exit(3),
  fail(text) {
    throw new Error(text);
  },
  async emits(count, flags) {
    for (let at = 0; at < count; at++) workerEmit(at);
    if (flags) await hold(flags);
    return `${count} emitted`;
  },
  async emitsUntilAborted() {
    let isAborted = false;
    this.worker.addAbortListener(async () => {
      isAborted = true;
    });
    for (let at = 0; !isAborted; at++) {
      workerEmit(at);
      await pause(1);
    }
    return threadId;
  },
  async abortable(flags) {
    this.worker.addAbortListener(async () => {
      Atomics.store(flags, 1, 1);
    });
    Atomics.store(flags, 0, 1);
    await pause(60_000);
  },
  hoard(megabytes) {
    globalThis.hoarded = Array.from({ length: megabytes }, () => new Array(131_072).fill(Math.random()));
    return threadId;
  },
  traceparent: () => traceparent(),
});
