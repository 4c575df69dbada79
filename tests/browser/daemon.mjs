// Starts the real daemon for a test: in a folder of its own, at a port of its own, and kills it afterwards.
// The program is named by MILLPOND_BIN. A restart uses the same port, as a user's daemon would.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SPEAK = fileURLToPath(new URL("handlers/speak.mjs", import.meta.url));
const READY_MS = 30_000;

export class Daemon {
  /**
   * `token` is what the daemon asks for, if anything; `readToken` allows to look and not to change. `settings` are
   * further lines of the file, before its sections.
   */
  static async start({ token = null, readToken = null, settings = [] } = {}) {
    if (!process.env.MILLPOND_BIN) {
      throw new Error("MILLPOND_BIN: expected the path of the program, got nothing; build it and name it");
    }
    const folder = await mkdtemp(join(tmpdir(), "millpond-page-"));
    const daemon = new Daemon(folder, await freePort(), { token_file: token, read_token_file: readToken });
    await writeFile(join(folder, "millpond.toml"), daemon.settings(settings));
    for (const [name, text] of Object.entries(daemon.tokens)) {
      if (text !== null) await writeFile(join(folder, name), text + "\n", { mode: 0o600 });
    }
    await daemon.run();
    return daemon;
  }

  /** `tokens` are by the name of their setting, which is also that of their file. */
  constructor(folder, port, tokens) {
    Object.assign(this, { folder, port, tokens });
    this.address = `http://127.0.0.1:${port}`;
  }

  settings(further) {
    const lines = [
      `runtime_dir = ${JSON.stringify(join(this.folder, "run"))}`,
      "workers = 2",
      ...further,
      "[web]",
      `listen = "127.0.0.1:${this.port}"`,
      ...Object.entries(this.tokens)
        .filter(([, text]) => text !== null)
        .map(([name]) => `${name} = ${JSON.stringify(join(this.folder, name))}`),
      "[handler.speak]",
      `command = [${JSON.stringify(process.execPath)}, ${JSON.stringify(SPEAK)}]`,
      'summary = "Says a few things, then answers."',
      `example = '{"steps": 3}'`,
      "",
    ];
    return lines.join("\n");
  }

  async run() {
    const said = [];
    const config = join(this.folder, "millpond.toml");
    this.process = spawn(process.env.MILLPOND_BIN, ["serve", "--config", config], {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => said.push(text));
    }
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    let gone = false;
    this.ended.then(() => (gone = true));
    const until = Date.now() + READY_MS;
    for (;;) {
      const answer = await fetch(this.address + "/healthz").catch(() => null);
      if (answer?.ok) return;
      if (gone || Date.now() > until) throw new Error(`the daemon did not start:\n${said.join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** As a crash would: no farewell, no drain. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async stop() {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async call(path, { method = "GET", body, type = "application/json" } = {}) {
    const headers = method === "GET" ? {} : { "content-type": type };
    const { token_file: token } = this.tokens;
    if (token !== null) headers.authorization = `Bearer ${token}`;
    const response = await fetch(this.address + path, { method, headers, body });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text;
  }

  /** Submits one task and gives back what the daemon says of it. */
  async submit(request) {
    return JSON.parse(await this.call("/v1/tasks", { method: "POST", body: JSON.stringify(request) }));
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
