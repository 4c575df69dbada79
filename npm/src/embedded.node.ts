// What the package carries inside itself: the two WASM modules, and the worker of a pool that was given no script.
//
// These are the sources' own answers, from the files of the checkout, so that tests can import src/ as it is. The
// build puts another module in this place, with the bytes in it (`scripts/build.mjs`): a bundler may move the code
// anywhere, and a browser could only fetch, which takes a turn of the event loop that `pool()` does not have.
//
// Browsers get the same module by the same name; there is no twin.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The module of the policy brain. */
export function policyWasm(): Uint8Array<ArrayBuffer> {
  return bytesOf('../wasm/policy.wasm');
}

/** The module of the shared-memory ring. */
export function ringWasm(): Uint8Array<ArrayBuffer> {
  return bytesOf('../wasm/ring.wasm');
}

/** The file of the default worker, for worker threads and child processes; undefined in browsers and in bundles. */
export function defaultWorkerPath(): string | undefined {
  return fileURLToPath(new URL('../dist/cjs/default-worker.js', import.meta.url));
}

/**
 * The default worker as a text: a classic script for a Blob in browsers; CommonJS for Node, where a bundler may have
 * left the file behind, to be run by `new Worker(text, { eval: true })`.
 */
export function defaultWorkerSource(): string {
  return readFileSync(new URL('../dist/cjs/default-worker.js', import.meta.url), 'utf8');
}

function bytesOf(path: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(new URL(path, import.meta.url)));
}
