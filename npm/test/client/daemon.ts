// Starts the real daemon for a test, in a folder and at a port of its own, and ends it afterwards.
//
// The program is named by MILLPOND_BIN; without, it is where cargo puts it. A daemon that is started again keeps its
// folder and its port, as a user's would.

import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SPEAK = fileURLToPath(new URL('speak.mjs', import.meta.url));
const BUILT = fileURLToPath(new URL('../../../target/debug/millpond', import.meta.url));
const READY_MS = 30_000;

export interface DaemonOptions {
  token?: string;
  /** Lines of the section `web`. */
  web?: string[];
  /** Lines before the sections. */
  settings?: string[];
}

export class Daemon {
  readonly url: string;
  readonly port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(options: DaemonOptions = {}): Promise<Daemon> {
    const daemon = new Daemon(await mkdtemp(join(tmpdir(), 'millpond-client-')), await freePort());
    await daemon.#configure(options);
    await daemon.run();
    return daemon;
  }

  async #configure({ token, web = [], settings = [] }: DaemonOptions): Promise<void> {
    const place = (name: string): string => JSON.stringify(join(this.#folder, name));
    if (token !== undefined) await writeFile(join(this.#folder, 'token'), `${token}\n`, { mode: 0o600 });
    const text = [
      `runtime_dir = ${place('run')}`,
      'workers = 2',
      ...settings,
      '[web]',
      `listen = "127.0.0.1:${this.port}"`,
      ...(token === undefined ? [] : [`token_file = ${place('token')}`]),
      ...web,
      '[handler.speak]',
      `command = [${JSON.stringify(process.execPath)}, ${JSON.stringify(SPEAK)}]`,
      '',
    ];
    await writeFile(join(this.#folder, 'millpond.toml'), text.join('\n'));
  }

  async run(): Promise<void> {
    const said: string[] = [];
    const child = spawn(program(), ['serve', '--config', join(this.#folder, 'millpond.toml')], {
      cwd: this.#folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => said.push(text));
    const until = Date.now() + READY_MS;
    for (;;) {
      const answer = await fetch(`${this.url}/healthz`).catch(() => null);
      if (answer?.ok) return;
      if (child.exitCode !== null || Date.now() > until) throw new Error(`the daemon did not start:\n${said.join('')}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** As a crash would: no farewell, no drain. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function program(): string {
  const chosen = process.env['MILLPOND_BIN'] ?? BUILT;
  if (existsSync(chosen)) return chosen;
  throw new Error(`${chosen}: expected the daemon, found nothing; build it with: cargo build -p millpond-cli`);
}

/** A port that was free a moment ago. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
