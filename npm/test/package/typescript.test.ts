// The types as a user's compiler sees them: right programs compile under every resolver, wrong ones do not.
//
// The programs are in `programs/`. In the wrong one every mistake is marked as expected, so that a mistake which the
// types let pass is an error of its own. No types of Node are there: a page in a browser has none either.

import assert from 'node:assert/strict';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PACKAGE, run, Tarball, type Project } from './tarball.ts';

const PROGRAMS = fileURLToPath(new URL('programs/', import.meta.url));
const TSC = join(PACKAGE, 'node_modules/typescript/bin/tsc');

let tarball: Tarball;
let project: Project;
before(async () => {
  tarball = await Tarball.pack();
  project = await tarball.install();
  for (const name of ['right.ts', 'wrong.ts', 'client.ts', 'dropin.ts']) {
    // The ending says which module system a file is in.
    for (const ending of ['.ts', '.mts', '.cts']) {
      await copyFile(join(PROGRAMS, name), join(project.folder, name.replace('.ts', ending)));
    }
  }
});
after(() => tarball.remove());

const RESOLVERS = {
  // Once with the declarations themselves checked, which takes long because those of the DOM are too.
  'nodenext, ESM': { module: 'nodenext', endings: '.mts', skipLibCheck: false },
  'nodenext, CommonJS': { module: 'nodenext', endings: '.cts' },
  'a bundler': { module: 'esnext', moduleResolution: 'bundler', endings: '.ts' },
};

for (const [name, { endings, ...resolver }] of Object.entries(RESOLVERS)) {
  test(`programs compile, and wrong ones do not, under ${name}`, async () => {
    const options = {
      skipLibCheck: true,
      ...resolver,
      target: 'es2022',
      lib: ['es2022', 'dom', 'esnext.disposable'],
      strict: true,
      exactOptionalPropertyTypes: true,
      esModuleInterop: true,
      noEmit: true,
      types: [],
    };
    const files = ['right', 'wrong', 'client', 'dropin'].map((file) => file + endings);
    const config = await project.write('tsconfig.json', JSON.stringify({ compilerOptions: options, files }));
    const { code, output } = await run(project.folder, TSC, '--pretty', 'false', '-p', config);
    assert.deepEqual({ code, output }, { code: 0, output: '' });
  });
}

test('a compiler that is told nothing finds the types by main', async () => {
  const options = { module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0', types: [] };
  const compilerOptions = { ...options, target: 'es2022', lib: ['es2022', 'dom', 'esnext.disposable'], noEmit: true };
  const strict = { strict: true, esModuleInterop: true, skipLibCheck: true };
  const config = { compilerOptions: { ...compilerOptions, ...strict }, files: ['right.ts', 'client.ts', 'dropin.ts'] };
  const path = await project.write('tsconfig.json', JSON.stringify(config));
  const { code, output } = await run(project.folder, TSC, '--pretty', 'false', '-p', path);
  assert.deepEqual({ code, output }, { code: 0, output: '' });
});
