// The options of `connect`: what they are, what they are when nothing is said, and what is wrong with others.
//
// A mistake is found here and not at the first request, and the text says which option it is. The token is checked for
// what a header cannot carry, and never shown.

import type { DoorSettings } from './door.ts';

export interface ConnectOptions {
  /** Where the daemon listens, with the path in front of it if a proxy puts one there. */
  url?: string | URL;
  /** As `web.token_file` of the daemon has it. */
  token?: string;
  /** Further headers of every request. */
  headers?: Record<string, string>;
  /** How often a request is tried and how long that may take in all, or false for once. */
  retry?: false | { tries?: number; withinMs?: number };
  /** How long one try may take, beyond the time it asks the daemon to wait. */
  requestTimeoutMs?: number;
  /** The longest answer that is read. */
  answerBytesMax?: number;
  /** The longest event or line of a stream that is read. */
  lineBytesMax?: number;
  /** Another `fetch`, for example one that goes through a proxy. */
  fetch?: typeof globalThis.fetch;
}

export const DEFAULT_URL = 'http://127.0.0.1:7117';
const RETRY = { tries: 8, withinMs: 10_000 };
const KNOWN: ReadonlySet<string> = new Set<keyof ConnectOptions>([
  'url',
  'token',
  'headers',
  'retry',
  'requestTimeoutMs',
  'answerBytesMax',
  'lineBytesMax',
  'fetch',
]);

export function settingsFrom(options: ConnectOptions): DoorSettings {
  if (typeof options !== 'object' || options === null) throw wrong('options', 'an object or an address', options);
  for (const name of Object.keys(options)) {
    if (!KNOWN.has(name)) throw wrong('options', `only ${[...KNOWN].join(', ')}`, name);
  }
  const retry = options.retry === false ? { tries: 1 } : options.retry;
  return {
    base: baseFrom(options.url ?? DEFAULT_URL),
    headers: { ...options.headers, ...authorization(options.token) },
    fetch: fetchFrom(options.fetch),
    retry: {
      tries: whole('retry.tries', retry?.tries ?? RETRY.tries, 1, 100),
      withinMs: whole('retry.withinMs', retry?.withinMs ?? RETRY.withinMs, 0, 3_600_000),
    },
    requestTimeoutMs: whole('requestTimeoutMs', options.requestTimeoutMs ?? 30_000, 1, 280_000),
    answerBytesMax: whole('answerBytesMax', options.answerBytesMax ?? 64 * 1024 * 1024, 1024, 2 ** 30),
    lineBytesMax: whole('lineBytesMax', options.lineBytesMax ?? 16 * 1024 * 1024, 1024, 2 ** 29),
  };
}

function baseFrom(url: string | URL): URL {
  let base: URL;
  try {
    base = new URL(url);
  } catch {
    throw wrong('url', 'an address like http://127.0.0.1:7117', url);
  }
  if (base.protocol !== 'http:' && base.protocol !== 'https:') throw wrong('url', 'http or https', base.protocol);
  if (base.username !== '' || base.password !== '') throw wrong('url', 'no user in it; use token', base.host);
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  base.search = '';
  base.hash = '';
  return base;
}

function authorization(token: string | undefined): Record<string, string> {
  if (token === undefined) return {};
  const isToken = typeof token === 'string' && /^[\x21-\x7e]{1,4096}$/.test(token);
  if (!isToken) throw new TypeError('token: expected 1 to 4096 printable characters and no space, got something else');
  return { authorization: `Bearer ${token}` };
}

function fetchFrom(given: typeof globalThis.fetch | undefined): typeof globalThis.fetch {
  const chosen: unknown = given ?? globalThis.fetch;
  if (typeof chosen !== 'function') throw wrong('fetch', 'a function', chosen);
  // A test or a user may replace the global one later; ours is looked up at each call.
  return given ?? ((input, init) => globalThis.fetch(input, init));
}

function whole(name: string, value: unknown, min: number, max: number): number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
  throw wrong(name, `a whole number from ${min} to ${max}`, value);
}

function wrong(name: string, expected: string, got: unknown): TypeError {
  const shown = typeof got === 'string' ? JSON.stringify(got) : String(got);
  return new TypeError(`${name}: expected ${expected}, got ${shown}`);
}
