// What the README and the examples say is run here, in the empty project, exactly as it is written.
//
// A first example that does not run is the last one its reader tries.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Chromium } from '../browser/chromium.ts';
import { Daemon } from '../client/daemon.ts';
import { PACKAGE, run, Tarball, type Project } from './tarball.ts';

const EXAMPLES = fileURLToPath(new URL('../../../examples/npm/', import.meta.url));

let tarball: Tarball;
let project: Project;
before(async () => {
  tarball = await Tarball.pack();
  project = await tarball.install();
  await cp(EXAMPLES, join(project.folder, 'examples'), { recursive: true });
  process.env['MILLPOND_EXAMPLE_QUICK'] = '1';
});
after(() => tarball.remove());

test('the start of the README runs and prints what it says', async () => {
  const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
  const programs = [...readme.matchAll(/```js\n\/\/ ([a-z]+\.mjs)\n([^]*?)```/g)];
  assert.deepEqual(programs.map(([, name]) => name), ['methods.mjs', 'start.mjs']);
  for (const [, name, text] of programs) await project.write(name as string, text as string);
  const expected = /```text\n([^]*?)```/.exec(readme)?.[1];
  assert.deepEqual(await run(project.folder, 'start.mjs'), { code: 0, output: expected });
});

test('every option, strategy and method that the README names is one', async () => {
  const readme = await readFile(join(PACKAGE, 'README.md'), 'utf8');
  const rows = [...(/\| option \| values[^]*?\n\n/.exec(readme)?.[0] ?? '').matchAll(/^\| `([a-zA-Z]+)` \|/gm)];
  const methods = /Methods beyond workerpool's:([^]*?)\n\n/.exec(readme)?.[1] ?? '';
  const names = [...methods.matchAll(/`([a-zA-Z]+)`/g)].map((match) => match[1]);
  const strategies = [...(/who gets a task: ([^.]*)\./.exec(readme)?.[1] ?? '').matchAll(/`([a-z-]+)`/g)];
  assert.ok(rows.length >= 10 && names.length >= 8 && strategies.length === 9);
  const { code, output } = await project.program('names.mjs', `
    import { pool } from 'millpond';
    const one = pool({ maxWorkers: 1 });
    const missing = ${JSON.stringify(names)}.filter((name) => typeof one[name] !== 'function');
    for (const name of ${JSON.stringify(strategies.map((match) => match[1]))}) one.setWorkerChoiceStrategy(name);
    for (const name of ${JSON.stringify(rows.map((match) => match[1]))}) {
      try { pool({ [name]: Symbol('wrong') }); missing.push(name); } catch { /* it is known, and checked */ }
    }
    console.log(missing.join());
    await one.terminate();
  `);
  assert.deepEqual({ code, output }, { code: 0, output: '\n' });
});

test('the drop-in counts primes', async () => {
  const { code, output } = await run(project.folder, 'examples/drop-in.cjs');
  assert.equal(code, 0, output);
  assert.equal(output, '17984 primes below 200000\nhello, worker\nended after 100 ms\n');
});

test('the metrics example swaps its strategy twice and is read by Prometheus', async () => {
  const { code, output } = await run(project.folder, 'examples/metrics.mjs');
  assert.equal(code, 0, output);
  assert.match(output, /^round-robin: \d+ .*\nleast-busy: \d+ .*\nfair-share: [1-9].*\n[1-9]\d* kinds of figures$/m);
});

test('the stream tells primes one by one and stops early', async () => {
  const { code, output } = await run(project.folder, 'examples/stream.mjs');
  assert.equal(code, 0, output);
  assert.match(output, /^1009\n1013\n[^]*16 primes in all\nthe first from a million on is 1000003\n$/);
});

test('the client talks to a daemon', async () => {
  const daemon = await Daemon.start();
  try {
    process.env['MILLPOND_URL'] = daemon.url;
    const { code, output } = await run(project.folder, 'examples/client.mjs');
    assert.equal(code, 0, output);
    assert.match(output, /world[^]*ran for \d+ ms\n100 of 100 done\nunknown-handler: .*did you mean echo/);
  } finally {
    await daemon.stop();
  }
});

for (const plain of [false, true]) {
  test(`the page draws ${plain ? 'by messages' : 'through shared memory'}`, async () => {
    const server = spawn(process.execPath, ['examples/page/serve.mjs', ...(plain ? ['--plain'] : [])], {
      cwd: project.folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const browser = await Chromium.start();
    try {
      const [address] = await new Promise<string[]>((resolve) => {
        server.stdout.setEncoding('utf8').once('data', (text: string) => resolve(text.trim().split('\n')));
      });
      const status = await browser.read(address as string, 'p', /^\d+ rows/);
      assert.match(status, plain ? /^400 rows by messages in/ : /^400 rows through shared memory in/);
    } finally {
      await browser.stop();
      server.kill();
    }
  });
}
