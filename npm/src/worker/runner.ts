// What a worker does with a task: finds the method, runs it, tells its end; and cleans up after one that was cancelled.
//
// A method runs with `this` being the function itself, which has `this.worker` with addAbortListener and emit, as in
// workerpool. Abort listeners belong to the task that added them and are forgotten when it ends.
//
// The end of a task is told once: a method whose task has been cleaned up may still return, and is not heard.
//
// Not here: how tasks come and answers go (`link.ts`), registering (`register.ts`).

import { packError } from '../errors.ts';
import { Transfer } from '../transfer.ts';
import { TRACED } from '../workers/traced.ts';
import type { WorkerLink } from './link.ts';

type Method = ((...params: any[]) => unknown) & { worker?: PublicWorker };
type Listener = () => unknown;

/** What a method finds as `this.worker`. */
export interface PublicWorker {
  addAbortListener(listener: Listener): void;
  emit(payload: unknown): void;
  readonly traceparent: string | undefined;
}

const ABORT_LISTENER_TIMEOUT_MS = 1000;
const ABORT_LISTENERS_MAX = 1000;
/** Offloaded functions whose compiled form is kept, and the longest text that is worth it. */
const COMPILED_MAX = 64;
const COMPILED_TEXT_MAX = 65_536;

export class Runner {
  abortListenerTimeoutMs = ABORT_LISTENER_TIMEOUT_MS;
  onTerminate: ((code: number | undefined) => unknown) | undefined = undefined;
  link: WorkerLink | null = null;
  traceparent: string | undefined = undefined;
  readonly publicWorker: PublicWorker;
  private readonly exit: (code: number) => void;
  /** Without a prototype: a task must not reach what every object inherits. */
  private readonly methods: Record<string, Method> = Object.create(null);
  private readonly compiled = new Map<string, Function>();
  private current = 0;
  private cleaningUp = 0;
  private listeners: Listener[] = [];

  constructor(exit: (code: number) => void) {
    this.exit = exit;
    const runner = this;
    this.publicWorker = {
      addAbortListener: (listener) => this.addAbortListener(listener),
      emit: (payload) => this.emit(payload),
      get traceparent() {
        return runner.traceparent;
      },
    };
    this.methods.run = (source: string, params?: unknown[]) => this.runSource(source, params);
    this.methods.methods = () => Object.keys(this.methods);
  }

  add(methods: Record<string, unknown>): void {
    for (const name of Object.keys(methods)) {
      const method = methods[name] as Method;
      this.methods[name] = method;
      // A module may export constants beside its functions, and frozen functions: they are no reason to fail.
      if (typeof method === 'function' && Object.isExtensible(method)) method.worker = this.publicWorker;
    }
  }

  /** Runs one task. A field of the object, because it is handed to links as a bare function. */
  readonly run = (id: number, name: string, params: unknown[] | null | undefined): void => {
    this.current = id;
    try {
      if (name === TRACED) {
        [this.traceparent, name, params] = params as [string, string, unknown[] | null | undefined];
      }
      const method = this.methods[name];
      if (method === undefined) throw new Error(`Unknown method "${name}"`);
      const outcome = method.apply(method, params as unknown[]);
      if (isPromise(outcome)) outcome.then((value) => this.succeed(id, value), (error) => this.fail(id, error));
      else this.succeed(id, outcome);
    } catch (error) {
      this.fail(id, error);
    }
  };

  emit(payload: unknown): void {
    const id = this.current || this.cleaningUp;
    if (id === 0 || this.link === null) return;
    if (payload instanceof Transfer) this.link.emit(id, payload.message, payload.transfer);
    else this.link.emit(id, payload);
  }

  /** The pool gave a task up: its listeners decide whether this worker can go on. */
  cleanUp(id: number): void {
    const link = this.link as WorkerLink;
    // It has ended in the meantime: nothing is left of it.
    if (this.current !== id) return link.cleaned(id, null);
    if (this.listeners.length === 0) return link.cleaned(id, packError(new Error('Worker terminating')));
    this.cleaningUp = id;
    const { listeners } = this;
    let told = false;
    const tell = (error: unknown): void => {
      if (told) return;
      told = true;
      clearTimeout(timer);
      this.cleaningUp = 0;
      if (error === null && this.current === id) this.ended();
      link.cleaned(id, error === null ? null : packError(error));
    };
    const late = (): void => tell(new Error('Timeout occurred waiting for abort handler, killing worker'));
    const timer = setTimeout(late, this.abortListenerTimeoutMs);
    const calls = listeners.map((listener) => globalThis.Promise.resolve().then(listener));
    globalThis.Promise.all(calls).then(() => tell(null), (error) => tell(error ?? new Error('abort listener failed')));
  }

  /** Ends the worker, after its own clean-up. */
  terminate(code: number): void {
    const leave = (): void => this.exit(code);
    if (this.onTerminate === undefined) return leave();
    const outcome = this.onTerminate(code);
    if (isPromise(outcome)) outcome.then(leave, leave);
    else leave();
  }

  private addAbortListener(listener: Listener): void {
    // Its task has ended: there is nothing to abort, and the next task must not be given its listener.
    if (this.current === 0) return;
    if (this.listeners.length >= ABORT_LISTENERS_MAX) {
      throw new RangeError(`abort listeners: expected at most ${ABORT_LISTENERS_MAX} of one task, got one more`);
    }
    this.listeners.push(listener);
  }

  private succeed(id: number, value: unknown): void {
    if (this.current !== id) return;
    const link = this.link as WorkerLink;
    this.ended();
    try {
      if (value instanceof Transfer) link.answer(id, value.message, value.transfer);
      else link.answer(id, value);
    } catch (error) {
      link.fail(id, packError(error));
    }
  }

  private fail(id: number, error: unknown): void {
    if (this.current !== id) return;
    this.ended();
    (this.link as WorkerLink).fail(id, packError(error));
  }

  private ended(): void {
    this.current = 0;
    if (this.listeners.length > 0) this.listeners = [];
    if (this.traceparent !== undefined) this.traceparent = undefined;
  }

  /** Runs a function that came as a text. It is evaluated anew each time, so that nothing of the last call is left. */
  private runSource(source: string, params: unknown[] | null | undefined): unknown {
    let call = this.compiled.get(source);
    if (call === undefined) {
      call = compile(source);
      if (source.length <= COMPILED_TEXT_MAX) {
        if (this.compiled.size >= COMPILED_MAX) this.compiled.clear();
        this.compiled.set(source, call);
      }
    }
    return call.apply({ worker: this.publicWorker }, params ?? []);
  }
}

function compile(source: string): Function {
  try {
    return new Function(`return (${source}).apply(this, arguments);`);
  } catch (error) {
    if (!(error instanceof EvalError)) throw error;
    throw new Error(
      `offloaded function: the Content-Security-Policy does not allow 'unsafe-eval' (${error.message}); `
      + 'register a method in a worker script instead',
    );
  }
}

function isPromise(value: any): value is PromiseLike<unknown> {
  return value && typeof value.then === 'function' && typeof value.catch === 'function';
}
