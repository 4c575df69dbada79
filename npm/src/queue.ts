// The order in which waiting tasks leave: first in first out, last in first out, or by the user's own object.
//
// The names and methods of the classes are workerpool's, because `pool.taskQueue` is seen by its users. FIFOQueue is a
// ring of slots, so that a long queue costs the same per task as a short one (Array.shift does not), and has two more
// doors: `unshift` for tasks that come back from a worker before they started, and lanes for priorities.
//
// Tasks that a worker holds ahead of time have not left the queue in the eyes of a user: `ahead` counts them, the
// dispatcher moves it, and size() includes it.

import type { Task } from './task.ts';

/** What a custom queue must be able to do. */
export interface TaskQueue<T = Task> {
  push(task: T): void;
  pop(): T | undefined;
  size(): number;
  contains(task: T): boolean;
  clear(): void;
}

const SLOTS_MIN = 16;
/** A ring that has become this much too large is made smaller: one burst must not hold its memory for ever. */
const SLOTS_KEPT = 1024;

/** A double-ended queue in a ring of slots. */
export class Deque<T> {
  private slots: (T | undefined)[] = new Array(SLOTS_MIN).fill(undefined);
  private head = 0;
  length = 0;

  push(item: T): void {
    if (this.length === this.slots.length) this.resize(this.length * 2);
    this.slots[(this.head + this.length) & (this.slots.length - 1)] = item;
    this.length += 1;
  }

  unshift(item: T): void {
    if (this.length === this.slots.length) this.resize(this.length * 2);
    this.head = (this.head - 1) & (this.slots.length - 1);
    this.slots[this.head] = item;
    this.length += 1;
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.slots[this.head];
    this.slots[this.head] = undefined;
    this.head = (this.head + 1) & (this.slots.length - 1);
    this.length -= 1;
    if (this.slots.length > SLOTS_KEPT && this.length < this.slots.length >> 3) this.resize(this.slots.length >> 1);
    return item;
  }

  at(index: number): T | undefined {
    return index < this.length ? this.slots[(this.head + index) & (this.slots.length - 1)] : undefined;
  }

  /** Takes out up to `count` from the front that `wanted` says yes to, keeping the order of all. */
  takeSome(count: number, wanted: ((item: T) => boolean) | null): T[] {
    const taken: T[] = [];
    if (wanted === null) {
      while (taken.length < count && this.length > 0) taken.push(this.shift() as T);
      return taken;
    }
    for (let left = this.length; left > 0; left--) {
      const item = this.shift() as T;
      if (taken.length < count && wanted(item)) taken.push(item);
      else this.push(item);
    }
    return taken;
  }

  toArray(): T[] {
    const items: T[] = [];
    for (let at = 0; at < this.length; at++) items.push(this.at(at) as T);
    return items;
  }

  clear(): void {
    this.slots = new Array(SLOTS_MIN).fill(undefined);
    this.head = 0;
    this.length = 0;
  }

  private resize(size: number): void {
    const slots = new Array<T | undefined>(size).fill(undefined);
    for (let at = 0; at < this.length; at++) slots[at] = this.slots[(this.head + at) & (this.slots.length - 1)];
    this.slots = slots;
    this.head = 0;
  }
}

interface Lane<T> {
  readonly priority: number;
  readonly tasks: Deque<T>;
}

export class FIFOQueue<T extends object = Task> implements TaskQueue<T> {
  /** Tasks that wait inside workers: still waiting, for whoever counts. */
  ahead = 0;
  private readonly plain = new Deque<T>();
  /** Lanes other than 0, the highest first; null until somebody uses a priority. An empty lane is removed. */
  private lanes: Lane<T>[] | null = null;
  private inLanes = 0;

  /** How many wait here, without those ahead. */
  get waiting(): number {
    return this.plain.length + this.inLanes;
  }

  push(task: T): void {
    const priority = (task as { priority?: number }).priority;
    if (priority === 0 || priority === undefined) {
      this.plain.push(task);
      return;
    }
    this.lane(priority).push(task);
    this.inLanes += 1;
  }

  /** Puts a task that had left back before all others of its priority. */
  unshift(task: T): void {
    const priority = (task as { priority?: number }).priority;
    if (priority === 0 || priority === undefined) {
      this.plain.unshift(task);
      return;
    }
    this.lane(priority).unshift(task);
    this.inLanes += 1;
  }

  pop(): T | undefined {
    if (this.inLanes === 0) return this.plain.shift();
    const lanes = this.lanes as Lane<T>[];
    const at = lanes[0].priority > 0 || this.plain.length === 0 ? 0 : -1;
    return at < 0 ? this.plain.shift() : this.shiftLane(at);
  }

  /** The oldest of the lowest lane, unless that lane is above `priorityMost`: what drop-oldest gives up first. */
  popOldest(priorityMost: number): T | undefined {
    const last = (this.lanes?.length ?? 0) - 1;
    const lowest = last >= 0 ? (this.lanes as Lane<T>[])[last].priority : 0;
    if (last >= 0 && (lowest < 0 || this.plain.length === 0)) {
      return lowest <= priorityMost ? this.shiftLane(last) : undefined;
    }
    return priorityMost >= 0 ? this.plain.shift() : undefined;
  }

  size(): number {
    return this.plain.length + this.inLanes + this.ahead;
  }

  contains(task: T): boolean {
    const deques = [this.plain, ...(this.lanes ?? []).map((lane) => lane.tasks)];
    return deques.some((deque) => deque.toArray().includes(task));
  }

  clear(): void {
    this.plain.clear();
    this.lanes = null;
    this.inLanes = 0;
  }

  private lane(priority: number): Deque<T> {
    const lanes = (this.lanes ??= []);
    let at = 0;
    while (at < lanes.length && lanes[at].priority > priority) at += 1;
    if (at === lanes.length || lanes[at].priority !== priority) lanes.splice(at, 0, { priority, tasks: new Deque() });
    return lanes[at].tasks;
  }

  private shiftLane(at: number): T | undefined {
    const lanes = this.lanes as Lane<T>[];
    const task = lanes[at].tasks.shift();
    this.inLanes -= 1;
    if (lanes[at].tasks.length === 0) lanes.splice(at, 1);
    return task;
  }
}

export class LIFOQueue<T = Task> implements TaskQueue<T> {
  private tasks: T[] = [];

  push(task: T): void {
    this.tasks.push(task);
  }

  pop(): T | undefined {
    return this.tasks.pop();
  }

  size(): number {
    return this.tasks.length;
  }

  contains(task: T): boolean {
    return this.tasks.includes(task);
  }

  clear(): void {
    this.tasks.length = 0;
  }
}

const METHODS: readonly (keyof TaskQueue)[] = ['push', 'pop', 'size', 'contains', 'clear'];

/** The queue that the option asks for; the error texts are workerpool's. */
export function createQueue(strategy: 'fifo' | 'lifo' | TaskQueue | string): TaskQueue {
  if (strategy === 'fifo') return new FIFOQueue();
  if (strategy === 'lifo') return new LIFOQueue();
  if (typeof strategy === 'string') throw new Error(`Unknown queue strategy: ${strategy}`);
  if (!strategy) throw new Error('Queue strategy cannot be null or undefined');
  for (const name of METHODS) {
    if (typeof strategy[name] !== 'function') throw new Error(`Queue strategy must implement method: ${name}`);
  }
  return strategy;
}
