// Cuts a stream of bytes into lines, with a limit on the longest.
//
// Both forms in which the daemon streams are made of lines: server-sent events and NDJSON. A line that never ends must
// not fill the memory, so there is a limit; and a reader that stops early gives the connection back.

import { ConnectionError } from './errors.ts';

/** The lines of a body, without their ends. The last one counts even if it does not end. */
export async function* lines(body: ReadableStream<Uint8Array>, lineBytesMax: number): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      let start = 0;
      for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n', start)) {
        yield rest.slice(start, rest[end - 1] === '\r' && end > start ? end - 1 : end);
        start = end + 1;
      }
      rest = rest.slice(start);
      if (done) break;
      if (rest.length > lineBytesMax) throw tooLong('lines', lineBytesMax);
    }
    if (rest !== '') yield rest;
  } finally {
    // Nobody wants the rest; a stream that has ended or failed takes this for nothing.
    await reader.cancel().catch(() => undefined);
  }
}

/** One server-sent event. */
export interface ServerEvent {
  event: string;
  id: string | undefined;
  data: string;
}

/** Puts lines together to server-sent events. Comments, which are only signs of life, complete nothing. */
export class EventReader {
  readonly #bytesMax: number;
  #bytes = 0;
  #event = '';
  #id: string | undefined;
  #data: string[] = [];

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** The event that this line completes, if it does. */
  push(line: string): ServerEvent | undefined {
    if (line === '') return this.#complete();
    this.#bytes += line.length;
    if (this.#bytes > this.#bytesMax) throw tooLong('events', this.#bytesMax);
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id') this.#id = value;
    return undefined;
  }

  #complete(): ServerEvent | undefined {
    const event = { event: this.#event || 'message', id: this.#id, data: this.#data.join('\n') };
    const says = this.#data.length > 0;
    this.#event = '';
    this.#id = undefined;
    this.#data = [];
    this.#bytes = 0;
    return says ? event : undefined;
  }
}

function tooLong(what: string, limit: number): ConnectionError {
  const message = `answer: expected ${what} of at most ${limit} characters, got a longer one; raise lineBytesMax`;
  return new ConnectionError('answer-too-large', message);
}
