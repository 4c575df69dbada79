// How a peer is loaded, and what one round of it comes to: a rate, a latency, a start or a size.
// Every result is checked against what it must be; the first wrong one ends the round with an error that says which.
//
// Not here: which load belongs to which question (`groups.mjs`), rounds and processes (`conduct.mjs`).

import { grind } from '../workers/grind.mjs';

const BUFFER_BYTES = 64 * 1024;
const TEXTS = 256;
const SEEDS = 16;

/**
 * What is sent and what must come back. `make(lane)` gives one client's state; `send(call, state, turn)` sends its next
 * task; `wrong(state, turn, value)` says whether the answer is not the one that was asked for.
 */
const tasks = {
  add: () => ({
    make: (lane) => lane,
    send: (call, lane, turn) => call(turn, lane),
    wrong: (lane, turn, value) => value !== turn + lane,
  }),

  echo({ bytes }) {
    // All of one length and none like another; made flat, so that no round pays for joining them.
    const text = (_, index) => Buffer.alloc(bytes, `${index} millpond `).toString('latin1');
    const texts = Array.from({ length: TEXTS }, text);
    return {
      make: (lane) => lane,
      send: (call, lane, turn) => call(texts[(turn + lane) % TEXTS]),
      wrong: (lane, turn, value) => value !== texts[(turn + lane) % TEXTS],
    };
  },

  bump: () => ({
    make: (lane) => new Uint8Array(BUFFER_BYTES).fill(lane),
    send: (call, bytes) => call(bytes),
    wrong: (bytes, _, value) => isNotBumped(bytes[0], bytes[BUFFER_BYTES - 1], value),
  }),

  // The buffer that came back is the one that goes out again, as a program that transfers would have it.
  bumpMoved: () => ({
    make: (lane) => ({ bytes: new Uint8Array(BUFFER_BYTES).fill(lane), first: 0, last: 0 }),
    send(call, state) {
      state.first = state.bytes[0];
      state.last = state.bytes[BUFFER_BYTES - 1];
      return call(state.bytes, undefined, [state.bytes.buffer]);
    },
    wrong(state, _, value) {
      state.bytes = value;
      return isNotBumped(state.first, state.last, value);
    },
  }),

  grind({ steps }) {
    const answers = Array.from({ length: SEEDS }, (_, seed) => grind(seed, steps));
    return {
      make: (lane) => lane,
      send: (call, lane, turn) => call((turn + lane) % SEEDS, steps),
      wrong: (lane, turn, value) => value !== answers[(turn + lane) % SEEDS],
    };
  },
};

function isNotBumped(first, last, value) {
  const whole = value instanceof Uint8Array && value.length === BUFFER_BYTES;
  return !whole || value[0] !== ((first + 1) & 255) || value[BUFFER_BYTES - 1] !== ((last + 1) & 255);
}

export function makeTask(job) {
  return tasks[job.method](job);
}

/** Tasks a second with so many clients, each of which asks again as soon as it is answered. */
export function rate(call, task, { inFlight, roundMs }) {
  // Looking at the clock costs as much as a tenth of a small task; a look for every 32nd is near enough.
  const clockEvery = inFlight >= 1000 ? 32 : 1;
  return new Promise((resolve, reject) => {
    const processorBefore = process.cpuUsage();
    const started = performance.now();
    let waiting = 0;
    let answered = 0;
    let over = false;
    const finish = () => {
      const elapsedMs = performance.now() - started;
      const { user, system } = process.cpuUsage(processorBefore);
      resolve({ main: (answered * 1000) / elapsedMs, beside: { cpu_us: (user + system) / answered } });
    };
    const fail = (error) => {
      over = true;
      reject(error);
    };
    const client = (lane) => {
      const state = task.make(lane);
      let turn = 0;
      const ask = () => {
        waiting += 1;
        task.send(call, state, turn).then(take, fail);
      };
      const take = (value) => {
        if (task.wrong(state, turn, value)) {
          fail(new Error(`client ${lane}, task ${turn}: a wrong answer: ${shown(value)}`));
          return;
        }
        turn += 1;
        waiting -= 1;
        answered += 1;
        if (!over && answered % clockEvery === 0) {
          over = performance.now() - started >= roundMs;
        }
        if (!over) {
          ask();
        } else if (waiting === 0) {
          finish();
        }
      };
      ask();
    };
    for (let lane = 0; lane < inFlight; lane += 1) {
      client(lane);
    }
  });
}

/** Microseconds from the call to its answer, one call after the other. */
export async function latency(call, task, { roundMs, pauseMs = 0 }) {
  const state = task.make(1);
  const times = [];
  const processorBefore = process.cpuUsage();
  const started = performance.now();
  for (let turn = 0, now = started; now - started < roundMs; turn += 1) {
    if (pauseMs > 0) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      now = performance.now();
    }
    const value = await task.send(call, state, turn);
    const then = performance.now();
    times.push(then - now);
    now = then;
    if (task.wrong(state, turn, value)) {
      throw new Error(`task ${turn}: a wrong answer: ${shown(value)}`);
    }
  }
  const { user, system } = process.cpuUsage(processorBefore);
  times.sort((a, b) => a - b);
  const at = (share) => 1000 * times[Math.min(times.length - 1, Math.floor(share * times.length))];
  return { main: at(0.5), beside: { p99_us: at(0.99), cpu_us: (user + system) / times.length } };
}

/** Milliseconds from making the pool to its first answer; what loading the library takes stands beside it. */
export async function start(importPeer, job) {
  const started = performance.now();
  const { open } = await importPeer();
  const loaded = performance.now();
  const call = await open(job);
  const threadId = await call(0);
  const answered = performance.now();
  if (!(threadId > 0)) {
    throw new Error(`the first task: a wrong answer: ${shown(threadId)}`);
  }
  return { main: answered - loaded, beside: { import_ms: loaded - started } };
}

/** Resident megabytes of a process with so many workers, each of which has run tasks. */
export async function size(importPeer, job) {
  const { open } = await importPeer();
  if (job.workers > 0) {
    await runOnEveryWorker(await open(job), job.workers);
  }
  await new Promise((resolve) => setTimeout(resolve, 150));
  globalThis.gc();
  return { main: process.memoryUsage.rss() / 1e6, beside: {} };
}

async function runOnEveryWorker(call, workers) {
  const seen = new Set();
  const deadline = performance.now() + 10_000;
  for (let sleepMs = 5; seen.size < workers; sleepMs = 20) {
    const calls = Array.from({ length: workers }, () => call(sleepMs));
    (await Promise.all(calls)).forEach((threadId) => seen.add(threadId));
    if (performance.now() > deadline) {
      throw new Error(`expected ${workers} workers to take part, saw ${seen.size} within 10 s`);
    }
  }
  for (let round = 0; round < 100; round += 1) {
    await Promise.all(Array.from({ length: workers }, () => call(0)));
  }
}

function shown(value) {
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
