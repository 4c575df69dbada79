// The names under which the daemon says no, and which of them say that the task never ran.
//
// The daemon's table is in `crates/tasks/src/error.rs`; a test holds this one against the page that is made from it
// (`docs/errors.md`). A code this list does not know is passed on as it came: a newer daemon may have more.

/** Codes that every door of the daemon shares, with their numbers. */
export const TASK_CODES = {
  ok: 0,
  'unknown-handler': -1,
  'invalid-request': -2,
  'unknown-symbol': -3,
  'out-of-memory': -4,
  'handler-crashed': -5,
  'timed-out': -6,
  cancelled: -101,
  'queue-full': -102,
  draining: -103,
  expired: -104,
  dropped: -105,
  'result-gone': -106,
  'not-allowed': -107,
  'bad-arguments': -108,
  'handler-error': -109,
  'too-large': -110,
  'duplicate-id': -111,
  'not-found': -112,
  'already-ended': -113,
  'key-reused': -114,
  'retries-exhausted': -115,
  'not-ended': -116,
  'daemon-died': -117,
  'journal-full': -118,
  'journal-failed': -119,
  postponed: -120,
  internal: -199,
} as const;

export type TaskCode = keyof typeof TASK_CODES;

/** Where the task itself ended so, and not the request for it. */
const ENDINGS: ReadonlySet<string> = new Set<TaskCode>([
  'out-of-memory',
  'handler-crashed',
  'timed-out',
  'cancelled',
  'expired',
  'dropped',
  'handler-error',
  'retries-exhausted',
  'daemon-died',
  'postponed',
]);

/** Whether a task that was taken in ended with this. */
export function endsTask(code: string): boolean {
  return ENDINGS.has(code);
}

/** Of the answers with status 503, those after which the task may have run. */
const MAY_HAVE_RUN: ReadonlySet<string> = new Set<TaskCode>(['out-of-memory', 'daemon-died', 'journal-failed']);

/** Whether what was refused with this status and code may be sent again without any harm. */
export function neverRan(status: number, code: string): boolean {
  return status === 503 && !MAY_HAVE_RUN.has(code);
}
