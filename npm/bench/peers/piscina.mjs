// How piscina is called: one function per pool, named once, so that no task carries a name.
// What is tuned stands in `src/peers.mjs`; a list of what is transferred is its `transferList`.

import { Piscina } from 'piscina';

export async function open({ workers, method, tuning }) {
  const script = method === 'bumpMoved' ? 'piscina-move' : 'piscina';
  const filename = new URL(`../workers/${script}.mjs`, import.meta.url).href;
  const pool = new Piscina({ filename, name: method, minThreads: workers, maxThreads: workers, ...tuning });
  return (a, b, transfer) => pool.run({ a, b }, transfer && { transferList: transfer });
}
