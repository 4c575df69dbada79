// What is in the tarball: small, without dependencies, clean in the eyes of publint and attw, and fresh.
//
// A package that grows by accident, names a file it does not have, or ships types for the wrong module system is found
// out by its users otherwise.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { PACKAGE, run, Tarball } from './tarball.ts';

const TARBALL_BYTES_MAX = 200_000;
const WASM_BYTES_MAX = 50_000;
const SCRIPT_GZIP_BYTES_MAX = 45_000;
const PART_BYTES_MAX = 31_000;

let tarball: Tarball;
before(async () => {
  tarball = await Tarball.pack();
});
after(() => tarball.remove());

test('the tarball is under 200 KB, and the WASM in it under 50 KB', async () => {
  assert.ok(tarball.bytes < TARBALL_BYTES_MAX, `the tarball has ${tarball.bytes} bytes`);
  const wasm = await Promise.all(['policy', 'ring'].map((name) => readFile(join(PACKAGE, `wasm/${name}.wasm`))));
  const bytes = wasm.reduce((sum, module) => sum + module.length, 0);
  assert.ok(bytes > 0 && bytes < WASM_BYTES_MAX, `the WASM has ${bytes} bytes`);
  const script = gzipSync(await readFile(join(PACKAGE, 'dist/browser/millpond.global.js'))).length;
  assert.ok(script < SCRIPT_GZIP_BYTES_MAX, `the script for browsers has ${script} bytes compressed`);
});

test('no part of the code is too large to be packed beside its twin', async () => {
  for (const folder of ['cjs', 'browser']) {
    for (const name of await readdir(join(PACKAGE, 'dist', folder))) {
      if (!/\.js$/.test(name) || name === 'millpond.global.js') continue;
      const { length } = await readFile(join(PACKAGE, 'dist', folder, name));
      assert.ok(length < PART_BYTES_MAX, `${folder}/${name} has ${length} bytes: name another cut in build-chunks.mjs`);
    }
  }
});

test('it depends on nothing and runs nothing when it is installed', async () => {
  const manifest = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8'));
  for (const name of ['dependencies', 'optionalDependencies', 'peerDependencies', 'bundleDependencies']) {
    assert.equal(manifest[name], undefined, name);
  }
  for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) {
    assert.equal(manifest.scripts[name], undefined, name);
  }
});

test('it holds the built package and no sources, tests or folders of the machine that built it', async () => {
  const strangers = tarball.files.filter((path) => !/^(dist\/|package\.json$|README\.md$|CHANGELOG\.md$)/.test(path));
  assert.deepEqual(tarball.files.filter((path) => path.endsWith('.map') || /\.part\.d\.ts$/.test(path)), []);
  assert.deepEqual(strangers, []);
  assert.ok(tarball.files.includes('README.md') && tarball.files.includes('CHANGELOG.md'));
  for (const path of tarball.files) {
    const text = await readFile(join(PACKAGE, path), 'latin1');
    assert.ok(!text.includes(PACKAGE), `${path} names the folder it was built in`);
  }
});

test('every file that package.json names is there', async () => {
  const manifest = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8'));
  const { exports, main, module, types, typesVersions } = manifest;
  const named = JSON.stringify([exports, main, module, types, typesVersions]);
  const paths = [...named.matchAll(/"\.\/([^"*]+\.[a-z]+)"/g)].map((match) => match[1] as string);
  assert.ok(paths.length >= 20);
  assert.deepEqual(paths.filter((path) => path !== 'package.json' && !tarball.files.includes(path)), []);
});

test('publint has nothing to say', async () => {
  const { messages, pkg } = await publint({ strict: true, pack: { tarball: await packedBytes() } });
  assert.deepEqual(messages.map((message) => formatMessage(message, pkg)), []);
});

test('attw finds the right types for every entry, module system and resolver', async () => {
  const attw = join(PACKAGE, 'node_modules/@arethetypeswrong/cli/dist/index.js');
  const { code, output } = await run(PACKAGE, attw, tarball.path, '--no-color', '--format', 'ascii');
  assert.equal(code, 0, output);
});

test('nothing of Node is in what browsers get', async () => {
  for (const name of await readdir(join(PACKAGE, 'dist/browser'))) {
    const text = await readFile(join(PACKAGE, 'dist/browser', name), 'utf8');
    assert.doesNotMatch(text, /(from|require\(|import\()\s*["']node:/, name);
    assert.doesNotMatch(text, /["'](worker_threads|child_process)["']/, name);
  }
});

test('the WASM modules are of the sources of today', async () => {
  const { code, output } = await run(PACKAGE, join(PACKAGE, 'scripts/build-wasm.mjs'), '--check');
  assert.equal(code, 0, output);
});

async function packedBytes(): Promise<ArrayBuffer> {
  return new Uint8Array(await readFile(tarball.path)).buffer;
}
