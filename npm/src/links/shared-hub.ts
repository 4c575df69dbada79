// The pool's side of all its shared links together: one memory, one bell, one loop that fetches results.
//
// While results are expected the loop looks at every link once a turn of the event loop, for as long as that has lately
// paid off (`wake.ts`); then it arms the bell and leaves the thread alone. What one turn fetches from a link has a
// limit, so that timers and sockets of the main thread live. Nothing here keeps the process alive: turns end by
// themselves once nothing comes, and a pending wait does not count.
//
// Not here: what a link carries (`shared-link.ts`).

import { ringWasm } from '../embedded.node.ts';
import { nextTurn, processors } from './platform.node.ts';
import { Estate } from './ring.ts';
import type { Plot } from './ring.ts';
import type { SharedLink } from './shared-link.ts';
import { Patience, Sleeper, waitAsync } from './wake.ts';

/** How long results are looked for before the main thread sleeps, in ms. */
const LOOK_MS_MIN = 0.1;
const LOOK_MS_MAX = 0.3;
/** Results that one link delivers in one turn. */
const BATCH_MAX = 256;
/** How long a plot rests in a browser, which does not say when a worker that was ended is really gone. */
const REST_MS = 30_000;

export interface HubSettings {
  /** False: as if there were no `Atomics.waitAsync`. */
  readonly waitAsync?: boolean;
  readonly wasm?: Uint8Array<ArrayBuffer> | WebAssembly.Module;
}

export class SharedHub {
  readonly estate: Estate;
  readonly canWaitAsync: boolean;
  private readonly links = new Set<SharedLink>();
  private readonly words: Int32Array;
  private readonly sleeper: Sleeper;
  private readonly patience = processors > 1 ? new Patience(LOOK_MS_MIN, LOOK_MS_MAX) : new Patience(0, 0);
  /** Results are being told, and whoever hears of one may hand over the next task. */
  isFetching = false;
  private expected = 0;
  private state: 'idle' | 'looking' | 'asleep' = 'idle';
  private waitsSince = 0;
  private isTurning = false;
  private readonly unrung: SharedLink[] = [];
  /** A reaction to it runs as a microtask; `queueMicrotask` costs Node several times as much. */
  private readonly settled = Promise.resolve();
  private readonly ringAll = (): void => {
    for (const link of this.unrung) link.ringWorker();
    this.unrung.length = 0;
  };
  private readonly turn = (): void => {
    this.isTurning = false;
    this.look();
  };

  constructor(settings: HubSettings = {}) {
    const wasm = settings.wasm ?? ringWasm();
    this.estate = new Estate(wasm instanceof WebAssembly.Module ? wasm : new WebAssembly.Module(wasm));
    this.words = new Int32Array(this.estate.memory.buffer);
    this.canWaitAsync = settings.waitAsync !== false && waitAsync() !== undefined;
    const wait = this.canWaitAsync ? waitAsync() : undefined;
    this.sleeper = new Sleeper(this.words, this.estate.poolBell, () => this.woken(), wait);
  }

  add(link: SharedLink): void {
    this.links.add(link);
  }

  /** A link is gone: its results are not expected any more. It may have died with a wake-up in its hand. */
  remove(link: SharedLink, plot: Plot, isDeadForCertain: boolean): void {
    if (!this.links.delete(link)) return;
    const words = new Int32Array(this.estate.memory.buffer);
    if (Atomics.exchange(words, plot.spinningWord, 0) !== 0) Atomics.sub(words, this.estate.spinnersWord, 1);
    this.estate.giveBack(plot, isDeadForCertain ? 0 : performance.now() + REST_MS);
    if (this.state === 'asleep') this.beginToLook();
  }

  /** A task was published. */
  expectOne(): void {
    this.expected++;
    if (this.state === 'idle' || (this.state === 'asleep' && this.patience.lookMs > 0)) this.beginToLook();
  }

  /** Wakes the worker of a link once the code that is running now has handed over all it wants to. */
  ringSoon(link: SharedLink): void {
    if (this.unrung.push(link) === 1) void this.settled.then(this.ringAll);
  }

  /** So many tasks were answered, taken back or given up. */
  expectLess(count: number): void {
    this.expected -= count;
  }

  /** The bell rang, or a message came that a result waits for. */
  woken(): void {
    if (this.state !== 'asleep') return;
    const waitedMs = performance.now() - this.waitsSince;
    this.wakeUp();
    this.patience.miss(waitedMs);
    this.fetch();
    this.goOn();
  }

  private beginToLook(): void {
    this.wakeUp();
    this.schedule();
  }

  private wakeUp(): void {
    Atomics.store(this.words, this.estate.poolBell >> 2, 0);
    this.state = 'looking';
    this.waitsSince = performance.now();
  }

  private schedule(): void {
    if (this.isTurning) return;
    this.isTurning = true;
    nextTurn(this.turn);
  }

  private look(): void {
    if (this.state !== 'looking') return;
    const since = this.waitsSince;
    const fetched = this.fetch();
    if (this.state !== 'looking') return;
    if (fetched > 0) {
      this.waitsSince = performance.now();
      this.patience.hit(this.waitsSince - since);
    }
    this.goOn();
  }

  /** Everything that had come was delivered: looks on, sleeps, or is done. */
  private goOn(): void {
    if (this.state !== 'looking') return;
    if (this.expected === 0) this.state = 'idle';
    else if (performance.now() - this.waitsSince >= this.patience.lookMs && this.fellAsleep()) return;
    else this.schedule();
  }

  /** Delivers what has come: how many. */
  private fetch(): number {
    let fetched = 0;
    this.isFetching = true;
    try {
      for (const link of this.links) fetched += link.deliver(BATCH_MAX);
    } finally {
      this.isFetching = false;
    }
    return fetched;
  }

  /** Sleeps until the bell rings; false if something has come meanwhile. */
  private fellAsleep(): boolean {
    const bell = this.estate.poolBell;
    Atomics.store(this.words, bell >> 2, this.sleeper.way);
    for (const link of this.links) {
      if (link.hasNews()) {
        Atomics.store(this.words, bell >> 2, 0);
        this.waitsSince = performance.now();
        return false;
      }
    }
    this.state = 'asleep';
    this.sleeper.sleep();
    return true;
  }
}
