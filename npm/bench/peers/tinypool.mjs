// How tinypool is called: one function per pool, named once, so that no task carries a name.
// It is piscina's younger sister and takes the same worker file.

import { Tinypool } from 'tinypool';

export async function open({ workers, method, tuning }) {
  const script = method === 'bumpMoved' ? 'tinypool-move' : 'piscina';
  const filename = new URL(`../workers/${script}.mjs`, import.meta.url).href;
  const pool = new Tinypool({ filename, name: method, minThreads: workers, maxThreads: workers, ...tuning });
  return (a, b, transfer) => pool.run({ a, b }, transfer && { transferList: transfer });
}
