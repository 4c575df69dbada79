// The worker's half of plain messages: workerpool's wire format, one task at a time.
//
// A millpond pool never posts a second task before the first is answered. Another pool may; what comes early waits
// here, in order, so that a method never finds another one half done.

import { CLEANUP } from '../links/link.ts';
import type { RunTask, WorkerLink, WorkerPort } from './link.ts';

interface Request {
  id: number;
  method: string;
  params?: unknown[] | null;
}

export class WorkerMessageLink implements WorkerLink {
  private readonly port: WorkerPort;
  private readonly run: RunTask;
  private readonly waiting: Request[] = [];
  private current = 0;

  constructor(port: WorkerPort, run: RunTask) {
    this.port = port;
    this.run = run;
  }

  receive(message: unknown): boolean {
    const request = message as Request;
    if (typeof request !== 'object' || request === null || typeof request.id !== 'number') return false;
    if (this.current !== 0) {
      this.waiting.push(request);
      return true;
    }
    this.begin(request);
    return true;
  }

  answer(id: number, value: unknown, transfer?: readonly Transferable[]): void {
    this.port.post({ id, result: value, error: null }, transfer);
    this.next(id);
  }

  fail(id: number, error: object): void {
    this.port.post({ id, result: null, error });
    this.next(id);
  }

  emit(id: number, payload: unknown, transfer?: readonly Transferable[]): void {
    this.port.post({ id, isEvent: true, payload }, transfer);
  }

  cleaned(id: number, error: object | null): void {
    this.port.post({ id, method: CLEANUP, error });
    if (error === null) this.next(id);
  }

  private begin(request: Request): void {
    this.current = request.id;
    this.run(request.id, request.method, request.params);
  }

  private next(ended: number): void {
    if (this.current !== ended) return;
    this.current = 0;
    const request = this.waiting.shift();
    // In a turn of its own: a long line of short tasks must not pile up on the stack.
    if (request !== undefined) {
      this.current = request.id;
      queueMicrotask(() => this.begin(request));
    }
  }
}
