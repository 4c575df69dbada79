// A page of its own for each test, served from here: with cross-origin isolation or without, and with any policy for
// scripts the test wants.
//
// The built package lies below /millpond/, worker scripts of the tests below /workers/. Nothing is cached, so that two
// pages with different headers do not get each other's files.

import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('../../dist/browser/', import.meta.url));
const WORKERS = fileURLToPath(new URL('workers/', import.meta.url));
const MEDIA: Record<string, string> = { '.js': 'text/javascript', '.html': 'text/html', '.css': 'text/css' };

export interface SiteOptions {
  /** Whether pages may share memory: COOP and COEP. */
  isolated?: boolean;
  /** The content security policy. */
  policy?: string;
  /** Further files by their path; / is an empty page if nothing else is said. */
  files?: Record<string, string>;
}

export class Site {
  readonly #server: Server;

  private constructor(options: SiteOptions) {
    this.#server = createServer(async (request, response) => {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname;
      const text = await fileAt(path, options.files ?? {}).catch(() => undefined);
      const headers: Record<string, string> = { 'cache-control': 'no-store' };
      headers['content-type'] = `${MEDIA[extname(path)] ?? 'text/html'}; charset=utf-8`;
      if (options.policy !== undefined) headers['content-security-policy'] = options.policy;
      if (options.isolated) {
        headers['cross-origin-opener-policy'] = 'same-origin';
        headers['cross-origin-embedder-policy'] = 'require-corp';
        headers['cross-origin-resource-policy'] = 'same-origin';
      }
      response.writeHead(text === undefined ? 404 : 200, headers).end(text ?? 'nothing here');
    });
  }

  static async open(options: SiteOptions = {}): Promise<Site> {
    const site = new Site(options);
    await new Promise<void>((resolve) => site.#server.listen(0, '127.0.0.1', resolve));
    return site;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

async function fileAt(path: string, files: Record<string, string>): Promise<string> {
  const given = files[path];
  if (given !== undefined) return given;
  if (path === '/') return '<!doctype html><title>millpond</title><link rel="icon" href="data:,">\n';
  const [, folder, ...rest] = normalize(path).split('/');
  const roots: Record<string, string> = { millpond: DIST, workers: WORKERS };
  return readFile(join(roots[folder ?? ''] ?? '/nowhere', ...rest), 'utf8');
}
