// Stealing and admission decide in TypeScript, by the rules of crates/policy: tests/vectors holds both to the same.
//
// What a pool of JavaScript's cannot meet is left out case by case, with its reason, and what is left is counted: a
// vector that nobody runs would prove nothing.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { BackPressure, QueueFullError } from '../../src/admission.ts';
import type { BackPressureOptions, TaskStealingOptions } from '../../src/options.ts';
import { readOptions } from '../../src/options.ts';
import { Stealing } from '../../src/stealing.ts';
import { FakePool } from './fake-pool.ts';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the tests say what each file holds
function vectors(name: string): any {
  return JSON.parse(readFileSync(new URL(`../../../tests/vectors/${name}.json`, import.meta.url), 'utf8'));
}

const LIMITS = { minWorkers: 1, maxWorkers: 8, maxQueueSize: Infinity };

interface VectorWorker { id: number; running: number; queued: number }

test('an idle worker takes as many tasks as the vectors say', () => {
  const named: Record<string, string> = {
    enabled: 'enabled', size: 'stealSize', threshold: 'stealThreshold', tasks_max: 'maxStealSize',
    cooldown_ms: 'stealCooldown',
  };
  let robberies = 0;
  for (const { name, settings = {}, steps } of vectors('steal').cases) {
    const options = Object.fromEntries(Object.entries(settings).map(([key, value]) => [named[key], value]));
    const { stealing } = readOptions({ taskStealing: options as TaskStealingOptions }, LIMITS);
    const thief = new Stealing(stealing);
    for (const { now_ms: now, thief: id, workers, came_back_empty: isEmpty, expect } of steps) {
      const own = workers.find((worker: VectorWorker) => worker.id === id);
      // Here only a worker without any work looks for some.
      if (own !== undefined && own.running + own.queued > 0) continue;
      if (isEmpty) thief.cameBackEmpty();
      const others: VectorWorker[] = workers.filter((worker: VectorWorker) => worker !== own);
      // Whom to rob is the pool's to say: as the vectors do, or else the fullest.
      const fullest = others.reduce((most, worker) => Math.max(most, worker.queued), 0);
      const queued = others.find((worker) => worker.id === expect?.victim)?.queued ?? fullest;
      assert.equal(thief.count(queued, expect?.victim, now), expect?.take ?? 0, `${name}, at ${now} ms`);
      robberies += 1;
    }
  }
  assert.ok(robberies >= 25, `only ${robberies} robberies`);
});

type Policy = BackPressureOptions['policy'];

/** Comes to the door of a full queue so deep in tasks that run here, and says what happened there. */
function stepAt(policy: Policy, timeout: number | undefined, depth: number): string {
  const pool = new FakePool();
  const backPressure = { policy, maxQueueSize: 2, ...(timeout === undefined ? {} : { timeout }) };
  const admission = new BackPressure(readOptions({ backPressure }, LIMITS).backPressure!, pool);
  const oldest = pool.task('oldest');
  oldest.promise.catch(() => {});
  pool.waiting.push(oldest, pool.task('old'));
  let step = '';
  const come = (left: number): void => {
    const task = pool.task('fresh');
    let hasRun = false;
    task.original = () => {
      hasRun = true;
      if (left > 0) come(left - 1);
    };
    task.promise.catch(() => {});
    try {
      const answer = admission.full(task);
      if (left > 0) return;
      if (answer === 'queue') step = oldest.promise.rejected ? 'drop-oldest' : 'take';
      else if (hasRun) step = 'run-here';
      else if (admission.waiting === 1) step = 'wait';
      else if (task.promise.rejected) step = 'drop-this';
    } catch (error) {
      assert.ok(error instanceof QueueFullError, String(error));
      if (left === 0) step = /deep/.test(error.message) ? 'refuse, too-deep' : 'refuse, full';
    }
  };
  come(depth);
  // Whoever waits is let in, so that no timer outlives the test.
  pool.waiting.length = 0;
  admission.room();
  return step;
}

test('a task at the door of a full queue goes on as the vectors say', () => {
  let met = 0;
  for (const { name, policy, timeout_ms: timeout, door, expect } of vectors('admit').cases) {
    // Nobody asks while there is room; a closed pool refuses before that. The pool and its door are in one thread: no
    // worker comes to it, nothing vanishes between looking for an old task and dropping it, the depth is not a setting,
    // and who waits is woken by a timer instead of asking again (`admission.test.ts`).
    if (!door.is_full || door.is_closed || door.is_worker || door.drops || door.depth_max !== undefined) continue;
    if (door.waited_ms || timeout === 0 || door.depth > 4) continue;
    const step = expect.code === undefined ? expect.step : `${expect.step}, ${expect.code}`;
    assert.equal(stepAt(policy, timeout, door.depth ?? 0), step, name);
    met += 1;
  }
  assert.equal(met, 7);
});

test('policies and sizes have the names that the vectors say', () => {
  for (const { name, error } of vectors('admit').names) {
    const read = (): unknown => readOptions({ backPressure: { policy: name } }, LIMITS).backPressure?.policy;
    if (error === undefined) assert.equal(read(), name);
    else assert.throws(read, TypeError, name);
  }
  for (const { name, error } of vectors('steal').names) {
    const read = (): unknown => readOptions({ taskStealing: { stealSize: name } }, LIMITS).stealing.stealSize;
    if (error === undefined) assert.equal(read(), name);
    else assert.throws(read, TypeError, name);
  }
});
