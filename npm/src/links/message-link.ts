// The way to a worker by plain messages: one task at a time, works everywhere.
//
// The messages are exactly workerpool's, both ways. So a worker script that still imports workerpool serves a millpond
// pool, and one that imports millpond serves a workerpool pool: the two sides can be migrated on different days.
//
// Nothing can be taken back once it was posted, so nothing is handed over ahead of time.

import { CLEANUP } from './link.ts';
import type { ControlMessage, Link, LinkEvents, LinkPort } from './link.ts';

interface Answer {
  id?: number;
  result?: unknown;
  error?: object | null;
  isEvent?: boolean;
  payload?: unknown;
  method?: string;
}

export class MessageLink implements Link {
  readonly kind = 'messages';
  readonly aheadMax = 0;
  runMeanMs = 0;
  lastRunMs = NaN;
  private readonly port: LinkPort;
  private readonly events: LinkEvents;
  /** What was posted and not answered, with the time of posting: one entry, more only while a clean-up is on. */
  private readonly sent = new Map<number, number>();

  constructor(port: LinkPort, events: LinkEvents) {
    this.port = port;
    this.events = events;
  }

  send(id: number, method: string, params: unknown[] | null | undefined, transfer?: readonly Transferable[]): 'sent' {
    this.port.post({ id, method, params }, transfer);
    this.sent.set(id, performance.now());
    return 'sent';
  }

  revoke(): boolean {
    return false;
  }

  startedAt(id: number): number | undefined {
    return this.sent.get(id);
  }

  control(message: ControlMessage): void {
    this.port.post(message);
  }

  receive(message: unknown): boolean {
    if (typeof message !== 'object' || message === null) return false;
    const answer = message as Answer;
    if (typeof answer.id !== 'number') return false;
    if (answer.method === CLEANUP) {
      this.sent.delete(answer.id);
      this.events.onCleanup(answer.id, answer.error ?? null);
    } else if (answer.isEvent) {
      this.events.onEvent(answer.id, answer.payload);
    } else {
      this.measure(answer.id);
      if (answer.error) this.events.onError(answer.id, answer.error);
      else this.events.onResult(answer.id, answer.result);
    }
    this.events.onBatchEnd();
    return true;
  }

  /** From posting to answer: the worker does not say when it began, and begins at once. */
  private measure(id: number): void {
    const since = this.sent.get(id);
    if (since === undefined) return;
    this.sent.delete(id);
    this.lastRunMs = performance.now() - since;
    this.runMeanMs = this.runMeanMs === 0 ? this.lastRunMs : this.runMeanMs * 0.875 + this.lastRunMs * 0.125;
  }

  abandon(): { started: number[]; unstarted: number[] } {
    const started = [...this.sent.keys()];
    this.sent.clear();
    return { started, unstarted: [] };
  }
}
