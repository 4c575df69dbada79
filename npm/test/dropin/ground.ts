// What all tests of the drop-in stand on: pools that are ended whatever happens, and waiting for a condition.
//
// Every test that concerns tasks runs once by messages and once by the way the pool chooses itself, because a drop-in
// must not show which one it took.

import { afterEach, test as nodeTest } from 'node:test';
import { fileURLToPath } from 'node:url';
import workerpool from 'millpond/workerpool';
import type { Pool, WorkerPoolOptions } from 'millpond/workerpool';

export const TRANSPORTS = ['messages', 'auto'] as const;
const DEADLINE_MS = 10_000;
const TEST_MS_MAX = 60_000;

const pools: Pool[] = [];

afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.terminate(true)));
});

/** A test that fails when it hangs. */
export function test(name: string, body: () => void | Promise<void>): void {
  void nodeTest(name, { timeout: TEST_MS_MAX }, body);
}

export function script(name: string): string {
  return fileURLToPath(new URL(`workers/${name}`, import.meta.url));
}

/** A pool that ends with the test. */
export function open(first?: string | WorkerPoolOptions, options?: WorkerPoolOptions): Pool {
  const pool = typeof first === 'string' ? workerpool.pool(script(first), options) : workerpool.pool(first);
  pools.push(pool);
  return pool;
}

/** Waits until something is true; what it was is told when it never is. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited ${DEADLINE_MS} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The error that something rejects with. */
export async function failureOf(promise: PromiseLike<unknown>): Promise<any> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('expected a rejection, got a result');
}
