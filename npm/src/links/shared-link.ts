// The pool's end of a link through shared memory: tasks go into a ring ahead of time, results come back in their slots.
//
// A worker runs its tasks one after the other, so results come in the order of the tasks, and the oldest ticket is the
// only one to look at. Parameters lie in an arena that is used in the same order: what the oldest task leaves free is
// what the newest may take. A value that cannot lie there (`codec.ts`) is posted beside the ring; the envelope says so,
// and whoever opens it waits for the message. So order, start and revocation are always decided in the ring.
//
// Not here: waiting for results (`shared-hub.ts`), the layout (`ring.ts`), the other end (`../worker/shared-link.ts`).

import { Decoder, Encoder, NOT_PLAIN, TOO_LONG } from './codec.ts';
import type { ControlMessage, Link, LinkEvents, LinkPort } from './link.ts';
import { NameReader, NameWriter, UNNAMED } from './names.ts';
import { listen, openChannel, processors, pullMessage } from './platform.node.ts';
import type { DataPort } from './platform.browser.ts';
import {
  ARENA_WORDS, BESIDE, DONE, ENVELOPE, PARAMS, QUEUED, RESULT, SLOTS, VALUE_WORDS_MAX, instantiate,
} from './ring.ts';
import type { Invitation, LateMessage, Plot, RingExports } from './ring.ts';
import { SharedHub } from './shared-hub.ts';
import { Text } from './text.ts';
import { BY_MESSAGE, WAKE } from './wake.ts';

export interface SharedLinkSettings {
  /** Of the same pool; one for all if left out. */
  readonly hub?: SharedHub;
  /** False: the worker never looks for tasks in a loop. */
  readonly spin?: boolean;
  /** False: the worker never blocks its thread to wait for a task. */
  readonly wait?: boolean;
  readonly aheadMax?: number;
}

/** Messages for tasks that were taken back and lie in the worker's port until it reads the next one. */
const STRAY_MESSAGES_MAX = 64;
/** Tasks in the ring, and those taken back whose place is not free yet. A power of two. */
const RECORDS_MAX = 1024;
/** Results after which the pool may hand over more: while it hears of the others the worker has something to do. */
const PART = 64;
const MEAN_SHARE = 0.125;
/** A run time counts at most so many times the mean. */
const OUTLIER = 8;

/** A task that was handed over. Used again and again. */
class Record {
  id = 0;
  slot = 0;
  generation = 0;
  /** Where its parameters begin in the arena, or -1. */
  from = -1;
  isByMessage = false;
  isRevoked = false;
}

let commonHub: SharedHub | undefined;

/** Whether memory can be shared here at all. */
export function sharedLinkPossible(): boolean {
  try {
    if (typeof SharedArrayBuffer !== 'function' || typeof Atomics !== 'object') return false;
    return new WebAssembly.Memory({ initial: 0, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}

/**
 * Opens a link and posts the invitation to the worker. Throws if memory cannot be shared, or there is no more of it:
 * `sharedLinkPossible()` says the first, and messages are the way out of the second.
 */
export function openSharedLink(port: LinkPort, events: LinkEvents, settings: SharedLinkSettings = {}): Link {
  const hub = settings.hub ?? (commonHub ??= new SharedHub());
  return new SharedLink(port, events, settings, hub);
}

export class SharedLink implements Link {
  readonly kind = 'shared';
  readonly aheadMax: number;
  runMeanMs = 0;
  lastRunMs = NaN;
  private readonly port: LinkPort;
  private readonly events: LinkEvents;
  private readonly hub: SharedHub;
  private readonly plot: Plot;
  private readonly ring: RingExports;
  private readonly end: number;
  private readonly words: Int32Array;
  private readonly doubles: Float64Array;
  private readonly envelopes: number;
  private readonly stride: number;
  private readonly names: NameWriter;
  private readonly encoder: Encoder;
  private readonly decoder: Decoder;
  private readonly data: DataPort;
  /** The oldest at `first`, as many as `count`, round and round. */
  private readonly records: Record[] = [];
  private first = 0;
  private count = 0;
  /** Where the next parameters may begin. */
  private arenaAt: number;
  /** Tasks were published since the worker was last rung. */
  private isUnrung = false;
  private strays = 0;
  private messagesHeard = 0;
  private readonly beside: { id: number; value: unknown }[] = [];
  private isOpen = true;

  constructor(port: LinkPort, events: LinkEvents, settings: SharedLinkSettings, hub: SharedHub) {
    const { estate } = hub;
    const plot = estate.lease(performance.now());
    if (plot === undefined) throw new Error('shared link: the memory has reached its limit; use messages for this one');
    this.port = port;
    this.events = events;
    this.hub = hub;
    this.plot = plot;
    this.aheadMax = Math.min(settings.aheadMax ?? SLOTS - 1, SLOTS - 1);
    this.ring = instantiate(estate.module, estate.memory, plot.poolBlock, estate.blockBytes);
    this.end = this.ring.ring_create(plot.region, plot.regionBytes, SLOTS, plot.workerBell);
    if (this.end === 0) throw new Error('shared link: the region could not be built; this is a mistake of millpond');
    const text = new Text(estate.memory.buffer as unknown as SharedArrayBuffer);
    this.words = text.words;
    this.doubles = new Float64Array(text.words.buffer);
    this.stride = estate.stride >> 2;
    this.envelopes = (plot.region + this.ring.ring_envelopes(this.end)) >> 2;
    this.names = new NameWriter(text, plot.namesThereWord, plot.namesWords);
    this.encoder = new Encoder(text, this.names);
    this.decoder = new Decoder(text, new NameReader(text, plot.namesBackWord, plot.namesWords));
    this.arenaAt = plot.paramsWord;
    Atomics.store(this.words, plot.consumedWord, plot.resultsWord);
    const channel = openChannel();
    this.data = channel.near;
    // Where messages can be taken out at once, the word that counts them tells when.
    if (pullMessage === undefined || !hub.canWaitAsync) listen(this.data, (message) => this.hearBeside(message));
    this.invite(channel.far, settings);
    hub.add(this);
  }

  private invite(far: Transferable, settings: SharedLinkSettings): void {
    const { estate } = this.hub;
    const link: Invitation = {
      module: estate.module,
      memory: estate.memory,
      blockBytes: estate.blockBytes,
      stride: this.stride,
      plot: this.plot,
      envelopes: this.envelopes,
      poolBell: estate.poolBell,
      spinnersWord: estate.spinnersWord,
      spinnersMax: settings.spin === false ? 0 : processors - 1,
      mayWait: settings.wait !== false,
      mayWaitAsync: this.hub.canWaitAsync,
      timeOrigin: performance.timeOrigin,
      data: far as unknown as DataPort,
    };
    this.port.post({ millpond: 'hello', link }, [far]);
  }

  send(
    id: number, method: string, params: unknown[] | null | undefined, transfer?: readonly Transferable[],
  ): 'sent' | 'full' {
    if (this.count === RECORDS_MAX) return 'full';
    const slot = this.ring.ring_reserve(this.end);
    if (slot < 0) return this.refused(slot);
    const record = (this.records[(this.first + this.count) & (RECORDS_MAX - 1)] ??= new Record());
    const name = this.names.ofMethod(method);
    const kind = this.place(record, name === UNNAMED ? method : undefined, params, transfer);
    if (kind < 0) return 'full';
    if (kind === PARAMS.BY_MESSAGE) {
      // With nothing outstanding nobody would say when there is room again; what is sent now takes the strays along.
      if (this.strays >= STRAY_MESSAGES_MAX && this.count > 0) return 'full';
      // Throws for what cannot be cloned. The slot stays in hand for the next task.
      this.data.postMessage(name === UNNAMED ? [id, params, method] : [id, params], transfer);
    }
    const at = this.envelopes + slot * this.stride;
    const words = this.words;
    this.doubles[at >> 1] = 0;
    words[at + ENVELOPE.ID] = id;
    words[at + ENVELOPE.METHOD] = name;
    words[at + ENVELOPE.PARAMS_KIND] = kind;
    words[at + ENVELOPE.PARAMS_AT] = record.from;
    record.id = id;
    record.slot = slot;
    record.isByMessage = kind === PARAMS.BY_MESSAGE;
    record.isRevoked = false;
    return this.publish(record);
  }

  private publish(record: Record): 'sent' | 'full' {
    const answer = this.ring.ring_publish(this.end, record.id);
    if (answer < 0) {
      if (record.isByMessage) this.strays++;
      return this.refused(answer);
    }
    record.generation = answer;
    this.count++;
    this.hub.expectOne();
    // A worker rung for each of many would fall asleep between them, and every wake-up is a system call: it is rung
    // once for all, when the running code is done. That may take long, so one that has nothing is rung for its first.
    if (this.count === 1 && !this.hub.isFetching) {
      this.ringWorker();
    } else if (!this.isUnrung) {
      this.isUnrung = true;
      this.hub.ringSoon(this);
    }
    return 'sent';
  }

  /** Wakes the worker, if it sleeps, for what was published. */
  ringWorker(): void {
    this.isUnrung = false;
    const way = this.ring.ring_ring(this.end);
    if (way === BY_MESSAGE) this.data.postMessage(WAKE);
    else if (way !== 0) Atomics.notify(this.words, this.plot.workerBell >> 2, 1);
  }

  private refused(refusal: number): 'full' {
    if (refusal === -1) return 'full';
    throw new Error(`shared link: the ring answered ${refusal}; it is broken, end this worker`);
  }

  /** Writes the parameters and says how they travel; below 0 if there is no room now. */
  private place(
    record: Record, method: string | undefined, params: unknown[] | null | undefined,
    transfer?: readonly Transferable[],
  ): number {
    record.from = -1;
    if (transfer !== undefined && transfer.length > 0) return PARAMS.BY_MESSAGE;
    if (params === undefined || params === null) {
      if (method === undefined) return PARAMS.NONE;
      params = [];
    }
    if (!Array.isArray(params)) return PARAMS.BY_MESSAGE;
    const start = this.plot.paramsWord;
    const end = start + ARENA_WORDS;
    const oldest = this.oldestWord();
    if (oldest < 0) this.arenaAt = start;
    const at = this.arenaAt;
    // The room goes to the end, or to the oldest parameters if those lie ahead; one word stays free between.
    const isAhead = oldest > at;
    let room = isAhead ? oldest - 1 : end;
    let written = this.encoder.writeCall(method, params, at, Math.min(room, at + VALUE_WORDS_MAX));
    let from = at;
    let most = room - at;
    if (written === TOO_LONG && !isAhead && oldest > start) {
      room = oldest - 1;
      from = start;
      most = Math.max(most, room - from);
      written = this.encoder.writeCall(method, params, from, Math.min(room, from + VALUE_WORDS_MAX));
    }
    if (written === NOT_PLAIN || (written === TOO_LONG && most >= VALUE_WORDS_MAX)) return PARAMS.BY_MESSAGE;
    if (written < 0) return written;
    record.from = from;
    this.arenaAt = written;
    return method === undefined ? PARAMS.HERE : PARAMS.HERE_WITH_METHOD;
  }

  /** Where the parameters of the oldest task begin that has any in the arena; -1 if none has. */
  private oldestWord(): number {
    for (let index = 0; index < this.count; index++) {
      const { from } = this.records[(this.first + index) & (RECORDS_MAX - 1)];
      if (from >= 0) return from;
    }
    return -1;
  }

  revoke(id: number): boolean {
    const index = this.find(id);
    if (index < 0) return false;
    const record = this.records[(this.first + index) & (RECORDS_MAX - 1)];
    if (this.ring.ring_revoke(this.end, record.slot, record.generation) !== 1) return false;
    record.isRevoked = true;
    if (record.isByMessage) this.strays++;
    this.hub.expectLess(1);
    this.trim();
    return true;
  }

  /** Forgets what was taken back at both ends of the list; what lies between waits for its turn. */
  private trim(): void {
    while (this.count > 0) {
      const last = this.records[(this.first + this.count - 1) & (RECORDS_MAX - 1)];
      if (!last.isRevoked) break;
      if (last.from >= 0) this.arenaAt = last.from;
      this.count--;
    }
    while (this.count > 0 && this.records[this.first].isRevoked) this.dropFirst();
  }

  private dropFirst(): void {
    this.first = (this.first + 1) & (RECORDS_MAX - 1);
    this.count--;
  }

  private find(id: number): number {
    for (let index = 0; index < this.count; index++) {
      const record = this.records[(this.first + index) & (RECORDS_MAX - 1)];
      if (record.id === id && !record.isRevoked) return index;
    }
    return -1;
  }

  startedAt(id: number): number | undefined {
    const index = this.find(id);
    if (index < 0) return undefined;
    const { slot, generation } = this.records[(this.first + index) & (RECORDS_MAX - 1)];
    if (this.ring.ring_poll(this.end, slot, generation) <= QUEUED) return undefined;
    // Still 0: it started this very moment, and the worker is about to say when.
    return this.doubles[(this.envelopes + slot * this.stride) >> 1] || performance.now();
  }

  control(message: ControlMessage): void {
    this.port.post(message);
    Atomics.store(this.words, this.plot.urgentWord, 1);
    this.ringWorker();
  }

  receive(message: unknown): boolean {
    const late = message as LateMessage | null;
    if (typeof late !== 'object' || late === null || late.millpond !== 'late') return false;
    if (late.cleaned !== undefined) this.events.onCleanup(late.id, late.cleaned);
    else this.events.onEvent(late.id, late.event);
    return true;
  }

  /** Whether the oldest task is over, or a message has come. */
  hasNews(): boolean {
    if (this.count === 0) return false;
    if (this.hasPost()) return true;
    const { slot, generation, isRevoked } = this.records[this.first];
    return isRevoked || (this.ring.ring_poll(this.end, slot, generation) >= DONE && this.hasHeard(slot));
  }

  /** Tells of up to so many results: how many. */
  deliver(most: number): number {
    let delivered = 0;
    if (this.hasPost()) this.pull(Atomics.load(this.words, this.plot.postedWord));
    while (delivered < most && this.count > 0) {
      const record = this.records[this.first];
      if (record.isRevoked) {
        this.dropFirst();
        continue;
      }
      if (this.ring.ring_poll(this.end, record.slot, record.generation) < DONE || !this.hasHeard(record.slot)) break;
      this.deliverFirst(record);
      if (++delivered % PART === 0) this.events.onBatchEnd();
    }
    if (delivered % PART !== 0) this.events.onBatchEnd();
    return delivered;
  }

  private deliverFirst(record: Record): void {
    const { id, slot } = record;
    const at = this.envelopes + slot * this.stride;
    const kind = this.words[at + ENVELOPE.RESULT_KIND];
    this.measure(this.doubles[(at + ENVELOPE.RUN_MS) >> 1]);
    let value: unknown;
    let failure: unknown;
    try {
      if ((kind & RESULT.BY_MESSAGE) !== 0) value = this.takeBeside(id);
      else value = this.decoder.read(this.words[at + ENVELOPE.RESULT_AT]);
    } catch (error) {
      failure = error;
    }
    if ((kind & RESULT.BY_MESSAGE) === 0) {
      Atomics.store(this.words, this.plot.consumedWord, this.words[at + ENVELOPE.RESULT_END]);
    }
    if (record.isByMessage) this.strays = 0;
    this.ring.ring_release(this.end, slot, record.generation);
    this.dropFirst();
    this.hub.expectLess(1);
    if (failure !== undefined) this.events.onError(id, { message: String((failure as Error).message) });
    else this.tell(kind & ~RESULT.BY_MESSAGE, id, value);
  }

  private tell(kind: number, id: number, value: unknown): void {
    if (kind === RESULT.ERROR) this.events.onError(id, value);
    else if (kind === RESULT.CLEANED) this.events.onCleanup(id, value as object | null);
    else this.events.onResult(id, value);
  }

  private measure(runMs: number): void {
    this.lastRunMs = runMs;
    const mean = this.runMeanMs;
    // A task that lost its processor for a while says nothing about the others.
    this.runMeanMs = mean === 0 ? runMs : mean + (Math.min(runMs, mean * OUTLIER) - mean) * MEAN_SHARE;
  }

  /** Whether every message has come that was posted before this result. */
  private hasHeard(slot: number): boolean {
    const posted = this.words[this.envelopes + slot * this.stride + ENVELOPE.MESSAGES];
    // Those of later tasks may have come as well.
    return ((this.messagesHeard - posted) | 0) >= 0 || this.pull(posted);
  }

  /** Whether there are messages that can be taken out of the port. */
  private hasPost(): boolean {
    return pullMessage !== undefined && Atomics.load(this.words, this.plot.postedWord) !== this.messagesHeard;
  }

  /** Takes messages out of the port until so many have been heard in all; false if there are not that many. */
  private pull(posted: number): boolean {
    while (((this.messagesHeard - posted) | 0) < 0) {
      const next = pullMessage?.(this.data);
      if (next === undefined) return false;
      this.takeIn(next.message);
    }
    return true;
  }

  private hearBeside(message: unknown): void {
    if (message !== WAKE) this.takeIn(message);
    this.hub.woken();
  }

  private takeIn(message: unknown): void {
    if (message === WAKE) return;
    const [kind, id, value] = message as [number, number, unknown];
    this.messagesHeard = (this.messagesHeard + 1) | 0;
    if (kind === BESIDE.EVENT) this.events.onEvent(id, value);
    else this.beside.push({ id, value });
  }

  private takeBeside(id: number): unknown {
    const next = this.beside.shift();
    if (next === undefined || next.id !== id) throw new Error(`shared link: expected the message of task ${id}`);
    return next.value;
  }

  abandon(): { started: number[]; unstarted: number[] } {
    const started: number[] = [];
    const unstarted: number[] = [];
    if (!this.isOpen) return { started, unstarted };
    this.isOpen = false;
    while (this.deliver(SLOTS) > 0);
    for (let index = 0; index < this.count; index++) {
      const { id, slot, generation, isRevoked } = this.records[(this.first + index) & (RECORDS_MAX - 1)];
      if (isRevoked) continue;
      // One that cannot be taken back had started, or had ended and its message is lost with the worker.
      const isBack = this.ring.ring_revoke(this.end, slot, generation) === 1;
      (isBack ? unstarted : started).push(id);
      this.hub.expectLess(1);
    }
    this.count = 0;
    this.data.close();
    this.hub.remove(this, this.plot, this.port.kind !== 'web');
    return { started, unstarted };
  }
}
