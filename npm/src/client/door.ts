// One request to the daemon: sent, watched over, sent again where that does no harm, and its answer read within limits.
//
// Sent again is what the daemon refused before it took anything in (503, after the time it names), and, if the request
// may be repeated by its nature, what got no answer. The number of tries and the time they take together are limited.
// Everything else is the caller's to decide, who knows what the task does.
//
// Not here: which requests there are (`client.ts`), streams (`follow.ts`, `bulk.ts`).

import { neverRan } from './codes.ts';
import { ClientError, ConnectionError, DaemonError, fromProblem } from './errors.ts';
import type { Problem } from './shapes.ts';

const PROBLEM_BYTES_MAX = 64 * 1024;
const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 2_000;

export interface DoorSettings {
  /** Ends with a slash. */
  base: URL;
  headers: Record<string, string>;
  fetch: typeof globalThis.fetch;
  retry: { tries: number; withinMs: number };
  requestTimeoutMs: number;
  answerBytesMax: number;
  lineBytesMax: number;
}

export interface Ask {
  method?: 'GET' | 'POST' | 'DELETE';
  /** Without a slash in front. */
  path: string;
  body?: string;
  contentType?: string;
  accept?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** How long one try may take until its answer has been read. */
  timeoutMs?: number;
  /** Whether it may be sent again when nobody knows what became of it. GET may always. */
  isRepeatable?: boolean;
}

export class Door {
  readonly settings: DoorSettings;

  constructor(settings: DoorSettings) {
    this.settings = settings;
  }

  /** The answer as JSON. */
  async json<T>(ask: Ask): Promise<T> {
    const text = await this.text({ accept: 'application/json', ...ask });
    try {
      return JSON.parse(text) as T;
    } catch (error) {
      const shown = JSON.stringify(text.slice(0, 80));
      const message = `${ask.path}: expected JSON, got ${shown}; is this a millpond daemon?`;
      throw new ConnectionError('unexpected-answer', message, { cause: error });
    }
  }

  /** The answer as a text. */
  text(ask: Ask): Promise<string> {
    return this.#repeat(ask, async () => {
      const watch = new Watch(ask.signal, ask.timeoutMs ?? this.settings.requestTimeoutMs, ask.path);
      try {
        return await readText(await this.#send(ask, watch.signal), this.settings.answerBytesMax);
      } catch (error) {
        throw watch.reasonFor(error);
      } finally {
        watch.end();
      }
    });
  }

  /** An answer whose body is still to be read. The caller's watch goes on until that is done. */
  open(ask: Omit<Ask, 'signal' | 'timeoutMs'>, watch: Watch): Promise<Response> {
    return this.#repeat({ ...ask, signal: watch.signal }, () => this.#send(ask, watch.signal));
  }

  async #send(ask: Ask, signal: AbortSignal): Promise<Response> {
    const { base, fetch } = this.settings;
    const headers: Record<string, string> = { ...this.settings.headers, ...ask.headers };
    if (ask.accept !== undefined) headers['accept'] = ask.accept;
    if (ask.body !== undefined) headers['content-type'] = ask.contentType ?? 'application/json';
    const url = new URL(ask.path, base);
    const init: RequestInit = { method: ask.method ?? 'GET', headers, body: ask.body, signal, redirect: 'error' };
    let response: Response;
    try {
      // Called without `this`: browsers refuse a fetch that belongs to another object.
      response = await fetch(url.href, { ...init, cache: 'no-store' });
    } catch (error) {
      throw signal.aborted ? error : unreachable(url, error);
    }
    if (response.ok) return response;
    throw await refusal(response);
  }

  /** Tries until there is an answer, or nothing more may be tried. */
  async #repeat<T>(ask: Ask, once: () => Promise<T>): Promise<T> {
    const { tries, withinMs } = this.settings.retry;
    const until = Date.now() + withinMs;
    for (let tried = 1; ; tried += 1) {
      try {
        return await once();
      } catch (error) {
        const wait = tried < tries ? waitBefore(error, ask, tried) : undefined;
        if (wait === undefined || Date.now() + wait > until) throw error;
        await pause(wait, ask.signal);
      }
    }
  }
}

/** How long to wait before the next try; undefined if there should be none. */
function waitBefore(error: unknown, ask: Ask, tried: number): number | undefined {
  const isRepeatable = ask.isRepeatable ?? (ask.method ?? 'GET') === 'GET';
  const backoff = Math.min(BACKOFF_MS_MIN * 2 ** (tried - 1), BACKOFF_MS_MAX);
  // Spread, so that all who were sent away together do not come again together.
  if (error instanceof DaemonError) {
    const mayHelp = neverRan(error.status, error.code) || (error.status === 503 && isRepeatable);
    return mayHelp ? (error.retryAfterMs ?? backoff) * (1 + Math.random() / 4) : undefined;
  }
  const noAnswer = error instanceof ConnectionError && error.code === 'unreachable';
  return noAnswer && isRepeatable ? backoff * (0.5 + Math.random() / 2) : undefined;
}

/** Ends a request when its signal says so or its time is over, and tells afterwards which it was. */
export class Watch {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #what: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = (): void => this.#controller.abort(this.#outer?.reason);

  constructor(outer: AbortSignal | undefined, timeoutMs: number, what: string) {
    this.#outer = outer;
    this.#what = what;
    outer?.throwIfAborted();
    outer?.addEventListener('abort', this.#abort, { once: true });
    this.hurry(timeoutMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** From now on it may take so long. */
  hurry(timeoutMs: number): void {
    clearTimeout(this.#timer);
    const message = `${this.#what}: expected an answer within ${timeoutMs} ms, got none`;
    const late = (): void => this.#controller.abort(new ConnectionError('timed-out', message));
    this.#timer = setTimeout(late, timeoutMs);
  }

  /** It may take as long as it likes; the outer signal still counts. */
  noMoreHurry(): void {
    clearTimeout(this.#timer);
  }

  /** Nothing is watched any more. */
  end(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#abort);
  }

  /** What to throw for an error that may only be the echo of our own abort. */
  reasonFor(error: unknown): unknown {
    return this.#controller.signal.aborted ? this.#controller.signal.reason : asClientError(error, this.#what);
  }
}

/** Waits, unless the signal says otherwise. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

function unreachable(url: URL, cause: unknown): ConnectionError {
  const why = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : String(cause);
  return new ConnectionError('unreachable', `${url.origin}: no answer: ${why}; is the daemon running?`, { cause });
}

/** A body that breaks while it is read is as good as no answer. */
function asClientError(error: unknown, what: string): unknown {
  if (error instanceof ClientError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new ConnectionError('unreachable', `${what}: the answer broke off: ${why}`, { cause: error });
}

async function refusal(response: Response): Promise<ClientError> {
  const text = await readText(response, PROBLEM_BYTES_MAX).catch(() => '');
  const problem = parseProblem(text);
  if (problem === undefined) {
    const shown = JSON.stringify(text.slice(0, 80));
    const message = `expected an answer of a millpond daemon, got status ${response.status} and ${shown}`;
    return new ConnectionError('unexpected-answer', message);
  }
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  const retryAfterMs = problem.retry_after_ms ?? (Number.isFinite(seconds) ? seconds * 1000 : undefined);
  return fromProblem({ ...problem, retry_after_ms: retryAfterMs });
}

function parseProblem(text: string): Problem | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isProblem = typeof value === 'object' && value !== null && typeof (value as Problem).code === 'string';
    return isProblem ? (value as Problem) : undefined;
  } catch {
    return undefined;
  }
}

async function readText(response: Response, bytesMax: number): Promise<string> {
  if (response.body === null) return '';
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > bytesMax) {
      await reader.cancel().catch(() => undefined);
      const message = `answer: expected at most ${bytesMax} bytes, got more; raise answerBytesMax`;
      throw new ConnectionError('answer-too-large', message);
    }
    text += decoder.decode(value, { stream: true });
  }
}
