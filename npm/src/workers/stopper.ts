// How a worker is made to end: asked first, killed when it does not.
//
//   ask (it may clean up) --grace--> kill --grace--> kill -9 (processes only)
//
// Web workers cannot be asked: they end at once. A worker that has not registered yet is asked when it does, because it
// may by then have something to clean up; only the default worker, which never has, is killed without a word.

import type { RawWorker } from './spawn.ts';

export class Stopper {
  private readonly worker: RawWorker;
  private readonly graceMs: number;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(worker: RawWorker, graceMs: number) {
    this.worker = worker;
    this.graceMs = graceMs;
  }

  /** Starts the clock; `ask` posts the request. True: it is gone already and no exit will be heard. */
  begin(ask: (() => void) | null): boolean {
    if (typeof this.worker.kill !== 'function') {
      this.worker.terminate?.();
      this.worker.killed = true;
      return true;
    }
    this.timer = setTimeout(() => this.kill(), this.graceMs);
    if (ask !== null) this.ask(ask);
    return false;
  }

  /** A channel that is closed cannot carry the request: then there is nobody to ask. */
  ask(ask: () => void): void {
    try {
      ask();
    } catch {
      this.kill();
    }
  }

  kill(): void {
    clearTimeout(this.timer);
    if (typeof this.worker.kill !== 'function') {
      this.worker.terminate?.();
      return;
    }
    this.worker.kill();
    if (!this.worker.isChildProcess) return;
    const child = this.worker as unknown as { kill(signal: string): boolean };
    this.timer = setTimeout(() => child.kill('SIGKILL'), this.graceMs);
  }

  /** The exit was seen. */
  done(): void {
    clearTimeout(this.timer);
  }
}
