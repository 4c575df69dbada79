// A client of a running `millpond serve`, over HTTP and nothing but `fetch`: in Node, in browsers, wherever one is.
//
// Methods are the daemon's routes by their own names (`docs/http.md`), so that what one reads there holds here. A
// client has no connection of its own and nothing to close; what a platform keeps open between two requests is its own
// affair.
//
// Not here: how a request is sent and repeated (`door.ts`), followed (`follow.ts`), sent by the hundred (`bulk.ts`).

import { bulk, type BatchOptions } from './bulk.ts';
import { Door } from './door.ts';
import { ConnectionError, DaemonError, fromOutcome } from './errors.ts';
import { follow, type FollowOptions } from './follow.ts';
import { settingsFrom, type ConnectOptions } from './settings.ts';
import type {
  BatchAnswer,
  HandlerView,
  Outcome,
  RequestOptions,
  StatsView,
  TaskEvent,
  TaskId,
  TaskPage,
  TaskQuery,
  TaskRequest,
  TaskView,
  WorkersView,
} from './shapes.ts';
import { Ticket } from './ticket.ts';

/** A wait is asked for in pieces, so that nothing between here and the daemon takes it for dead. */
const WAIT_MS = 20_000;
/** The daemon answers sooner (`web.request_timeout`); beyond this Node itself gives up. */
const CALL_MS_MAX = 290_000;
const DAY_MS = 24 * 60 * 60 * 1000;
const BATCH_MAX = 100_000;

export interface SignalOption {
  signal?: AbortSignal;
}

export interface WaitOptions extends SignalOption {
  /** How long to wait before giving up with `wait-timeout`; a day if nothing is said. */
  timeoutMs?: number;
}

/**
 * A client of the daemon at `url`. Nothing is sent until something is asked.
 *
 * ```js
 * const client = connect({ url: 'http://127.0.0.1:7117' });
 * console.log(await client.call('echo', { hello: 'world' }));
 * ```
 */
export function connect(options: string | URL | ConnectOptions = {}): Client {
  const given = typeof options === 'string' || options instanceof URL ? { url: options } : options;
  return new Client(new Door(settingsFrom(given)));
}

export class Client {
  readonly #door: Door;

  /** @internal */
  constructor(door: Door) {
    this.#door = door;
  }

  /** Where the daemon is. */
  get url(): string {
    return this.#door.settings.base.href;
  }

  /**
   * Runs a handler and gives back its result. Throws a `TaskError` if the task ends badly. An aborted signal takes the
   * task back. Without an `idempotency_key` the daemon keeps nothing of it.
   */
  async call<Result = any>(
    handler: string,
    args: object = {},
    options: RequestOptions & SignalOption = {},
  ): Promise<Result> {
    const { signal, ...rest } = options;
    const request: TaskRequest = { handler, args, ...rest };
    try {
      const outcome = await this.#door.json<Outcome<Result>>({
        method: 'POST',
        path: 'v1/exec',
        body: JSON.stringify(request),
        signal,
        timeoutMs: CALL_MS_MAX,
        isRepeatable: hasKey(request),
      });
      return outcome.result as Result;
    } catch (error) {
      // It took longer than a request may; it goes on, and can be waited for.
      const goesOn = error instanceof DaemonError && error.code === 'request-timeout' && error.taskId !== undefined;
      if (!goesOn) throw error;
      return this.result<Result>(error.taskId as TaskId, { signal });
    }
  }

  /** Hands a task in. Its outcome is kept for whoever asks with its id. */
  async submit<Result = any>(request: TaskRequest, options: SignalOption = {}): Promise<Ticket<Result>> {
    const task = await this.#door.json<TaskView<Result>>({
      method: 'POST',
      path: 'v1/tasks',
      body: JSON.stringify(request),
      signal: options.signal,
      isRepeatable: hasKey(request),
    });
    return new Ticket<Result>(this, task.task_id, task);
  }

  /** Hands many tasks in and gives all answers back, one for each request, in their order. */
  async submitBatch<Result = any>(
    requests: Iterable<TaskRequest> | AsyncIterable<TaskRequest>,
    options: BatchOptions = {},
  ): Promise<BatchAnswer<Result>[]> {
    const answers: BatchAnswer<Result>[] = [];
    for await (const answer of this.bulk<Result>(requests, options)) {
      if (answers.length >= BATCH_MAX) {
        throw new RangeError(`submitBatch: expected at most ${BATCH_MAX} requests, got more; use bulk instead`);
      }
      answers.push(answer);
    }
    return answers;
  }

  /** The same for any number of requests: answers come while further requests are still being made. */
  bulk<Result = any>(
    requests: Iterable<TaskRequest> | AsyncIterable<TaskRequest>,
    options: BatchOptions = {},
  ): AsyncGenerator<BatchAnswer<Result>> {
    return bulk(this.#door, requests, options);
  }

  /** A ticket for a task that somebody handed in, here or elsewhere. */
  ticket<Result = any>(id: TaskId): Ticket<Result> {
    return new Ticket<Result>(this, id);
  }

  get<Result = any>(id: TaskId, options: SignalOption = {}): Promise<TaskView<Result>> {
    return this.#door.json({ path: pathOf(id), signal: options.signal });
  }

  async wait<Result = any>(id: TaskId, options: WaitOptions = {}): Promise<TaskView<Result>> {
    const timeoutMs = options.timeoutMs ?? DAY_MS;
    const until = Date.now() + timeoutMs;
    const { requestTimeoutMs } = this.#door.settings;
    for (;;) {
      const wait = Math.ceil(Math.min(Math.max(until - Date.now(), 1), WAIT_MS));
      const ask = { path: `${pathOf(id)}?wait=${wait}ms`, signal: options.signal, timeoutMs: wait + requestTimeoutMs };
      const task = await this.#door.json<TaskView<Result>>(ask);
      if (task.stage === 'ended') return task;
      if (Date.now() >= until) {
        const message = `task ${id}: expected its end within ${timeoutMs} ms, it is ${task.stage}; it goes on`;
        throw new ConnectionError('wait-timeout', message);
      }
    }
  }

  async result<Result = any>(id: TaskId, options: WaitOptions = {}): Promise<Result> {
    const task = await this.wait<Result>(id, options);
    if (task.status !== 0) throw fromOutcome(task);
    return task.result as Result;
  }

  /** Cancels a task, whether it waits or runs. One that has ended is refused with `already-ended`. */
  cancel<Result = any>(id: TaskId, options: SignalOption = {}): Promise<TaskView<Result>> {
    return this.#post(`${pathOf(id)}/cancel`, options);
  }

  /** Asks once more for what a task that has ended was asked to do. */
  async retry<Result = any>(id: TaskId, options: SignalOption = {}): Promise<Ticket<Result>> {
    const task = await this.#post<TaskView<Result>>(`${pathOf(id)}/retry`, options);
    return new Ticket<Result>(this, task.task_id, task);
  }

  /** Takes the outcome of a task that has ended: it is shown once more and then no longer kept. */
  take<Result = any>(id: TaskId, options: SignalOption = {}): Promise<TaskView<Result>> {
    return this.#door.json({ method: 'DELETE', path: pathOf(id), signal: options.signal });
  }

  /** Why a task stands where it stands, in one sentence. */
  async why(id: TaskId, options: SignalOption = {}): Promise<string> {
    const answer = await this.#door.json<{ why: string }>({ path: `${pathOf(id)}/why`, signal: options.signal });
    return answer.why;
  }

  /** What a task says, from the event with the number `from` to its end. A broken connection is taken up again. */
  stream<Partial = any, Result = any>(
    id: TaskId,
    options: FollowOptions = {},
  ): AsyncGenerator<TaskEvent<Partial, Result>> {
    return follow(this.#door, pathOf(id), options);
  }

  /** Tasks that are known, newest first, a page at a time. */
  list(query: TaskQuery = {}, options: SignalOption = {}): Promise<TaskPage> {
    const asked = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(asked.map(([name, value]) => [name, String(value)]));
    return this.#door.json({ path: `v1/tasks?${search}`, signal: options.signal });
  }

  async handlers(options: SignalOption = {}): Promise<HandlerView[]> {
    const answer = await this.#door.json<{ handlers: HandlerView[] }>({ path: 'v1/handlers', signal: options.signal });
    return answer.handlers;
  }

  workers(options: SignalOption = {}): Promise<WorkersView> {
    return this.#door.json({ path: 'v1/workers', signal: options.signal });
  }

  stats(options: SignalOption = {}): Promise<StatsView> {
    return this.#door.json({ path: 'stats', signal: options.signal });
  }

  /** What Prometheus reads. */
  metrics(options: SignalOption = {}): Promise<string> {
    return this.#door.text({ path: 'metrics', accept: 'text/plain', signal: options.signal });
  }

  version(options: SignalOption = {}): Promise<{ name: string; version: string; api: string }> {
    return this.#door.json({ path: 'version', signal: options.signal });
  }

  /** Resolves once the daemon takes tasks; throws what kept it from it. */
  async ready(options: SignalOption = {}): Promise<void> {
    await this.#door.json({ path: 'readyz', signal: options.signal });
  }

  #post<T>(path: string, options: SignalOption): Promise<T> {
    return this.#door.json<T>({ method: 'POST', path, signal: options.signal });
  }
}

/** The address of a task. A text that looks like a number stands in quotes, as in JSON. */
function pathOf(id: TaskId): string {
  const isWhole = typeof id === 'number' && Number.isSafeInteger(id) && id >= 0;
  if (!isWhole && (typeof id !== 'string' || id === '')) {
    throw new TypeError(`task id: expected a text or a whole number from 0, got ${JSON.stringify(id) ?? String(id)}`);
  }
  const looksLikeNumber = typeof id === 'string' && /^[0-9]+$/.test(id);
  return `v1/tasks/${encodeURIComponent(looksLikeNumber ? `"${id}"` : String(id))}`;
}

function hasKey(request: RequestOptions): boolean {
  return typeof request.idempotency_key === 'string';
}
