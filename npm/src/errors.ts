// The errors that a pool makes itself, and how an error crosses from a worker.
//
// Names, texts and prototypes are workerpool's, because callers test them with instanceof and by their messages. An
// error that was thrown in a worker arrives as a plain Error with its message, its stack and those of its own fields
// that JSON can carry: its class cannot cross, and workerpool's users know that.

export class CancellationError extends Error {
  constructor(message?: string) {
    super(message || 'promise cancelled');
  }
}
CancellationError.prototype.name = 'CancellationError';

export class TimeoutError extends Error {
  constructor(message?: string) {
    super(message || 'timeout exceeded');
  }
}
TimeoutError.prototype.name = 'TimeoutError';

/** The worker went away under a task, or could not be kept. */
export class TerminateError extends Error {
  override cause: unknown;
  constructor(message?: string, cause?: unknown) {
    super(message || 'worker terminated');
    this.cause = cause;
  }
}

/** An error as a plain object that every way of sending can carry. */
export function packError(error: unknown): object {
  try {
    if (typeof error === 'object' && error !== null) {
      const asks = typeof (error as { toJSON?: unknown }).toJSON === 'function';
      // The list of names makes JSON see the fields that are not enumerable, such as message and stack.
      const names = asks ? undefined : (Object.getOwnPropertyNames(error) as string[]);
      const plain: unknown = JSON.parse(JSON.stringify(error, names));
      if (typeof plain === 'object' && plain !== null) {
        // Some errors of the platform (DataCloneError) only inherit their message.
        return asks || 'message' in plain ? plain : { ...packWords(error), ...plain };
      }
    }
  } catch {
    // A cycle, a throwing getter, a bigint: the words that can be had are better than none.
  }
  return packWords(error);
}

/** The other end of `packError`. */
export function unpackError(plain: unknown): Error {
  const error = new Error('');
  if (typeof plain === 'object' && plain !== null) {
    for (const name of Object.keys(plain)) {
      // Defined, not assigned: a field called __proto__ must stay a field.
      const value = (plain as Record<string, unknown>)[name];
      Object.defineProperty(error, name, { value, writable: true, enumerable: true, configurable: true });
    }
  }
  return error;
}

/** The text for a worker that ended while it had a task; the form is workerpool's. */
export function exitMessage(
  exitCode: unknown, signalCode: unknown, script: unknown,
  worker: { spawnargs?: unknown; spawnfile?: unknown; stdout?: unknown; stderr?: unknown },
): string {
  const rows: [string, unknown][] = [
    ['exitCode', exitCode],
    ['signalCode', signalCode],
    ['workerpool.script', script],
    ['spawnArgs', worker.spawnargs],
    ['spawnfile', worker.spawnfile],
    ['stdout', worker.stdout],
    ['stderr', worker.stderr],
  ];
  const lines = rows.map(([name, value]) => `    ${name}: \`${value}\`\n`);
  return `Workerpool Worker terminated Unexpectedly\n${lines.join('')}`;
}

function packWords(error: unknown): object {
  try {
    const { message, stack } = (error ?? {}) as { message?: unknown; stack?: unknown };
    if (typeof message === 'string') return { message, stack: typeof stack === 'string' ? stack : undefined };
    return { message: String(error) };
  } catch {
    return { message: 'an error that cannot be turned into words' };
  }
}
