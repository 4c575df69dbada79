// The installed package in an empty project, loaded in every way Node has: import, require, both at once, and as the
// drop-in for workerpool.
//
// Each program is one a user could write; it runs tasks and must end by itself.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Tarball, type Project } from './tarball.ts';

const NINE = 'Promise,TerminateError,Transfer,cpus,isMainThread,platform,pool,worker,workerEmit';

let tarball: Tarball;
let project: Project;
before(async () => {
  tarball = await Tarball.pack();
  project = await tarball.install();
});
after(() => tarball.remove());

test('an ESM program runs a function and a script', async () => {
  await project.write('adds.mjs', `
    import { worker } from 'millpond/worker';
    worker({ add: (a, b) => a + b });
  `);
  await prints('esm.mjs', `
    import { fileURLToPath } from 'node:url';
    import { pool } from 'millpond';
    const plain = pool();
    console.log(await plain.exec((a, b) => a * b, [6, 7]));
    await plain.terminate();
    const scripted = pool(fileURLToPath(new URL('adds.mjs', import.meta.url)), { maxWorkers: 2 });
    console.log(await scripted.exec('add', [3, 4]));
    await scripted.terminate();
  `, '42\n7\n');
});

test('a CommonJS program runs a function and a script', async () => {
  await project.write('adds.cjs', `
    const { worker } = require('millpond/worker');
    worker({ add: (a, b) => a + b });
  `);
  await prints('common.cjs', `
    const { pool } = require('millpond');
    (async () => {
      const plain = pool();
      console.log(await plain.exec((a, b) => a * b, [6, 7]));
      await plain.terminate();
      const scripted = pool(__dirname + '/adds.cjs');
      console.log(await scripted.exec('add', [3, 4]));
      await scripted.terminate();
    })();
  `, '42\n7\n');
});

test('child processes run the same worker', async () => {
  await prints('process.mjs', `
    import { pool } from 'millpond';
    const processes = pool({ workerType: 'process' });
    console.log(await processes.exec(() => typeof process.send, []));
    await processes.terminate();
  `, 'function\n');
});

test('millpond/workerpool has the nine names of workerpool, by name, as default and by require', async () => {
  await prints('nine.mjs', `
    import * as names from 'millpond/workerpool';
    import workerpool from 'millpond/workerpool';
    import { createRequire } from 'node:module';
    const required = createRequire(import.meta.url)('millpond/workerpool');
    for (const face of [names, workerpool, required]) {
      console.log(Object.keys(face).filter((name) => name !== 'default').sort().join());
    }
    console.log(workerpool.pool === names.pool);
  `, `${`${NINE}\n`.repeat(3)}true\n`);
});

test('a program written for workerpool runs by changing its import', async () => {
  await project.write('fibonacci.cjs', `
    const workerpool = require('millpond/workerpool');
    const fibonacci = (n) => (n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2));
    workerpool.worker({ fibonacci, fail: () => { throw new TypeError('as told'); } });
  `);
  await prints('dropin.cjs', `
    const workerpool = require('millpond/workerpool');
    const pool = workerpool.pool(__dirname + '/fibonacci.cjs', { minWorkers: 1, maxWorkers: 2 });
    pool.proxy()
      .then((proxy) => proxy.fibonacci(10))
      .then((result) => console.log(result))
      .then(() => pool.exec('fail'))
      .catch((error) => console.log(error.message))
      .then(() => pool.exec(function spin() { for (;;); }).timeout(50))
      .catch((error) => console.log(error instanceof workerpool.Promise.TimeoutError))
      .then(() => pool.terminate())
      .then(() => console.log(pool.stats().totalWorkers));
  `, '55\nas told\ntrue\n0\n');
});

test('import and require in one process give the same classes', async () => {
  await prints('both.mjs', `
    import { createRequire } from 'node:module';
    import * as imported from 'millpond';
    import { Transfer } from 'millpond/worker';
    const required = createRequire(import.meta.url)('millpond');
    console.log(imported.pool === required.pool, imported.Promise === required.Promise);
    console.log(imported.Transfer === Transfer, required.Transfer === Transfer);
  `, 'true true\ntrue true\n');
});

test('the client loads no worker and no WASM', async () => {
  await prints('client.mjs', `
    import { connect } from 'millpond/client';
    console.log(typeof connect, process.moduleLoadList.some((name) => /worker_threads/.test(name)));
  `, 'function false\n');
});

async function prints(name: string, text: string, expected: string): Promise<void> {
  const { code, output } = await project.program(name, text);
  assert.deepEqual({ code, output }, { code: 0, output: expected });
}
