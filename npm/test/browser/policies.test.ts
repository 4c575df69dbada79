// Pages with a content security policy: what is forbidden is said clearly, and what is allowed works.
//
// A policy that forbids blob workers or eval is what careful sites have. A pool that hangs there, or fails with a bare
// "error" event, costs its user an afternoon.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Chromium } from './chromium.ts';

let browser: Chromium;
before(async () => {
  browser = await Chromium.start();
});
after(() => browser.stop());

// Playwright's own evaluate is not subject to the policy; what the page and its workers do is.
const STRICT = "default-src 'self'; script-src 'self'; worker-src 'self'; img-src data:";
const SCRIPT = `millpond.pool('/workers/methods-module.js', { maxWorkers: 1, workerOpts: { type: 'module' } })`;

test('a worker script of the site works under the strictest policy', () =>
  browser.visit({ policy: STRICT, isolated: true }, async (visit) => {
    const sum = await visit.run(`
      const pool = ${SCRIPT};
      const sum = await pool.exec('add', [1, 2]);
      await pool.terminate();
      return sum;
    `);
    assert.equal(sum, 3);
    assert.deepEqual(visit.faults, []);
  }));

test('a pool without a script says that blob workers are forbidden, and what to do', () =>
  browser.visit({ policy: STRICT }, async (visit) => {
    const text = await visit.run(`
      const pool = millpond.pool({ maxWorkers: 1 });
      const text = await pool.exec(() => 1, []).then(() => 'it ran', (error) => error.message);
      await pool.terminate(true);
      return text;
    `);
    assert.match(text, /blob:|worker-src/);
    assert.match(text, /script/);
  }));

test('a function that may not be made from its text says that eval is forbidden, and what to do', () =>
  browser.visit({ policy: `${STRICT}; worker-src 'self' blob:`.replace("worker-src 'self'; ", '') }, async (visit) => {
    const text = await visit.run(`
      const pool = millpond.pool({ maxWorkers: 1 });
      const text = await pool.exec(() => 1, []).then(() => 'it ran', (error) => error.message);
      await pool.terminate(true);
      return text;
    `);
    assert.match(text, /unsafe-eval|eval/);
  }));

test('without leave to compile WebAssembly a pool falls back to messages, and strategies go on', () =>
  browser.visit({ policy: STRICT, isolated: true }, async (visit) => {
    const sums = await visit.run(`
      const warnings = [];
      const pool = millpond.pool('/workers/methods-module.js', {
        maxWorkers: 2, workerOpts: { type: 'module' }, workerChoiceStrategy: 'round-robin',
      });
      pool.on('warning', (warning) => warnings.push(warning));
      const sums = await Promise.all([1, 2, 3].map((n) => pool.exec('add', [n, n])));
      await pool.terminate();
      return sums;
    `);
    assert.deepEqual(sums, [2, 4, 6]);
    assert.deepEqual(visit.faults, []);
  }));
