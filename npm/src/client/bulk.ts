// Many requests, a line each, in as few round trips as fit: the answers come in the order of the requests.
//
// A body is sent whole, because no browser reads an answer while it still sends; it is kept so small that the answers
// to all of it fit on their way back. So any number of requests may come from an iterable, and only one body's worth is
// held.
//
// When a connection breaks in the middle, nobody knows what became of the lines without an answer. If each of them has
// an idempotency key they are sent again; otherwise the caller is told how many were answered, and decides.

import { Watch, type Door } from './door.ts';
import { ConnectionError, DaemonError, fromProblem } from './errors.ts';
import { lines } from './lines.ts';
import type { BatchAnswer, Outcome, Problem, TaskId, TaskRequest } from './shapes.ts';

const LINES_MAX = 512;
const BODY_BYTES_MAX = 256 * 1024;
const TRIES_MAX = 5;
/** A full daemon holds a line back for a minute before it refuses it. */
const ACCEPTED_MS = 120_000;
/** A task may take so long. */
const ENDED_MS = 24 * 60 * 60 * 1000;

export interface BatchOptions {
  /** What an answer waits for: that the task was taken in (default), or its end. */
  until?: 'accepted' | 'ended';
  signal?: AbortSignal;
  /** How long to wait for the next answer: two minutes until a task is accepted, a day until it has ended. */
  timeoutMs?: number;
}

interface Line {
  text: string;
  hasKey: boolean;
}

/** The answers to all requests, one for each. */
export async function* bulk(
  door: Door,
  requests: Iterable<TaskRequest> | AsyncIterable<TaskRequest>,
  options: BatchOptions = {},
): AsyncGenerator<BatchAnswer> {
  let body: Line[] = [];
  let size = 0;
  let number = 0;
  for await (const request of requests) {
    number += 1;
    const line = { text: written(request, number), hasKey: typeof request.idempotency_key === 'string' };
    // In UTF-8 a character takes three bytes at most.
    const bytes = line.text.length * 3 + 1;
    if (body.length > 0 && (body.length >= LINES_MAX || size + bytes > BODY_BYTES_MAX)) {
      yield* sent(door, body, options);
      body = [];
      size = 0;
    }
    body.push(line);
    size += bytes;
  }
  if (body.length > 0) yield* sent(door, body, options);
}

function written(request: TaskRequest, number: number): string {
  if (typeof request !== 'object' || request === null) {
    throw new TypeError(`request ${number} of the batch: expected an object, got ${String(request)}`);
  }
  return JSON.stringify(request);
}

/** Sends one body, and what of it got no answer again if it may. */
async function* sent(door: Door, body: Line[], options: BatchOptions): AsyncGenerator<BatchAnswer> {
  let left = body;
  for (let tried = 1; ; tried += 1) {
    let answered = 0;
    let cause: unknown;
    try {
      for await (const answer of answers(door, left, options)) {
        answered += 1;
        yield answer;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof DaemonError) throw error;
      cause = error;
    }
    left = left.slice(answered);
    if (left.length === 0) return;
    if (tried >= TRIES_MAX || !left.every((line) => line.hasKey)) {
      const message = `batch: expected ${body.length} answers, got ${body.length - left.length} before the connection `
        + 'broke; give every request an idempotency_key and it is sent again';
      throw new ConnectionError('broken-batch', message, { cause });
    }
  }
}

async function* answers(door: Door, body: Line[], options: BatchOptions): AsyncGenerator<BatchAnswer> {
  const until = options.until ?? 'accepted';
  const timeoutMs = options.timeoutMs ?? (until === 'ended' ? ENDED_MS : ACCEPTED_MS);
  const watch = new Watch(options.signal, timeoutMs, 'v1/bulk');
  const ask = {
    method: 'POST',
    path: `v1/bulk?until=${until}`,
    body: body.map((line) => `${line.text}\n`).join(''),
    contentType: 'application/x-ndjson',
    accept: 'application/x-ndjson',
    isRepeatable: body.every((line) => line.hasKey),
  } as const;
  try {
    const response = await door.open(ask, watch);
    if (response.body === null) return;
    for await (const line of lines(response.body, door.settings.lineBytesMax)) {
      watch.noMoreHurry();
      if (line !== '') yield understood(line);
      watch.hurry(timeoutMs);
    }
  } catch (error) {
    throw watch.reasonFor(error);
  } finally {
    watch.end();
  }
}

type Answer = { problem: Problem } | { task_id: TaskId | null; status?: number; error?: string; message?: string };

function understood(line: string): BatchAnswer {
  const answer = JSON.parse(line) as Answer;
  if ('problem' in answer) throw fromProblem(answer.problem);
  // Only a task that was taken in counts its attempts, and one that was merely accepted has no status yet.
  if (answer.task_id !== null && answer.status === undefined) return { accepted: true, task_id: answer.task_id };
  if ('attempts' in answer) {
    const outcome = answer as unknown as Outcome & { line?: number };
    delete outcome.line;
    return { accepted: true, task_id: outcome.task_id, outcome };
  }
  const code = answer.error ?? 'internal';
  const detail = answer.message ?? `refused with ${code}`;
  const problem = { type: `urn:millpond:error:${code}`, title: detail, detail, code, status: 0, number: answer.status };
  return { accepted: false, error: new DaemonError({ ...problem, task_id: answer.task_id ?? undefined }) };
}
