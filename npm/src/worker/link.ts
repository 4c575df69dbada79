// What the worker's half asks of the way to its pool; the counterpart of `../links/link.ts`.
//
// A link hands over one task at a time: the next only after the last was answered, failed or cleaned up.

/** Runs one task; its end is told by answer, fail or cleaned. */
export type RunTask = (id: number, method: string, params: unknown[] | null | undefined) => void;

/** Where the worker's half posts to. */
export interface WorkerPort {
  readonly kind: 'thread' | 'process' | 'web';
  post(message: unknown, transfer?: readonly Transferable[]): void;
}

export interface WorkerLink {
  /** Throws what structured clone throws: nothing was sent, and fail() must follow. */
  answer(id: number, value: unknown, transfer?: readonly Transferable[]): void;
  fail(id: number, error: object): void;
  emit(id: number, payload: unknown, transfer?: readonly Transferable[]): void;
  /** The clean-up of a cancelled task has ended; ends the task if it had not. */
  cleaned(id: number, error: object | null): void;
  /** A message that is neither control nor hello; false: not for this link. */
  receive(message: unknown): boolean;
}
