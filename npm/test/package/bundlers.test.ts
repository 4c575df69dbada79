// Bundled by what users bundle with: the code moves into one file, and what it needs must have moved with it.
//
// Bundles for browsers are built here and run in `test/browser`; a bundle for Node is run here, far from the package.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build as esbuild, type BuildOptions } from 'esbuild';
import { build as vite } from 'vite';
import { run, Tarball, type Project } from './tarball.ts';

let tarball: Tarball;
let project: Project;
before(async () => {
  tarball = await Tarball.pack();
  project = await tarball.install();
});
after(() => tarball.remove());

const PROGRAM = `
  import { pool } from 'millpond';
  const plain = pool({ maxWorkers: 1 });
  plain.exec((a, b) => a + b, [2, 3]).then(async (sum) => {
    console.log(sum);
    await plain.terminate();
  });
`;

for (const format of ['esm', 'cjs'] as const) {
  test(`a bundle of esbuild for Node (${format}) runs where there is no node_modules`, async () => {
    const entry = await project.write('entry.mjs', PROGRAM);
    const away = await mkdtemp(join(tarball.folder, 'away-'));
    const bundle = join(away, format === 'esm' ? 'bundle.mjs' : 'bundle.cjs');
    const options: BuildOptions = { entryPoints: [entry], outfile: bundle, bundle: true, platform: 'node', format };
    const built = await esbuild({ ...options, logLevel: 'silent' });
    assert.deepEqual(built.errors, []);
    assert.deepEqual(await run(away, bundle), { code: 0, output: '5\n' });
  });
}

test('esbuild for a browser takes the build for browsers, without a warning', async () => {
  const entry = await project.write('entry.mjs', PROGRAM);
  const options: BuildOptions = { entryPoints: [entry], bundle: true, platform: 'browser', format: 'esm' };
  const built = await esbuild({ ...options, write: false, metafile: true, logLevel: 'silent' });
  assert.deepEqual(built.warnings, []);
  const taken = Object.keys(built.metafile?.inputs ?? {}).filter((path) => path.includes('node_modules/millpond/'));
  assert.ok(taken.length > 0);
  assert.deepEqual(taken.filter((path) => !path.includes('dist/browser/')), []);
});

test('whoever imports only the client bundles only the client', async () => {
  const entry = await project.write('only-client.mjs', `
    import { connect } from 'millpond/client';
    console.log(connect());
  `);
  const built = await esbuild({ entryPoints: [entry], bundle: true, format: 'esm', write: false, minify: true });
  const bytes = built.outputFiles[0]?.contents.length ?? 0;
  assert.ok(bytes > 0 && bytes < 20_000, `the client has ${bytes} bytes`);
});

test('vite builds a page with a pool in it, without a warning', async () => {
  const root = join(project.folder, 'page');
  await mkdir(root, { recursive: true });
  await writeFile(join(root, 'index.html'), '<!doctype html><script type="module" src="./main.js"></script>');
  await writeFile(join(root, 'main.js'), PROGRAM);
  const warnings: string[] = [];
  const logger = { warn: (text: string) => warnings.push(text), warnOnce: (text: string) => warnings.push(text) };
  const quiet = { info: () => undefined, error: () => undefined, clearScreen: () => undefined };
  const customLogger = { ...logger, ...quiet, hasErrorLogged: () => false, hasWarned: false };
  const built = await vite({ root, configFile: false, customLogger, build: { write: false } });
  assert.deepEqual(warnings, []);
  const chunks = (Array.isArray(built) ? built : [built]).flatMap((one) => ('output' in one ? one.output : []));
  const code = chunks.map((chunk) => (chunk.type === 'chunk' ? chunk.code : '')).join('');
  assert.ok(code.length > 1000);
  assert.doesNotMatch(code, /node:|__vite-browser-external/);
});
