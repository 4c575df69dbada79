// The worker of the ring's tests: a small registry of methods behind the shared link, without the pool's own runner.
//
// A method that returns a promise is answered when it settles, as the runner of the package does.

import { parentPort } from 'node:worker_threads';
import { joinSharedLink } from '../../src/worker/shared-link.ts';
import type { WorkerLink } from '../../src/worker/link.ts';

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let link: WorkerLink;
let timerTurns = 0;
let isTerminateHeard = false;

const methods: Record<string, (this: { id: number }, ...args: never[]) => unknown> = {
  add: (a: number, b: number) => a + b,
  echo: (value: unknown) => value,
  count: (...args: unknown[]) => args.length,
  throws: (message: string) => {
    throw new Error(message);
  },
  busy: (ms: number) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
    return ms;
  },
  later: async (ms: number, value: unknown) => {
    await pause(ms);
    return value;
  },
  forever: () => new Promise(() => {}),
  exits: (code: number) => process.exit(code),
  turns: () => timerTurns,
  heard: () => isTerminateHeard,
  now: () => performance.timeOrigin + performance.now(),
  emits(this: { id: number }, count: number) {
    for (let index = 0; index < count; index++) link.emit(this.id, index);
    return 'emitted';
  },
  async emitsSlowly(this: { id: number }, count: number) {
    for (let index = 0; index < count; index++) {
      link.emit(this.id, index);
      await pause(5);
    }
    await pause(100);
    return 'emitted';
  },
  emitsLate(this: { id: number }) {
    setTimeout(() => {
      link.emit(this.id, 'late');
      link.cleaned(this.id, null);
    }, 5);
  },
  uncloneable: () => () => 1,
  buffer: (bytes: number) => new Uint8Array(bytes).fill(7),
};

setInterval(() => timerTurns++, 1).unref();

function run(id: number, method: string, params: unknown[] | null | undefined): void {
  const answer = (value: unknown): void => {
    try {
      link.answer(id, value);
    } catch (error) {
      link.fail(id, { message: (error as Error).message, name: (error as Error).name });
    }
  };
  const fail = (error: unknown): void => link.fail(id, { message: (error as Error).message });
  try {
    const value = methods[method].apply({ id }, (params ?? []) as never[]);
    if (value instanceof Promise) value.then(answer, fail);
    else answer(value);
  } catch (error) {
    fail(error);
  }
}

parentPort!.on('message', (message) => {
  if (message === '__workerpool-terminate__') isTerminateHeard = true;
  if (message?.millpond !== 'hello') return;
  const port = { kind: 'thread', post: (value: unknown) => parentPort!.postMessage(value) } as const;
  link = joinSharedLink(message.link, port, run);
});
