// The memory that a pool shares with its workers: what lies where, and the instances of ring.wasm that work on it.
//
// One memory for a pool, since every WebAssembly memory reserves gigabytes of addresses; one *plot* in it for a worker,
// used again when the worker is gone. All instances share the memory, so each end of each link is an instance of its
// own with a *block* of its own for stack and handles (`crates/wasm-ring/src/ground.rs`).
//
//   memory   | module's data | commons | plot 0 | plot 1 | ...
//   commons  | bell of the pool | spinning workers |          each on a line of its own
//   plot     | block of the pool's end | block of the worker's end | header | names there | names back | region
//            | arena of parameters | arena of results |
//   header   | bell of the worker | urgent | results consumed | spinning, messages posted |     a line each
//   envelope | 64 bytes for each slot of the region, see ENVELOPE below
//
// Not here: who waits for what (`wake.ts`), the two ends (`shared-link.ts`, `../worker/shared-link.ts`).

import type { DataPort } from './platform.browser.ts';

/** Tasks that one link can hold. */
export const SLOTS = 256;
const PAGE_BYTES = 65_536;
const LINE_BYTES = 128;
const NAMES_WORDS = 1024;
/** Words of each arena: what is in flight one way, 256 KB, of which only what was touched is real. */
export const ARENA_WORDS = 65_536;
/**
 * A value of more words than this, 16 KB, goes by message: engines copy shared memory word by word, so that 64 KB there
 * and back take 140 us of processor time through the arenas and 75 by messages. At most a quarter of an arena.
 */
export const VALUE_WORDS_MAX = 4096;
/** The memory's limit: 256 MB are plots for some 400 workers; those beyond use messages. */
const PAGES_MAX = 4096;
const VERSION = 2;

/** What ring.wasm exports; addresses and answers are numbers, negative answers are refusals. */
export interface RingExports {
  readonly __stack_pointer: WebAssembly.Global;
  readonly __heap_base: WebAssembly.Global;
  ring_version(): number;
  ring_block_bytes(): number;
  ring_stride(): number;
  ring_region_bytes(slots: number): number;
  ring_create(region: number, bytes: number, slots: number, bell: number): number;
  ring_open(region: number, bytes: number, bell: number): number;
  ring_envelopes(end: number): number;
  ring_reserve(end: number): number;
  ring_publish(end: number, task: number): number;
  ring_poll(end: number, slot: number, generation: number): number;
  ring_revoke(end: number, slot: number, generation: number): number;
  ring_release(end: number, slot: number, generation: number): number;
  ring_start(end: number): number;
  ring_is_dry(end: number): number;
  ring_finish(end: number): number;
  ring_ring(end: number): number;
}

/** What `ring_poll` answers. */
export const QUEUED = 0;
export const RUNNING = 1;
export const DONE = 2;

/** Words of an envelope, from its first. The pool writes the first part, the worker the second. */
export const ENVELOPE = {
  /** A double: when the task started, in ms of the pool's clock; 0 until then. */
  STARTED: 0,
  ID: 2,
  /** The method's number in the table of names. */
  METHOD: 3,
  PARAMS_KIND: 4,
  PARAMS_AT: 5,
  /** A double: ms that the task ran. */
  RUN_MS: 6,
  RESULT_KIND: 8,
  RESULT_AT: 9,
  RESULT_END: 10,
  /** Messages that the worker had posted by then: they come before this result. */
  MESSAGES: 11,
} as const;

export const PARAMS = { NONE: 0, HERE: 1, HERE_WITH_METHOD: 2, BY_MESSAGE: 3 } as const;
export const RESULT = { VALUE: 1, ERROR: 2, CLEANED: 3, BY_MESSAGE: 4 } as const;

/** Where everything of one link lies: bytes, but words where it says so. */
export interface Plot {
  readonly poolBlock: number;
  readonly workerBlock: number;
  readonly workerBell: number;
  readonly urgentWord: number;
  readonly consumedWord: number;
  readonly spinningWord: number;
  /** How many messages the worker has posted beside the ring. */
  readonly postedWord: number;
  readonly namesThereWord: number;
  readonly namesBackWord: number;
  readonly namesWords: number;
  readonly region: number;
  readonly regionBytes: number;
  readonly paramsWord: number;
  readonly resultsWord: number;
  readonly arenaWords: number;
}

/** Kinds of messages that the worker posts beside the ring. */
export const BESIDE = { RESULT: 1, EVENT: 2 } as const;

/** What comes when its task is over, and so by the worker's ordinary port: nobody looks at the ring any more. */
export interface LateMessage {
  readonly millpond: 'late';
  readonly id: number;
  readonly event?: unknown;
  readonly cleaned?: object | null;
}

/** What the worker needs to join; see `../worker/shared-link.ts`. */
export interface Invitation {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly blockBytes: number;
  readonly stride: number;
  readonly plot: Plot;
  readonly envelopes: number;
  readonly poolBell: number;
  readonly spinnersWord: number;
  readonly spinnersMax: number;
  readonly mayWait: boolean;
  readonly mayWaitAsync: boolean;
  /** The pool's `performance.timeOrigin`. */
  readonly timeOrigin: number;
  readonly data: DataPort;
}

/** Makes an instance whose stack is in a block of its own. */
export function instantiate(
  module: WebAssembly.Module, memory: WebAssembly.Memory, block: number, blockBytes: number,
): RingExports {
  const ring = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as RingExports;
  ring.__stack_pointer.value = block + blockBytes;
  return ring;
}

/** The memory of a pool, and which plots of it are in use. */
export class Estate {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  /** Address of the pool's bell. */
  readonly poolBell: number;
  /** Word that counts the workers that are spinning. */
  readonly spinnersWord: number;
  readonly blockBytes: number;
  readonly stride: number;
  private readonly regionBytes: number;
  private readonly plotBytes: number;
  private next: number;
  private readonly fallow: Plot[] = [];
  private readonly resting: { plot: Plot; until: number }[] = [];

  constructor(module: WebAssembly.Module) {
    this.module = module;
    this.memory = new WebAssembly.Memory({ initial: 2, maximum: PAGES_MAX, shared: true });
    // Its own stack will do for the questions asked here: nobody else uses it, and this thread not at the same time.
    const ring = new WebAssembly.Instance(module, { env: { memory: this.memory } }).exports as unknown as RingExports;
    if (typeof ring.ring_version !== 'function' || ring.ring_version() !== VERSION) {
      const found = typeof ring.ring_version === 'function' ? ring.ring_version() : 'none';
      throw new Error(`ring.wasm: expected version ${VERSION}, got ${found}; take code and module from one release`);
    }
    this.blockBytes = ring.ring_block_bytes();
    this.stride = ring.ring_stride();
    this.regionBytes = ring.ring_region_bytes(SLOTS);
    const commons = roundUp(ring.__heap_base.value as number, LINE_BYTES);
    this.poolBell = commons;
    this.spinnersWord = (commons + LINE_BYTES) >> 2;
    this.next = roundUp(commons + 2 * LINE_BYTES, this.blockBytes);
    this.plotBytes = roundUp(this.plan(0).end, this.blockBytes);
  }

  /** A plot for a worker, or undefined if the memory has reached its limit. */
  lease(now: number): Plot | undefined {
    while (this.resting.length > 0 && this.resting[0].until <= now) this.fallow.push(this.resting.shift()!.plot);
    const plot = this.fallow.pop() ?? this.extend();
    if (plot !== undefined) this.clear(plot);
    return plot;
  }

  /** Gives a plot back. It rests if the worker may not be dead for certain. */
  giveBack(plot: Plot, restUntil: number): void {
    if (restUntil === 0) this.fallow.push(plot);
    else this.resting.push({ plot, until: restUntil });
  }

  private extend(): Plot | undefined {
    const end = this.next + this.plotBytes;
    const missing = Math.ceil((end - this.memory.buffer.byteLength) / PAGE_BYTES);
    try {
      if (missing > 0) this.memory.grow(missing);
    } catch {
      return undefined;
    }
    const plot = this.plan(this.next);
    this.next = end;
    return plot;
  }

  /** What a new link expects to be zero; the region clears the rest of itself. */
  private clear(plot: Plot): void {
    const words = new Int32Array(this.memory.buffer);
    words[plot.poolBlock >> 2] = 0;
    words[plot.workerBlock >> 2] = 0;
    words.fill(0, plot.workerBell >> 2, plot.namesThereWord);
    words.fill(0, plot.region >> 2, (plot.region >> 2) + 64);
  }

  private plan(at: number): Plot & { end: number } {
    const header = at + 2 * this.blockBytes;
    const namesThereWord = (header + 4 * LINE_BYTES) >> 2;
    const namesBackWord = namesThereWord + NAMES_WORDS;
    const region = roundUp((namesBackWord + NAMES_WORDS) * 4, LINE_BYTES);
    const paramsWord = roundUp(region + this.regionBytes, LINE_BYTES) >> 2;
    const resultsWord = paramsWord + ARENA_WORDS;
    return {
      poolBlock: at,
      workerBlock: at + this.blockBytes,
      workerBell: header,
      urgentWord: (header + LINE_BYTES) >> 2,
      consumedWord: (header + 2 * LINE_BYTES) >> 2,
      spinningWord: (header + 3 * LINE_BYTES) >> 2,
      postedWord: ((header + 3 * LINE_BYTES) >> 2) + 1,
      namesThereWord,
      namesBackWord,
      namesWords: NAMES_WORDS,
      region,
      regionBytes: this.regionBytes,
      paramsWord,
      resultsWord,
      arenaWords: ARENA_WORDS,
      end: (resultsWord + ARENA_WORDS) * 4,
    };
  }
}

function roundUp(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}
