// How millpond is called: as workerpool is, and with nothing tuned.
// Workers are started beforehand, as every peer's are.

import { pool as makePool } from 'millpond';

const script = new URL('../workers/millpond.mjs', import.meta.url);

export async function open({ workers, method, tuning }) {
  const pool = makePool(script.pathname, { minWorkers: workers, maxWorkers: workers, workerType: 'thread', ...tuning });
  return (a, b, transfer) => pool.exec(method, [a, b], transfer && { transfer });
}
