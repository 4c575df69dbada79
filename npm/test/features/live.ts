// A real pool with the worker of these tests, and waiting for what must come instead of for a time.

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { pool as makePool } from 'millpond';
import type { Pool, PoolOptions } from 'millpond';

const JOBS = fileURLToPath(new URL('./jobs.mjs', import.meta.url));
const PATIENCE_MS = 20_000;

/** A pool that ends with its test, whatever becomes of it. */
export function livePool(context: TestContext, options: PoolOptions): Pool {
  const pool = makePool(JOBS, options) as Pool;
  context.after(async () => {
    await pool.terminate(true);
  });
  return pool;
}

/** Flags that `hold` waits for: all 0 at first. */
export function flags(count = 4): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * count));
}

export function release(held: Int32Array, at = 0): void {
  Atomics.store(held, at, 1);
}

export async function until(what: string, isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!isSo()) {
    if (performance.now() > deadline) assert.fail(`still not after ${PATIENCE_MS} ms: ${what}`);
    await new globalThis.Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** The reason of a rejection. */
export async function reasonOf(promise: PromiseLike<unknown>): Promise<Error & Record<string, any>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, any>;
  }
  return assert.fail('it was expected to reject');
}
