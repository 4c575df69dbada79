// What a pool asks of the way to one worker, whatever it is made of.
//
// Two ways exist: plain messages (`message-link.ts`), one task at a time, everywhere; and rings in shared memory
// (`shared-link.ts`), which can hold tasks ahead of time and take them back until they start. The pool decides what to
// hand over and when; a link only carries it and says what became of it.

/** What a link tells the pool. None of these throws. */
export interface LinkEvents {
  onResult(id: number, value: unknown): void;
  /** `error` is a plain object, as `packError` makes it. */
  onError(id: number, error: unknown): void;
  /** What the task emitted; always before its result. */
  onEvent(id: number, payload: unknown): void;
  /** The abort listeners of a task have ended: null when all is well and the worker may be kept. */
  onCleanup(id: number, error: object | null): void;
  /** Everything that had arrived has been told. */
  onBatchEnd(): void;
}

/** The messages that go beside the tasks; the words are workerpool's. */
export const TERMINATE = '__workerpool-terminate__';
export const CLEANUP = '__workerpool-cleanup__';
export type ControlMessage = typeof TERMINATE | { id: number; method: typeof CLEANUP };

/** Where a link posts to. */
export interface LinkPort {
  readonly kind: 'thread' | 'process' | 'web';
  post(message: unknown, transfer?: readonly Transferable[]): void;
}

export interface Link {
  readonly kind: 'messages' | 'shared';
  /** How many unstarted tasks may be handed over beyond the running one. */
  readonly aheadMax: number;
  /** Mean run time of recent tasks in ms; 0 while nothing was measured. */
  readonly runMeanMs: number;
  /** Run time of the task whose end is just being told, in ms; NaN when the worker did not measure it. */
  readonly lastRunMs: number;
  /** Hands a task over. 'full': no room, nothing happened. Throws what structured clone throws: nothing was sent. */
  send(
    id: number, method: string, params: unknown[] | null | undefined, transfer?: readonly Transferable[],
  ): 'sent' | 'full';
  /** Takes an unstarted task back; true: it will never run there. */
  revoke(id: number): boolean;
  /** When it started, in ms of this thread's performance.now(); undefined: it has not. */
  startedAt(id: number): number | undefined;
  control(message: ControlMessage): void;
  /** A message of the worker; false: not for this link. */
  receive(message: unknown): boolean;
  /** The worker is gone: which of the tasks it was given had started and which had not. Frees what the link holds. */
  abandon(): { started: number[]; unstarted: number[] };
}
