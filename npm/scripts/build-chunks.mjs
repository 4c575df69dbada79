// How modules become files: into which files the code is cut, what these are called, and how ESM becomes CommonJS.
//
// Files are cut where a part of the code is needed without the rest (a worker needs no pool), and once more so that
// none is much larger than 30 KB. That is for the tarball: npm packs files of the same name next to each other, and
// gzip sees 32 KB back, so the build for browsers costs little beside the one for Node if their files are alike. For
// the same reason names are not shortened, which would come out differently in each; stack traces are the better for
// it.
//
// CommonJS is made from the finished ESM file by file. Chunks never need each other in a circle, and nothing that is
// exported changes afterwards, so `const { a } = require(...)` says the same as `import { a }`, and is as fast as a
// constant, which a getter would not be. Node's own modules are asked for by `process.getBuiltinModule`, because
// bundlers that make ESM of CommonJS have no `require` to leave in it.
//
// Not here: what is built and where it goes (`build.mjs`).

import { basename } from 'node:path';
import * as esbuild from 'esbuild';

export const TARGET = 'es2022';

/** Sources that are given a file of their own, with what only they need. Nobody imports these files by name. */
export const CUTS = ['features.ts', 'options.ts', 'metrics.ts', 'brain/load.ts', 'workers/handle.ts', 'links/open.ts'];

const CUT = 'cut-';
const COMPACT = { target: TARGET, minifyWhitespace: true, minifySyntax: true, lineLimit: 120, legalComments: 'none' };

/** Bundles the entries into shared files, and gives them back by name: { name: { text, exports, inputs } }. */
export async function bundle(entries, options) {
  const cuts = CUTS.map((path) => ({ in: `${options.source}/${path}`, out: `${CUT}${basename(path, '.ts')}` }));
  const { source: _, ...given } = options;
  const built = await esbuild.build({
    ...given,
    entryPoints: [...entries, ...cuts],
    bundle: true,
    write: false,
    metafile: true,
    splitting: true,
    format: 'esm',
    target: TARGET,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'warning',
    outdir: '/dist',
    chunkNames: 'chunk-[hash]',
  });
  const outputs = Object.entries(built.metafile.outputs).map(([path, output]) => [basename(path), output]);
  const texts = new Map(built.outputFiles.map((file) => [basename(file.path), file.text]));
  const names = new Map(outputs.map(([name, output]) => [name, name.startsWith('chunk-') ? chunkName(output) : name]));
  if (new Set(names.values()).size < names.size) {
    throw new Error(`expected different names for all files, got ${[...names.values()].join(', ')}`);
  }
  const files = {};
  for (const [name, output] of outputs) {
    if (name.startsWith(CUT)) continue;
    const text = texts.get(name).replaceAll(/chunk-[A-Z0-9]{8}\.js/g, (chunk) => names.get(chunk));
    files[names.get(name)] = { text, exports: output.exports, inputs: Object.keys(output.inputs) };
  }
  return files;
}

/** A chunk is called after the largest source in it that all platforms have. */
function chunkName(output) {
  const sources = Object.entries(output.inputs).filter(([path]) => !/\.(node|browser)\.ts$/.test(path));
  const [largest] = (sources.length > 0 ? sources : Object.entries(output.inputs)).sort(
    ([, a], [, b]) => b.bytesInOutput - a.bytesInOutput,
  );
  const [path] = largest;
  const folder = path.split('/').at(-2);
  return `${folder === 'src' ? '' : `${folder}-`}${basename(path, '.ts')}.part.js`;
}

/** The text without comments and indentation. */
export async function compact(text, format) {
  return (await esbuild.transform(text, { ...COMPACT, format })).code;
}

/** An ESM file of esbuild as a CommonJS file with the same imports. */
export function toCommonJs(name, text) {
  if (text.includes('import.meta')) throw new Error(`${name}: expected no import.meta, which CommonJS does not have`);
  const imports = /^import (?:(\* as )?([\w$]+) from |\{([^}]*)\} from )?"([^"]+)";$/gm;
  const body = text
    .replaceAll(imports, (_, star, whole, names, path) => {
      const isOwn = path.startsWith('node:');
      const required = `${isOwn ? 'process.getBuiltinModule' : 'require'}(${JSON.stringify(path)})`;
      if (names !== undefined) return `const {${names.replaceAll(' as ', ': ')}} = ${required};`;
      if (whole === undefined) return `${required};`;
      return `const ${whole} = ${required}${star || isOwn ? '' : '.default'};`;
    })
    .replaceAll(/^export \{([^}]*)\};$/gm, (_, names) => {
      const pairs = names.split(',').map((pair) => pair.trim().split(' as '));
      return pairs.map(([local, exported = local]) => `exports.${exported} = ${local};`).join('\n');
    });
  const left = /^(import|export)\b.*/m.exec(body);
  if (left !== null) throw new Error(`${name}: expected imports and exports as esbuild writes them, got ${left[0]}`);
  return `"use strict";\nObject.defineProperty(exports, "__esModule", { value: true });\n${body}`;
}

/** What lets ESM in Node use a CommonJS file: one copy of every class, whichever way it was loaded. */
export function wrapper(name, exports) {
  const named = exports.filter((one) => one !== 'default').sort().join(', ');
  const whole = exports.includes('default') ? `export default { ${named} };\n` : '';
  return `import { ${named} } from './cjs/${name}';\nexport { ${named} };\n${whole}`;
}
