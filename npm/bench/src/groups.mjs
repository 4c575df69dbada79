// Which questions there are, who answers each, and with what load. A prefix chooses groups, as in the other benches.
// A group's numbers are the same for every peer; only the tuning differs, and that stands in `peers.mjs`.

const POOLS = [
  'millpond', 'workerpool', 'piscina', 'piscina tuned', 'tinypool', 'tinypool tuned',
  'poolifier fixed', 'poolifier dynamic', '~postMessage', '~postMessage batched',
];
// Tuning for many tasks at once changes nothing where there is one, or none.
const ONE_BY_ONE = [
  'millpond', 'workerpool', 'piscina', 'piscina waitAsync', 'tinypool',
  'poolifier fixed', 'poolifier dynamic', '~postMessage',
];
const UNTUNED = ['millpond', 'workerpool', 'piscina', 'tinypool', 'poolifier fixed', '~postMessage', '~empty worker'];

const RATE = { unit: 'tasks/s', better: 'higher', load: 'rate', peers: POOLS };
const LATENCY = { unit: 'µs', better: 'lower', load: 'latency', inFlight: 1, method: 'add', peers: ONE_BY_ONE };
const FRESH = { better: 'lower', method: 'whoami', inFlight: 1, peers: UNTUNED };

export const groups = [
  {
    ...RATE, name: 'tiny-1', question: 'add(a, b), 1000 in flight, one worker: what does a pool cost?',
    method: 'add', workers: 1, inFlight: 1000,
  },
  {
    ...RATE, name: 'tiny-2', question: 'add(a, b), 1000 in flight, two workers',
    method: 'add', workers: 2, inFlight: 1000,
  },
  {
    ...LATENCY, name: 'one-at-a-time', question: 'add(a, b), the next when the last is answered: median time',
    workers: 1,
  },
  {
    ...LATENCY, name: 'after-rest', question: 'add(a, b) after 5 ms without work: median time',
    workers: 1, pauseMs: 5,
  },
  {
    ...RATE, name: 'string-1k', question: 'a string of 1 KB there and back, 1000 in flight, one worker',
    method: 'echo', workers: 1, inFlight: 1000, bytes: 1024,
  },
  {
    ...RATE, name: 'buffer-64k-copy', question: '64 KB there and back as copies, 64 in flight, one worker',
    method: 'bump', workers: 1, inFlight: 64,
  },
  {
    ...RATE, name: 'buffer-64k-transfer', question: '64 KB there and back by transfer, 64 in flight, one worker',
    method: 'bumpMoved', workers: 1, inFlight: 64,
  },
  {
    ...RATE, name: 'cpu-1ms-1', question: 'a millisecond of work, 64 in flight, one worker',
    method: 'grind', workers: 1, inFlight: 64,
  },
  {
    ...RATE, name: 'cpu-1ms-2', question: 'a millisecond of work, 64 in flight, two workers',
    method: 'grind', workers: 2, inFlight: 64,
  },
  {
    ...FRESH, name: 'memory', question: 'resident memory of one more worker: a process with five against one with one',
    unit: 'MB', load: 'size', workersFew: 1, workersMany: 5, roundsMax: 5,
  },
  {
    ...FRESH, name: 'start', question: 'from making the pool to its first answer, in a fresh process',
    unit: 'ms', load: 'start', workers: 1,
  },
];

/** The groups that the words of the command line choose: a prefix, or `=NAME` for that one alone. */
export function chosenGroups(words) {
  if (words.length === 0) {
    return groups;
  }
  const matches = (word) => ({ name }) => (word.startsWith('=') ? name === word.slice(1) : name.startsWith(word));
  for (const word of words) {
    if (!groups.some(matches(word))) {
      const names = groups.map(({ name }) => name).join(', ');
      throw new Error(`${word}: no group begins with that; there are ${names}`);
    }
  }
  return groups.filter((group) => words.some((word) => matches(word)(group)));
}
