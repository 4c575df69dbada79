// Waiting for the other side without losing its call: how long to keep looking, and how to sleep. WAKE.md has the
// protocol and why no wake-up is lost; the bell itself is `crates/queue/src/wpol/bell.rs`.
//
// Sleeping and being woken costs some 50 µs a side, looking costs a processor. So a side looks for a bounded moment
// before it sleeps, and only while looking has lately paid off.

/** How a sleeper wants to be woken: what its bell says. 0 is awake. */
export const BY_NOTIFY = 1;
export const BY_MESSAGE = 2;

/** What is posted to wake a side that cannot be notified. */
export const WAKE = 0;

/** What a look that pays off adds to the score, at most to the limit, and what one that does not takes away. */
const SCORE_MAX = 6;
const MISS_COST = 2;
const TRY_EVERY = 16;
/** Waits without a look after one that took far too long: whoever looked, or whom it waited for, had no processor. */
const REST = 64;

interface WaitAsync {
  (words: Int32Array, index: number, value: number): { async: boolean; value: unknown };
}

/** `Atomics.waitAsync`, where there is one. */
export function waitAsync(): WaitAsync | undefined {
  return (Atomics as unknown as { waitAsync?: WaitAsync }).waitAsync;
}

/**
 * How long looking is worth it, learnt from how long the waits were.
 *
 * Two sides that both sleep wake each other by turns, and each finds the other gone to sleep again: the waits look
 * long although nothing but the waking makes them so. So after a miss the look is made longer than the wait was, which
 * breaks the circle if it was one. If less than two looks of three pay off, because tasks are long or the processors
 * have other work, looking is given up, but for a try now and then. A look that pays off only after far longer than it
 * may last shows that one of the two had no processor: the next waits are slept through, which leaves it to the other.
 */
export class Patience {
  /** Milliseconds to look before sleeping. */
  lookMs: number;
  private readonly lookMsMin: number;
  private readonly lookMsMax: number;
  private score = SCORE_MAX;
  private skipped = 0;
  private rest = 0;

  /** Looks for `lookMsMin` while that pays off, and for `lookMsMax` to find out. Both 0: never looks. */
  constructor(lookMsMin: number, lookMsMax: number) {
    this.lookMsMin = lookMsMin;
    this.lookMsMax = lookMsMax;
    this.lookMs = lookMsMin;
  }

  /** What was waited for came after so long, while looking. */
  hit(waitedMs: number): void {
    if (waitedMs > 2 * this.lookMsMax) {
      this.rest = REST;
      this.lookMs = 0;
      return;
    }
    this.score = Math.min(this.score + 1, SCORE_MAX);
    // Short waits shorten the look, but slowly: one of them says little about the next.
    this.lookMs = Math.min(Math.max(this.lookMs * 0.9, 2 * waitedMs, this.lookMsMin), this.lookMsMax);
  }

  /** It came after so long, when this side had gone to sleep. */
  miss(waitedMs: number): void {
    if (this.rest > 0) {
      this.rest--;
      return;
    }
    // Only a look can fail; a wait that began asleep says nothing about looking but how long it was.
    if (this.lookMs > 0) this.score = Math.max(this.score - MISS_COST, 0);
    const isTry = this.score > 0 || ++this.skipped % TRY_EVERY === 0;
    // Twice, since a wait by sleeping is longer than the same wait by looking.
    if (waitedMs > 2 * this.lookMsMax || !isTry) this.lookMs = 0;
    else this.lookMs = Math.min(Math.max(waitedMs * 1.5, this.lookMsMin), this.lookMsMax);
  }
}

/**
 * The bell of one side as that side sees it: armed, and then woken through a promise or a message. One promise is
 * enough for any number of times: while it is pending it stays in the queue of the word, whatever that says meanwhile.
 */
export class Sleeper {
  private readonly words: Int32Array;
  private readonly word: number;
  private readonly woken: () => void;
  private readonly wait: WaitAsync | undefined;
  private isPending = false;

  /** `woken` is called after every wake-up, also one for nothing. */
  constructor(words: Int32Array, bell: number, woken: () => void, wait = waitAsync()) {
    this.words = words;
    this.word = bell >> 2;
    this.woken = woken;
    this.wait = wait;
  }

  /** What to arm the bell with. */
  get way(): number {
    return this.wait === undefined ? BY_MESSAGE : BY_NOTIFY;
  }

  /** Sleeps, after the bell was armed and everything was looked at again. `woken` is called in a later turn. */
  sleep(): void {
    if (this.wait === undefined || this.isPending) return;
    const answer = this.wait.call(Atomics, this.words, this.word, BY_NOTIFY);
    this.isPending = true;
    const wake = (): void => {
      this.isPending = false;
      this.woken();
    };
    if (answer.async) (answer.value as Promise<unknown>).then(wake);
    else Promise.resolve().then(wake);
  }
}
