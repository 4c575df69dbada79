// Where this code runs: in a browser, in a page or in a worker, and on how many CPUs.
//
// A page has a Window, a worker has none. A browser that does not tell its number of CPUs says undefined, as in
// workerpool; the pool then counts with four.

export const platform: 'node' | 'browser' = 'browser';

export const isMainThread: boolean = typeof Window !== 'undefined';

export const cpus: number = globalThis.navigator?.hardwareConcurrency as number;
