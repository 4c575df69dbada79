// The package as npm would publish it, and an empty project that has installed it: what a user gets, and nothing else.
//
// Tests that import the sources or the checkout cannot miss a file that was left out of the tarball. These can.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PACKAGE = fileURLToPath(new URL('../../', import.meta.url));
/** Long, since one of the programs builds Rust's own library; what hangs is ended all the same. */
const LIMIT_MS = 480_000;

export interface Ran {
  code: number;
  output: string;
}

/** Runs a program of Node to its end. */
export function run(folder: string, script: string, ...parameters: string[]): Promise<Ran> {
  return execute(folder, process.execPath, [script, ...parameters]);
}

function execute(folder: string, program: string, parameters: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd: folder, timeout: LIMIT_MS, maxBuffer: 16 * 1024 * 1024, env: environment() };
    execFile(program, parameters, options, (error, out, wrong) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1) || -1, output: `${out}${wrong}` });
    });
  });
}

/** Ours says which loader the tests themselves run under; a user's program has none. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...rest } = process.env;
  return rest;
}

/** The tarball, and the list of what is in it. */
export class Tarball {
  readonly folder: string;
  readonly path: string;
  readonly bytes: number;
  readonly files: readonly string[];

  private constructor(folder: string, packed: { filename: string; size: number; files: { path: string }[] }) {
    this.folder = folder;
    this.path = join(folder, packed.filename);
    this.bytes = packed.size;
    this.files = packed.files.map((file) => file.path);
  }

  static async pack(): Promise<Tarball> {
    const folder = await mkdtemp(join(tmpdir(), 'millpond-pack-'));
    // The tests run after the build; packing would build once more.
    const parameters = ['pack', '--ignore-scripts', '--json', '--silent', '--pack-destination', folder];
    const { code, output } = await execute(PACKAGE, 'npm', parameters);
    if (code !== 0) throw new Error(`npm pack failed:\n${output}`);
    return new Tarball(folder, JSON.parse(output.slice(output.indexOf('[')))[0]);
  }

  /** An empty project with the tarball as its only dependency. */
  async install(manifest: object = {}): Promise<Project> {
    const folder = await mkdtemp(join(this.folder, 'project-'));
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'try', private: true, ...manifest }));
    const parameters = ['install', '--offline', '--no-audit', '--no-fund', '--no-package-lock', '--silent', this.path];
    const { code, output } = await execute(folder, 'npm', parameters);
    if (code !== 0) throw new Error(`npm install failed:\n${output}`);
    return new Project(folder);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

export class Project {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  async write(name: string, text: string): Promise<string> {
    const path = join(this.folder, name);
    await writeFile(path, text);
    return path;
  }

  read(name: string): Promise<string> {
    return readFile(join(this.folder, name), 'utf8');
  }

  /** Writes a program and runs it. */
  async program(name: string, text: string): Promise<Ran> {
    return run(this.folder, await this.write(name, text));
  }
}
