// A worker thread at the end of a shared link, for tests: calls return promises, and everything that comes back is kept.
//
// It stands in for the pool: it hears the worker's end and asks the link what had started.

import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { buildSync } from 'esbuild';
import { openSharedLink } from '../../src/links/shared-link.ts';
import type { SharedLinkSettings } from '../../src/links/shared-link.ts';
import type { Link, LinkEvents } from '../../src/links/link.ts';

/** Node 20 cannot load TypeScript in a worker, so the worker's script is bundled once. */
const script = buildSync({
  entryPoints: [fileURLToPath(new URL('./methods.ts', import.meta.url))],
  bundle: true, write: false, platform: 'node', format: 'cjs', target: 'node20',
}).outputFiles[0].text;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

export interface Outcome {
  readonly started: number[];
  readonly unstarted: number[];
}

export class LinkedWorker {
  readonly worker: Worker;
  readonly link: Link;
  readonly events: LinkEvents;
  readonly emitted: unknown[] = [];
  /** Ids in the order in which their ends were told. */
  readonly order: number[] = [];
  /** How often each id's end was told. */
  readonly ends = new Map<number, number>();
  readonly exited: Promise<Outcome>;
  private readonly waiting = new Map<number, Waiting>();
  private readonly quiet: boolean;
  private nextId = 0;

  constructor(settings: SharedLinkSettings & { quiet?: boolean } = {}) {
    this.quiet = settings.quiet === true;
    this.worker = new Worker(script, { eval: true });
    this.events = {
      onResult: (id, value) => this.told(id)?.resolve(value),
      onError: (id, error) => this.told(id)?.reject(error),
      onEvent: (id, payload) => this.emitted.push([id, payload]),
      onCleanup: (id, error) => this.told(id)?.resolve({ cleaned: error }),
      onBatchEnd: () => {},
    };
    const port = {
      kind: 'thread',
      post: (message: unknown, transfer?: readonly Transferable[]) => this.worker.postMessage(message, transfer as never),
    } as const;
    this.link = openSharedLink(port, this.events, settings);
    this.worker.on('message', (message) => this.link.receive(message));
    this.exited = new Promise((resolve) => this.worker.once('exit', () => resolve(this.link.abandon())));
  }

  private told(id: number): Waiting | undefined {
    this.ends.set(id, (this.ends.get(id) ?? 0) + 1);
    if (!this.quiet) this.order.push(id);
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    return waiting;
  }

  /** Sends a task: its id, or 0 if the link is full. */
  send(method: string, params?: unknown[], transfer?: readonly Transferable[]): number {
    const id = this.nextId + 1;
    if (this.link.send(id, method, params, transfer) === 'full') return 0;
    this.nextId = id;
    return id;
  }

  /** Sends a task and waits for its end. */
  call(method: string, params?: unknown[], transfer?: readonly Transferable[]): Promise<any> {
    const id = this.send(method, params, transfer);
    if (id === 0) return Promise.reject(new Error('full'));
    return this.endOf(id);
  }

  endOf(id: number): Promise<any> {
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async end(): Promise<Outcome> {
    void this.worker.terminate();
    return this.exited;
  }
}

/** Waits until a condition holds, a turn of the event loop at a time, at most ten seconds. */
export async function eventually(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`it did not come to pass: ${holds}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
