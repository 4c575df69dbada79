// What can go wrong between a client and the daemon, and what of it a program can act on.
//
// Every error has a `code`, which never changes its meaning; the text is for people. A `DaemonError` is the daemon's
// own answer. A `TaskError` is one too: the task was taken in, and ended badly. A `ConnectionError` means that there
// was no answer, so the task may or may not have been taken in. An aborted signal throws its own reason, as fetch does.

import { endsTask } from './codes.ts';
import type { Outcome, Problem, TaskId, TaskView } from './shapes.ts';

export class ClientError extends Error {
  override readonly name: string = 'ClientError';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The daemon said no. */
export class DaemonError extends ClientError {
  override readonly name: string = 'DaemonError';
  /** The number of the code, in the table that all doors share. */
  readonly number?: number;
  /** The HTTP status; 0 if the refusal came inside of another answer. */
  readonly status: number;
  readonly taskId?: TaskId;
  /** How long to wait before the same request makes sense again. */
  readonly retryAfterMs?: number;
  readonly requestId?: string;
  /** Where in the request, if it is a matter of its text. */
  readonly line?: number;
  readonly column?: number;

  constructor(problem: Problem) {
    super(problem.code, problem.detail || problem.title);
    this.number = problem.number;
    this.status = problem.status;
    this.taskId = problem.task_id ?? undefined;
    this.retryAfterMs = problem.retry_after_ms;
    this.requestId = problem.request_id;
    this.line = problem.line;
    this.column = problem.column;
  }
}

/** The task ran, or was to run, and ended without a result. */
export class TaskError extends DaemonError {
  override readonly name = 'TaskError';
  /** The task as it ended, if it was looked at. */
  readonly task?: TaskView | Outcome;

  constructor(problem: Problem, task?: TaskView | Outcome) {
    super(problem);
    this.task = task;
  }
}

/** There was no answer, or it broke off, or it was none that the daemon would give. */
export class ConnectionError extends ClientError {
  override readonly name = 'ConnectionError';
}

/** The error for an answer that is a problem. */
export function fromProblem(problem: Problem): DaemonError {
  return endsTask(problem.code) ? new TaskError(problem) : new DaemonError(problem);
}

/** The error of a task that has ended badly. */
export function fromOutcome(task: TaskView | Outcome): TaskError {
  const code = task.error ?? 'internal';
  const detail = task.message ?? `the task ended with ${code}`;
  const problem = { type: `urn:millpond:error:${code}`, title: detail, detail, code, status: 0, number: task.status };
  return new TaskError({ ...problem, task_id: task.task_id }, task);
}
