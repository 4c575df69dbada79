// What the drop-in exports: exactly workerpool's nine names, from CommonJS and from ES modules.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import * as named from 'millpond/workerpool';
import workerpool from 'millpond/workerpool';
import { test } from './ground.ts';

const NAMES = [
  'Promise', 'TerminateError', 'Transfer', 'cpus', 'isMainThread', 'platform', 'pool', 'worker', 'workerEmit',
];

test('an ES module finds the nine names, one by one and as the default', () => {
  assert.deepEqual(Object.keys(named).filter((name) => name !== 'default').sort(), NAMES);
  assert.deepEqual(Object.keys(workerpool).sort(), NAMES);
});

test('CommonJS finds the nine names, and they work', async () => {
  const required = createRequire(import.meta.url)('millpond/workerpool');
  assert.deepEqual(Object.keys(required).filter((name) => name !== 'default').sort(), NAMES);
  const pool = required.pool({ maxWorkers: 1 });
  assert.equal(await pool.exec((a: number, b: number) => a - b, [5, 2]), 3);
  await pool.terminate();
});

test('every class and function is called what it is exported as', async () => {
  const whole: Record<string, any> = { ...(await import('millpond')), ...named };
  const nameless = Object.entries(whole).filter(([name, it]) => typeof it === 'function' && it.name !== name);
  assert.deepEqual(nameless.map(([name, it]) => `${name} is called ${it.name}`), []);
});

test('the environment is told', () => {
  assert.equal(workerpool.platform, 'node');
  assert.equal(workerpool.isMainThread, typeof process.send !== 'function');
  assert.ok(workerpool.cpus >= 1);
});

test('the fields that users reach for are there', async () => {
  const pool = workerpool.pool({ maxWorkers: 1 });
  const handle = pool._getWorker();
  assert.equal(handle, pool.workers[0]);
  assert.equal(handle?.busy(), false);
  assert.equal(pool._getWorker(), handle);
  assert.equal(typeof (handle?.worker as any).kill, 'function');
  const task = pool.exec(() => 1);
  assert.equal(pool._getWorker(), null);
  assert.equal(await task, 1);
  await pool.terminate();
});
