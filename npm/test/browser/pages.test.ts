// Whole pages as users write them: a script tag, a bundle of vite, and a client that talks to a daemon elsewhere.
//
// Each page runs by itself and writes its answer into its title, so nothing of the test's own machinery is in the way.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { Daemon } from '../client/daemon.ts';
import { Chromium } from './chromium.ts';

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url));

let browser: Chromium;
before(async () => {
  browser = await Chromium.start();
});
after(() => browser.stop());

test('a script tag is enough', () => {
  const page = `<!doctype html><link rel="icon" href="data:,">
  <script src="/millpond/millpond.global.js"></script>
  <script>
    const pool = millpond.pool();
    pool.exec((a, b) => a + b, [40, 2]).then((sum) => { document.title = 'sum ' + sum; return pool.terminate(); });
  </script>`;
  return browser.visit({ files: { '/': page } }, async ({ page, faults }) => {
    await page.waitForFunction('document.title.startsWith("sum")');
    assert.equal(await page.title(), 'sum 42');
    assert.deepEqual(faults, []);
  });
});

for (const isolated of [true, false]) {
  test(`a page built by vite runs a function and a worker of its own (${isolated ? '' : 'not '}isolated)`, async () => {
    const files = await builtPage({
      'index.html': '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>',
      'main.js': `
        import { pool } from 'millpond';
        import script from './adds.js?worker&url';
        const plain = pool({ maxWorkers: 1 });
        const scripted = pool(script, { maxWorkers: 1, workerOpts: { type: 'module' } });
        Promise.all([plain.exec((a, b) => a * b, [6, 7]), scripted.exec('add', [1, 2])])
          .then((answers) => { document.title = 'got ' + answers; }, (error) => { document.title = 'got ' + error; });
      `,
      'adds.js': `
        import { worker } from 'millpond/worker';
        worker({ add: (a, b) => a + b });
      `,
    });
    await browser.visit({ files, isolated }, async ({ page, faults }) => {
      await page.waitForFunction('document.title.startsWith("got")');
      assert.equal(await page.title(), 'got 42,3');
      assert.deepEqual(faults, []);
    });
  });
}

test('a page of an allowed origin calls and follows tasks of a daemon', async () => {
  const daemon = await Daemon.start({ web: ['origins = ["127.0.0.1"]'] });
  try {
    await browser.visit({}, async (visit) => {
      const answer = await visit.page.evaluate(`import('/millpond/client.js').then(async ({ connect }) => {
        const client = connect(${JSON.stringify(daemon.url)});
        const echo = await client.call('echo', { from: 'a page' });
        const ticket = await client.submit({ handler: 'speak', args: { steps: 2 } });
        const events = [];
        for await (const { event } of ticket.stream()) events.push(event);
        const refused = await client.call('ehco').catch((error) => error.code);
        const batch = await client.submitBatch([{ handler: 'echo' }, { handler: 'echo' }], { until: 'ended' });
        return { echo, events, refused, batch: batch.length };
      })`);
      assert.deepEqual(answer, {
        echo: { from: 'a page' },
        events: ['task', 'log', 'partial', 'partial', 'ended'],
        refused: 'unknown-handler',
        batch: 2,
      });
    });
  } finally {
    await daemon.stop();
  }
});

/** The files of a page as vite builds it, by their paths. */
async function builtPage(sources: Record<string, string>): Promise<Record<string, string>> {
  const root = await mkdtemp(join(tmpdir(), 'millpond-page-'));
  try {
    await mkdir(join(root, 'node_modules'));
    await symlink(PACKAGE, join(root, 'node_modules/millpond'));
    for (const [name, text] of Object.entries(sources)) await writeFile(join(root, name), text);
    const options = { root, configFile: false, logLevel: 'error', worker: { format: 'es' } } as const;
    const built = await build({ ...options, build: { write: false } });
    const outputs = (Array.isArray(built) ? built : [built]).flatMap((one) => ('output' in one ? one.output : []));
    const files = outputs.map((file) => {
      const text = file.type === 'chunk' ? file.code : Buffer.from(file.source).toString('utf8');
      return [`/${file.fileName}`, text];
    });
    const byPath: Record<string, string> = Object.fromEntries(files);
    return { ...byPath, '/': byPath['/index.html'] ?? '' };
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}
