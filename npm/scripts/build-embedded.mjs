// What a running package carries inside: the WASM modules, and the worker of a pool that was given no script.
//
// The texts of the WASM are cut into files of the same size and name for Node and for browsers, for the tarball's sake
// (see `build-chunks.mjs`). They are loaded when a pool is made, and never by a worker, which is handed the compiled
// module. The global script cannot import and would carry all of it a second time: it has no WASM, so a page with a
// script tag goes by messages and decides in JavaScript, as where a policy forbids WASM. Such pages are hardly ever
// cross-origin isolated anyway, and those that are can have modules.
//
// `src/embedded.node.ts` is the same for sources that run as they are.

const PART_LENGTH = 24_000;

/** The name under which both builds import it. */
export const EMBEDDED = './embedded.js';

function parts(wasm) {
  return Object.entries(wasm).flatMap(([name, bytes]) => {
    const text = bytes.toString('base64');
    const count = Math.ceil(text.length / PART_LENGTH);
    return Array.from({ length: count }, (_, index) => {
      const part = text.slice(index * PART_LENGTH, (index + 1) * PART_LENGTH);
      return { name, file: `wasm-${name}-${index + 1}.js`, text: part };
    });
  });
}

function functions(wasm, exported, textOf) {
  return Object.keys(wasm).map((name) => {
    const own = parts(wasm).filter((part) => part.name === name);
    return exported(`${name}Wasm`, `decode(${own.map(textOf).join(' + ') || "''"})`);
  }).join('\n');
}

/** CommonJS, beside which the default worker has its file; not so if a bundler made ESM of it, without `__dirname`. */
export function nodeFiles(wasm, worker) {
  const exported = (name, value) => `exports.${name} = () => ${value};`;
  const files = Object.fromEntries(parts(wasm).map(({ file, text }) => [file, `exports.text = '${text}';\n`]));
  files['embedded.js'] = `'use strict';
const decode = (text) => new Uint8Array(Buffer.from(text, 'base64'));
${functions(wasm, exported, ({ file }) => `require('./${file}').text`)}
exports.defaultWorkerPath = () => (typeof __dirname === 'string' ? __dirname + '/default-worker.js' : undefined);
exports.defaultWorkerSource = () => ${JSON.stringify(worker)};
`;
  return files;
}

export function browserFiles(wasm, worker) {
  const files = Object.fromEntries(parts(wasm).map(({ file, text }) => [file, `export const text = '${text}';\n`]));
  const name = (file) => file.replaceAll(/-(\w)|\.js$/g, (_, letter = '') => letter.toUpperCase());
  const imports = parts(wasm).map(({ file }) => `import { text as ${name(file)} } from './${file}';`);
  files['embedded.js'] = `${imports.join('\n')}\n${browserModule(wasm, worker, ({ file }) => name(file))}`;
  return files;
}

const ABSENT = 'WASM: expected millpond to be imported as a module, got the global script, which has none';

/** What takes the place of sources in the global script, by the ends of their paths. */
export function globalTexts(worker) {
  const fails = (name) => `export const ${name} = () => { throw new Error('${ABSENT}'); };\n`;
  return {
    '/embedded.node.ts': browserModule({}, worker, undefined) + fails('policyWasm') + fails('ringWasm'),
    '/brain/load.ts': fails('loadBrain'),
    '/links/shared-link.ts': `export const sharedLinkPossible = () => true;\n${fails('openSharedLink')}`,
    '/worker/shared-link.ts': fails('joinSharedLink'),
  };
}

function browserModule(wasm, worker, textOf) {
  const exported = (name, value) => `export const ${name} = () => ${value};`;
  return `const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
${functions(wasm, exported, textOf)}
export const defaultWorkerPath = () => undefined;
export const defaultWorkerSource = () => ${JSON.stringify(worker)};
`;
}
