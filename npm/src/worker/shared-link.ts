// The worker's end of a link through shared memory: takes tasks out of the ring, runs them one at a time, and waits for
// the next without freezing its event loop.
//
// When the ring is dry the worker looks for a bounded moment, then blocks its thread for a millisecond at most (only as
// long as every method so far has answered before it returned: a worker with promises has other things to do), then
// waits by a promise or a message, which leaves its event loop free. While tasks flow, the event loop gets a turn every
// few milliseconds, and at once when the pool says that something urgent is in the post. `../links/WAKE.md` has the
// protocol.
//
// Not here: finding and running the method (`runner.ts`), the layout (`../links/ring.ts`).

import { Decoder, Encoder } from '../links/codec.ts';
import { NameReader, NameWriter } from '../links/names.ts';
import { listen, nextTurn, pullMessage } from '../links/platform.node.ts';
import { BESIDE, ENVELOPE, PARAMS, RESULT, VALUE_WORDS_MAX, instantiate } from '../links/ring.ts';
import type { Invitation, LateMessage, RingExports } from '../links/ring.ts';
import { Text } from '../links/text.ts';
import { BY_MESSAGE, BY_NOTIFY, Patience, Sleeper, WAKE, waitAsync } from '../links/wake.ts';
import type { RunTask, WorkerLink, WorkerPort } from './link.ts';

/** How long the ring is looked at before the worker sleeps, in ms. */
const LOOK_MS_MIN = 0.02;
const LOOK_MS_MAX = 0.2;
/** Looks between two looks at the clock. */
const LOOKS = 32;
/** How long the thread may be blocked, in ms. */
const BLOCK_MS = 1;
/** How long tasks may flow before the event loop gets a turn, in ms. */
const FLOW_MS = 5;
/** Messages for tasks that are not here yet. The pool sends no more than it has slots and strays. */
const INBOX_MAX = 1024;

/** Joins the link of an invitation and begins to take tasks. */
export function joinSharedLink(link: unknown, port: WorkerPort, run: RunTask): WorkerLink {
  return new SharedWorkerLink(link as Invitation, port, run);
}

type Parcel = [id: number, params: unknown[] | undefined, method?: string];

class SharedWorkerLink implements WorkerLink {
  private readonly invitation: Invitation;
  private readonly port: WorkerPort;
  private readonly run: RunTask;
  private readonly ring: RingExports;
  private readonly end: number;
  private readonly words: Int32Array;
  private readonly doubles: Float64Array;
  private readonly names: NameReader;
  private readonly encoder: Encoder;
  private readonly decoder: Decoder;
  private readonly sleeper: Sleeper;
  private readonly patience: Patience;
  private readonly bellWord: number;
  private readonly urgentWord: number;
  /** From this thread's clock to the pool's, in ms. */
  private readonly clockOffset: number;
  /** Where the next result may begin. */
  private arenaAt: number;
  private messagesPosted = 0;
  private readonly inbox: Parcel[] = [];
  /** The task that runs: its id and the first word of its envelope; id 0 while none does. */
  private id = 0;
  private envelope = 0;
  private startedMs = 0;
  /** The task waits for its parameters, which are in the post. */
  private awaitsParcel = false;
  private isFlowing = false;
  private isTurning = false;
  private hasPromises = false;
  private turnedMs = 0;
  private drySinceMs = 0;

  constructor(invitation: Invitation, port: WorkerPort, run: RunTask) {
    const { plot, memory } = invitation;
    this.invitation = invitation;
    this.port = port;
    this.run = run;
    this.ring = instantiate(invitation.module, memory, plot.workerBlock, invitation.blockBytes);
    this.end = this.ring.ring_open(plot.region, plot.regionBytes, invitation.poolBell);
    if (this.end === 0) {
      throw new Error('shared link: expected the region of the pool, got another; take both sides from one release');
    }
    const text = new Text(memory.buffer as unknown as SharedArrayBuffer);
    this.words = text.words;
    this.doubles = new Float64Array(text.words.buffer);
    this.names = new NameReader(text, plot.namesThereWord, plot.namesWords);
    this.decoder = new Decoder(text, this.names);
    this.encoder = new Encoder(text, new NameWriter(text, plot.namesBackWord, plot.namesWords));
    this.bellWord = plot.workerBell >> 2;
    this.urgentWord = plot.urgentWord;
    this.arenaAt = plot.resultsWord;
    this.clockOffset = performance.timeOrigin - invitation.timeOrigin;
    const wait = invitation.mayWaitAsync ? waitAsync() : undefined;
    this.sleeper = new Sleeper(this.words, plot.workerBell, () => this.wakeUp(), wait);
    this.patience = invitation.spinnersMax > 0 ? new Patience(LOOK_MS_MIN, LOOK_MS_MAX) : new Patience(0, 0);
    // With a port that can be read at once and a bell that can be waited for, nothing needs to be heard.
    if (wait === undefined || pullMessage === undefined) listen(invitation.data, (message) => this.hear(message));
    this.turnedMs = performance.now();
    this.flowInNextTurn();
  }

  answer(id: number, value: unknown, transfer?: readonly Transferable[]): void {
    this.endTask(id, RESULT.VALUE, value, transfer);
  }

  fail(id: number, error: object): void {
    this.endTask(id, RESULT.ERROR, error);
  }

  cleaned(id: number, error: object | null): void {
    this.endTask(id, RESULT.CLEANED, error);
  }

  emit(id: number, payload: unknown, transfer?: readonly Transferable[]): void {
    if (id !== this.id) {
      this.port.post({ millpond: 'late', id, event: payload } satisfies LateMessage, transfer);
      return;
    }
    this.post(BESIDE.EVENT, id, payload, transfer);
    const way = this.ring.ring_ring(this.end);
    if (way > 0) this.wakePool(way);
  }

  receive(_message: unknown): boolean {
    return false;
  }

  private post(kind: number, id: number, value: unknown, transfer?: readonly Transferable[]): void {
    this.invitation.data.postMessage([kind, id, value], transfer);
    this.messagesPosted = (this.messagesPosted + 1) | 0;
    Atomics.store(this.words, this.invitation.plot.postedWord, this.messagesPosted);
  }

  /** Ends the task that runs. Throws what structured clone throws: then it has not ended. */
  private endTask(id: number, kind: number, value: unknown, transfer?: readonly Transferable[]): void {
    if (id !== this.id || id === 0) {
      // Only a clean-up may come after its task's end; whatever else does is too late.
      if (kind === RESULT.CLEANED) {
        this.port.post({ millpond: 'late', id, cleaned: value as object | null } satisfies LateMessage);
      }
      return;
    }
    const at = this.envelope;
    const words = this.words;
    const begin = this.place(value, transfer);
    let now = performance.now();
    this.doubles[(at + ENVELOPE.RUN_MS) >> 1] = now - this.startedMs;
    if (begin < 0) {
      this.post(BESIDE.RESULT, id, value, transfer);
      now = performance.now();
    }
    words[at + ENVELOPE.RESULT_KIND] = begin < 0 ? kind | RESULT.BY_MESSAGE : kind;
    words[at + ENVELOPE.RESULT_AT] = begin;
    words[at + ENVELOPE.RESULT_END] = this.arenaAt;
    words[at + ENVELOPE.MESSAGES] = this.messagesPosted;
    this.startedMs = now;
    this.id = 0;
    const way = this.ring.ring_finish(this.end);
    if (way > 0) this.wakePool(way);
    if (!this.isFlowing) this.flow();
  }

  private wakePool(way: number): void {
    if (way === BY_MESSAGE) this.invitation.data.postMessage(WAKE);
    else Atomics.notify(this.words, this.invitation.poolBell >> 2, 1);
  }

  /** Writes a result into the arena: where it begins, or below 0 if it has to go by message. */
  private place(value: unknown, transfer?: readonly Transferable[]): number {
    if (transfer !== undefined && transfer.length > 0) return -1;
    const { resultsWord: start, arenaWords, consumedWord } = this.invitation.plot;
    // What lies from here on to where the last result ended has not been read by the pool.
    const oldest = Atomics.load(this.words, consumedWord);
    let at = this.arenaAt;
    // All has been read: begin again where the memory is warm, as long as the longest value has room there.
    if (oldest === at && at - start > VALUE_WORDS_MAX) at = start;
    const isAhead = oldest > at;
    const room = isAhead ? oldest - 1 : start + arenaWords;
    let from = at;
    let written = this.encoder.write(value, from, Math.min(room, from + VALUE_WORDS_MAX));
    if (written === -1 && !isAhead && room - at < VALUE_WORDS_MAX) {
      from = start;
      written = this.encoder.write(value, from, Math.min(oldest - 1, from + VALUE_WORDS_MAX));
    }
    if (written < 0) return -1;
    this.arenaAt = written;
    return from;
  }

  private flowInNextTurn(): void {
    if (this.isTurning) return;
    this.isTurning = true;
    nextTurn(() => {
      this.isTurning = false;
      this.turnedMs = performance.now();
      this.flow();
    });
  }

  private wakeUp(): void {
    Atomics.store(this.words, this.bellWord, 0);
    if (this.isFlowing || this.isTurning || this.id !== 0) return;
    this.turnedMs = performance.now();
    this.patience.miss(this.turnedMs - this.drySinceMs);
    this.flow();
  }

  /** Runs tasks until there are none, one is not over yet, or the event loop is due. */
  private flow(): void {
    if (this.isFlowing || this.isTurning || this.id !== 0) return;
    this.isFlowing = true;
    this.startedMs = performance.now();
    for (;;) {
      const slot = this.ring.ring_start(this.end);
      if (slot < 0) {
        if (slot !== -1) throw new Error(`shared link: the ring answered ${slot}; it is broken`);
        if (this.waitHere()) continue;
        break;
      }
      this.begin(slot);
      if (this.id !== 0) {
        this.hasPromises ||= !this.awaitsParcel;
        break;
      }
      if (this.startedMs - this.turnedMs > FLOW_MS || this.words[this.urgentWord] !== 0) {
        this.giveWay();
        break;
      }
    }
    this.isFlowing = false;
  }

  /** Lets the event loop have a turn: what the pool posted before it said "urgent" is heard in it. */
  private giveWay(): void {
    Atomics.store(this.words, this.urgentWord, 0);
    this.flowInNextTurn();
  }

  private begin(slot: number): void {
    const at = this.invitation.envelopes + slot * this.invitation.stride;
    this.doubles[at >> 1] = this.startedMs + this.clockOffset;
    this.envelope = at;
    this.id = this.words[at + ENVELOPE.ID];
    const kind = this.words[at + ENVELOPE.PARAMS_KIND];
    if (kind === PARAMS.HERE) {
      const method = this.names.name(this.words[at + ENVELOPE.METHOD]);
      this.run(this.id, method, this.decoder.readParams(this.words[at + ENVELOPE.PARAMS_AT]));
    } else if (kind === PARAMS.BY_MESSAGE) {
      this.awaitsParcel = true;
      this.openParcel();
    } else if (kind === PARAMS.HERE_WITH_METHOD) {
      const { method, params } = this.decoder.readCall(this.words[at + ENVELOPE.PARAMS_AT], true);
      this.run(this.id, method as string, params);
    } else {
      this.run(this.id, this.names.name(this.words[at + ENVELOPE.METHOD]), undefined);
    }
  }

  /** Runs the task whose parameters came by message, once they are there. */
  private openParcel(): void {
    let parcel = this.inbox.shift();
    for (;;) {
      if (parcel === undefined) {
        const next = pullMessage?.(this.invitation.data);
        if (next === undefined) return;
        if (next.message === WAKE) continue;
        parcel = next.message as Parcel;
      }
      // Tasks start in the order of their messages: one of another task was taken back and is dropped.
      if (parcel[0] === this.id) break;
      parcel = this.inbox.shift();
    }
    this.awaitsParcel = false;
    // Opening a large parcel may take longer than the task, and says nothing about how long that runs.
    this.startedMs = performance.now();
    const number = this.words[this.envelope + ENVELOPE.METHOD];
    this.run(this.id, parcel[2] ?? this.names.name(number), parcel[1]);
  }

  private hear(message: unknown): void {
    if (message === WAKE) {
      this.wakeUp();
      return;
    }
    if (this.inbox.length >= INBOX_MAX) this.inbox.shift();
    this.inbox.push(message as Parcel);
    if (this.awaitsParcel) this.openParcel();
  }

  /** The ring is dry: looks on, or blocks for a moment. False: nothing came, and the worker is to be woken. */
  private waitHere(): boolean {
    const since = performance.now();
    if (this.words[this.urgentWord] !== 0 || since - this.turnedMs > FLOW_MS) {
      this.giveWay();
      return false;
    }
    this.drySinceMs = since;
    if (this.lookOn(since)) {
      this.patience.hit(this.startedMs - since);
      return true;
    }
    if (this.invitation.mayWait && !this.hasPromises) {
      Atomics.store(this.words, this.bellWord, BY_NOTIFY);
      if (!this.isDry() || Atomics.wait(this.words, this.bellWord, BY_NOTIFY, BLOCK_MS) !== 'timed-out') {
        Atomics.store(this.words, this.bellWord, 0);
        this.startedMs = performance.now();
        this.patience.miss(this.startedMs - since);
        return true;
      }
    }
    Atomics.store(this.words, this.bellWord, this.sleeper.way);
    if (!this.isDry()) {
      Atomics.store(this.words, this.bellWord, 0);
      this.startedMs = performance.now();
      return true;
    }
    this.sleeper.sleep();
    return false;
  }

  private lookOn(since: number): boolean {
    const until = since + this.patience.lookMs;
    const { spinnersWord, spinnersMax, plot } = this.invitation;
    if (this.patience.lookMs === 0) return false;
    Atomics.store(this.words, plot.spinningWord, 1);
    let found = false;
    if (Atomics.add(this.words, spinnersWord, 1) < spinnersMax) {
      do {
        for (let look = 0; look < LOOKS && !found; look++) found = !this.isDry();
        this.startedMs = performance.now();
      } while (!found && this.startedMs < until && this.words[this.urgentWord] === 0);
    }
    Atomics.sub(this.words, spinnersWord, 1);
    Atomics.store(this.words, plot.spinningWord, 0);
    return found;
  }

  private isDry(): boolean {
    return this.ring.ring_is_dry(this.end) === 1;
  }
}
