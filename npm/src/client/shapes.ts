// The JSON that the daemon takes and gives, as types. Names are the daemon's own: what is `task_id` in curl is so here.
//
// Objects that come back are open: a newer daemon may say more. The request is closed, because the daemon refuses what
// it does not know. `docs/http.md` tells what each means; the daemon's `/openapi.json` is the contract.

/** A whole number, or a text. The daemon's own look like `t17`. */
export type TaskId = string | number;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** What somebody asks for: a handler by name, or by its opcode. */
export type TaskRequest = RequestOptions & { args?: object } & (
  | { handler: string; opcode?: undefined }
  | { opcode: number; handler?: undefined }
);

/** All of a request but what is to be done. */
export interface RequestOptions {
  /** What the client calls the task; without, the daemon gives it an id. Must not begin with a `t`. */
  task_id?: TaskId | null;
  priority?: 'low' | 'normal' | 'high' | number | null;
  /** Tasks with the same key prefer the same worker. */
  affinity?: string | null;
  timeout_ms?: number | null;
  delay_ms?: number | null;
  retries?: number | null;
  /** Ask twice, run once. Also what makes it safe to send a request again after a broken connection. */
  idempotency_key?: string | null;
  traceparent?: string | null;
}

/** Where a task stands. */
export type Stage = 'delayed' | 'queued' | 'running' | 'retrying' | 'ended';

/** One task as the daemon knows it. In a list, arguments, result and tries are left out. */
export interface TaskView<Result = any> {
  task_id: TaskId;
  handler: string;
  stage: Stage;
  attempts: number;
  age_us: number;
  accepted_at: string;
  accepted_at_ms: number;
  priority: 'low' | 'normal' | 'high';
  door: string;
  /** How many events it has said so far. */
  events: number;
  worker?: number;
  progress?: number;
  waited_us?: number;
  ran_us?: number;
  /** 0 if it did what it was asked to; there once it has ended. */
  status?: number;
  error?: string;
  message?: string;
  args?: any;
  result?: Result;
  tries?: TaskTry[];
  timeout_ms?: number;
  retries?: number;
  traceparent?: string;
}

export interface TaskTry {
  attempt: number;
  began_after_us: number;
  ran_us: number;
  worker?: number;
  error?: string;
  message?: string;
}

/** How a task ended. */
export interface Outcome<Result = any> {
  task_id: TaskId;
  status: number;
  result?: Result;
  error?: string;
  message?: string;
  attempts: number;
  waited_us: number;
  ran_us: number;
}

/** Why the daemon says no (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  number?: number;
  task_id?: TaskId;
  instance?: string;
  request_id?: string;
  retry_after_ms?: number;
  line?: number;
  column?: number;
}

/** What a task says while it runs, in its order. `id` is the number to go on from, if there is one. */
export type TaskEvent<Partial = any, Result = any> =
  | { event: 'task'; id?: undefined; data: TaskView<Result> }
  | { event: 'partial'; id: number; data: { offset: number; attempt: number; partial: Partial } }
  | { event: 'progress'; id: number; data: { offset: number; attempt: number; progress: number } }
  | { event: 'log'; id: number; data: { offset: number; attempt: number; log: string } }
  | { event: 'missed'; id?: number; data: { offset: number; attempt: number; missed: number } }
  | { event: 'ended'; id: number; data: Outcome<Result> };

/** One answer of a batch: the lines come back in their order. */
export type BatchAnswer<Result = any> =
  | { accepted: true; task_id: TaskId; outcome?: Outcome<Result> }
  | { accepted: false; error: Error & { code: string; number?: number } };

export interface TaskPage {
  tasks: TaskView[];
  known: number;
  /** There may be more: hand it back as `cursor`. */
  next?: string;
}

export interface TaskQuery {
  stage?: Stage;
  handler?: string;
  error?: string;
  /** A text to look for in ids, handlers, arguments and messages. */
  q?: string;
  limit?: number;
  cursor?: string;
}

export interface HandlerView {
  name: string;
  summary: string;
  opcodes: number[];
  accepted: number;
  succeeded: number;
  failed: number;
  waited: { p50_us: number; p99_us: number; max_us: number };
  ran: { p50_us: number; p99_us: number; max_us: number };
  example?: any;
}

export interface WorkersView {
  workers: {
    worker: number;
    state: string;
    is_busy: boolean;
    completed: number;
    queued: number;
    utilisation: number;
    stolen: number;
    handler?: string;
    task_id?: TaskId;
  }[];
  strategy: string;
}

/** The door and the pool in figures; `docs/metrics.md` says what they mean. */
export interface StatsView {
  uptime_ms: number;
  is_draining: boolean;
  [name: string]: any;
}
