// Serves the page with the two headers that let it share memory with its workers; without them it works by messages.
// Run: node serve.mjs [--plain], and open the address it prints

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(dirname(createRequire(import.meta.url).resolve('millpond/package.json')), 'dist/browser');
const media = { '.html': 'text/html', '.js': 'text/javascript' };
const isolation = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
};

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  const name = pathname === '/' ? 'index.html' : basename(pathname);
  const folder = pathname.startsWith('/millpond/') ? dist : here;
  const headers = process.argv.includes('--plain') ? {} : { ...isolation };
  try {
    const text = await readFile(join(folder, name));
    response.writeHead(200, { ...headers, 'content-type': media[extname(name)] ?? 'text/plain' }).end(text);
  } catch {
    response.writeHead(404).end();
  }
});
server.listen(process.env.MILLPOND_EXAMPLE_QUICK ? 0 : 8080, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
