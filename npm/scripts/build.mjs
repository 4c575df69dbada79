// Builds dist/ from src/: CommonJS for Node with ESM around it, modules and a global script for browsers, and types.
//
//   dist/*.js            ESM for Node: wrappers, so that `import` and `require` share one copy of every class
//   dist/cjs/            CommonJS for Node, and its types
//   dist/browser/        ESM for browsers and bundlers; millpond.global.js for a script tag or importScripts
//   dist/types/          types for ESM
//
// Wherever a pair `x.node.ts` / `x.browser.ts` exists, sources import the first and the browser build takes the second.
// Everything is written beside dist/ and moved there in one step: a test that runs meanwhile sees the old or the new.
//
// Not here: how code is cut into files (`build-chunks.mjs`), what is embedded (`build-embedded.mjs`), the WASM itself
// (`build-wasm.mjs`).
//
// node scripts/build.mjs [--no-types]

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import { bundle, compact, TARGET, toCommonJs, wrapper } from './build-chunks.mjs';
import { browserFiles, EMBEDDED, globalTexts, nodeFiles } from './build-embedded.mjs';

const PACKAGE = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const SOURCE = join(PACKAGE, 'src');
const WASM = ['policy', 'ring'];
/** The name of an export, and the source it is built from. */
const ENTRIES = {
  index: 'index.ts',
  worker: 'worker/index.ts',
  workerpool: 'workerpool.ts',
  client: 'client/index.ts',
};
/** The worker of a pool that was given no script. */
const DEFAULT_WORKER = 'worker/default.ts';
const EMBEDDED_SOURCE = /\/embedded\.node\.ts$/;

const withTypes = !process.argv.includes('--no-types');
const scratch = join(PACKAGE, `node_modules/.cache/millpond-build-${process.pid}`);
try {
  await build(join(scratch, 'dist'));
} finally {
  await rm(scratch, { recursive: true, force: true });
}

async function build(place) {
  const wasm = Object.fromEntries(await Promise.all(WASM.map(readWasm)));
  await writeNode(place, wasm);
  await writeBrowser(join(place, 'browser'), wasm);
  const typed = withTypes ? await writeTypes(place) : await keepTypes(place);
  await replace(place, join(PACKAGE, 'dist'));
  if (!typed) {
    console.error('dist/ has the JavaScript, but its types have the errors above: mend them before you pack');
    process.exitCode = 1;
  }
}

async function readWasm(name) {
  const path = join(PACKAGE, 'wasm', `${name}.wasm`);
  if (existsSync(path)) return [name, await readFile(path)];
  throw new Error(`wasm/${name}.wasm: expected the built module, found none; make it with: npm run build:wasm`);
}

async function writeNode(place, wasm) {
  const common = join(place, 'cjs');
  const worker = await bundleWorker('node', 'cjs', [embedNothing()]);
  const entries = [...entryPoints(), { in: join(SOURCE, DEFAULT_WORKER), out: 'default-worker' }];
  const files = await bundle(entries, { source: SOURCE, platform: 'node', plugins: [embedBeside()] });
  for (const [name, { text, exports }] of Object.entries(files)) {
    await write(join(common, name), await compact(toCommonJs(name, text), undefined));
    if (name.replace('.js', '') in ENTRIES) await write(join(place, name), wrapper(name, exports));
  }
  await writeAll(common, nodeFiles(wasm, worker));
  await write(join(common, 'package.json'), '{ "type": "commonjs", "sideEffects": false }\n');
}

async function writeBrowser(place, wasm) {
  const worker = await bundleWorker('browser', 'iife', [embedNothing(), browserTwins()]);
  const plugins = [embedBeside(), browserTwins()];
  const files = await bundle(entryPoints(), { source: SOURCE, platform: 'browser', plugins });
  for (const [name, { text }] of Object.entries(files)) await write(join(place, name), await compact(text, 'esm'));
  await writeAll(place, browserFiles(wasm, worker));
  await write(join(place, 'millpond.global.js'), await bundleScript());
}

/** Everything in one classic script, for a script tag or importScripts. Its own workers need no rings. */
async function bundleScript() {
  const { '/worker/shared-link.ts': link, ...texts } = globalTexts('');
  const worker = await bundleWorker('browser', 'iife', [instead({ '/worker/shared-link.ts': link }), browserTwins()]);
  texts['/embedded.node.ts'] = globalTexts(worker)['/embedded.node.ts'];
  const script = await esbuild.build({
    entryPoints: [join(SOURCE, ENTRIES.index)],
    bundle: true,
    write: false,
    platform: 'browser',
    format: 'iife',
    globalName: 'millpond',
    minify: true,
    target: TARGET,
    charset: 'utf8',
    logLevel: 'warning',
    plugins: [instead(texts), browserTwins()],
  });
  return script.outputFiles[0].text;
}

/** One file without imports, as a text: what a Blob or `eval` can run. */
async function bundleWorker(platform, format, plugins) {
  const entryPoints = [join(SOURCE, DEFAULT_WORKER)];
  const options = { bundle: true, write: false, minify: true, target: TARGET, charset: 'utf8', logLevel: 'warning' };
  const built = await esbuild.build({ ...options, entryPoints, platform, format, plugins });
  return built.outputFiles[0].text;
}

function entryPoints() {
  return Object.entries(ENTRIES).map(([out, path]) => ({ in: join(SOURCE, path), out }));
}

/** A worker is given its WASM by the pool. Carrying its own would double the package and slow every start. */
function embedNothing() {
  return resolving('embedded', EMBEDDED_SOURCE, ({ importer }) => {
    const text = `expected a worker to need nothing of src/embedded, got an import by ${relative(PACKAGE, importer)}`;
    return { errors: [{ text: `${text}; keep what both sides need in a file of its own` }] };
  });
}

/** Leaves the import of what is embedded as it is, and points it to its file. */
function embedBeside() {
  return resolving('embedded', EMBEDDED_SOURCE, () => ({ path: EMBEDDED, external: true, sideEffects: false }));
}

/** Puts texts in the place of the sources whose paths end so. */
function instead(texts) {
  const setup = (build) => build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
    const end = Object.keys(texts).find((one) => path.endsWith(one));
    return end === undefined ? undefined : { contents: texts[end], loader: 'js' };
  });
  return { name: 'instead', setup };
}

/** Takes `x.browser.ts` for every import of `x.node.ts`; one without a twin must not reach a browser. */
function browserTwins() {
  return resolving('browser-twins', /\.node\.ts$/, ({ path, resolveDir }) => {
    if (EMBEDDED_SOURCE.test(path)) return undefined;
    const twin = resolve(resolveDir, path.replace(/\.node\.ts$/, '.browser.ts'));
    if (existsSync(twin)) return { path: twin };
    return { errors: [{ text: `expected ${relative(PACKAGE, twin)} beside ${path}, found none` }] };
  });
}

function resolving(name, filter, answer) {
  return { name, setup: (build) => build.onResolve({ filter }, answer) };
}

/** Types as tsc writes them, once for each module system: the package.json above a `.d.ts` says which it belongs to. */
async function writeTypes(place) {
  const emitted = join(scratch, 'types');
  const tsc = join(PACKAGE, 'node_modules/typescript/bin/tsc');
  const parameters = [tsc, '-p', join(PACKAGE, 'tsconfig.types.json'), '--outDir', emitted];
  const run = spawnSync(process.execPath, parameters, { cwd: PACKAGE, stdio: 'inherit' });
  for (const [name, text] of await reachable(emitted)) {
    await write(join(place, 'types', name), text);
    await write(join(place, 'cjs/types', name), text);
  }
  return run.status === 0;
}

/** The declarations that the entries lead to; the rest says nothing to a user. */
async function reachable(folder) {
  const found = new Map();
  const left = Object.values(ENTRIES).map((path) => path.replace(/\.ts$/, '.d.ts'));
  while (left.length > 0) {
    const name = left.pop();
    if (found.has(name) || !existsSync(join(folder, name))) continue;
    const text = forUsers(await readFile(join(folder, name), 'utf8'));
    found.set(name, text);
    const named = text.matchAll(/['"](\.{1,2}\/[^'"\n]+)\.[jt]s['"]/g);
    for (const [, path] of named) left.push(join(dirname(name), `${path}.d.ts`));
  }
  return found;
}

/** What is private, or promised to our own code, is no concern of users, nor what was imported to say so. */
function forUsers(declarations) {
  const text = declarations
    .replaceAll(/^ +private (?!constructor)[^\n]*;\n/gm, '')
    .replaceAll(/^((?:export )?declare (?:abstract )?class [^{\n]*?) implements [^{\n]*\{/gm, '$1 {')
    .replaceAll(/(['"]\.{1,2}\/[^'"\n]+)\.ts(['"])/g, '$1.js$2');
  return text.replaceAll(/^import (type )?\{([^}]*)\}( from .*\n)/gm, (_, type = '', names, from) => {
    const local = (name) => name.replace(/^\s*type /, '').split(' as ').at(-1).trim();
    const uses = (name) => text.split(new RegExp(`\\b${local(name)}\\b`)).length > 2;
    const used = names.split(',').filter((name) => name.trim() !== '' && uses(name));
    return used.length === 0 ? '' : `import ${type}{${used.join(',')}}${from}`;
  });
}

/** Without new types the old ones serve on. */
async function keepTypes(place) {
  for (const folder of ['types', 'cjs/types']) {
    const old = join(PACKAGE, 'dist', folder);
    if (existsSync(old)) await cp(old, join(place, folder), { recursive: true });
  }
  return true;
}

async function writeAll(place, files) {
  for (const [name, text] of Object.entries(files)) await write(join(place, name), text);
}

async function write(path, content) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}

async function replace(fresh, place) {
  const old = join(scratch, 'old');
  await rename(place, old).catch((error) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(fresh, place);
}
