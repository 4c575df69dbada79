// Who takes part, and how each is tuned. A row's name says what the tuning is; what does less than a pool has a `~`.
// Every tuning here is one that the peer's own documents offer, chosen by trying; `docs/bench-npm.md` tells how.
//
// Not here: how a peer is called (`peers/`), where it takes part (`groups.mjs`).

/** Ours; variants have a word behind it. */
export const OURS = 'millpond';

const none = () => ({});

/** By row name: the file in `peers/`, and the options for so many workers under so many tasks in flight. */
export const peers = {
  'millpond': { module: 'millpond', tuning: none },
  'workerpool': { module: 'workerpool', tuning: none },
  'piscina': { module: 'piscina', tuning: none },
  // Everything in flight is handed to the workers at once, and no histograms are kept.
  'piscina tuned': {
    module: 'piscina',
    tuning: ({ inFlight }) => ({ concurrentTasksPerWorker: inFlight, atomics: 'sync', recordTiming: false }),
  },
  'piscina waitAsync': { module: 'piscina', tuning: () => ({ atomics: 'async', recordTiming: false }) },
  'tinypool': { module: 'tinypool', tuning: none },
  'tinypool tuned': { module: 'tinypool', tuning: ({ inFlight }) => ({ concurrentTasksPerWorker: inFlight }) },
  // With its queue on, a worker is given one task at a time unless `concurrency` says more; with it off, which is how
  // the dynamic pool is used here, every task is handed over at once.
  'poolifier fixed': {
    module: 'poolifier',
    tuning: ({ inFlight }) => ({ enableTasksQueue: true, tasksQueueOptions: { concurrency: inFlight } }),
  },
  'poolifier dynamic': { module: 'poolifier', tuning: () => ({ dynamic: true }) },
  '~postMessage': { module: 'raw', tuning: none },
  '~postMessage batched': { module: 'raw', tuning: () => ({ batched: true }) },
  '~empty worker': { module: 'empty', tuning: none },
};

export function isOurs(peer) {
  return peer === OURS || peer.startsWith(`${OURS} `);
}

/** Whether others are compared with it: neither ours nor a floor. */
export function isRival(peer) {
  return !isOurs(peer) && !peer.startsWith('~');
}
