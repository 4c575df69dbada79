// Which worker gets which task, and when.
//
// As in workerpool: the first idle worker, else a new one while there may be more, else the queue. What is added keeps
// that order and only fills gaps in time:
//
// - Ahead: when all workers are busy and no more may be made, tasks are handed to busy workers before their turn (some
//   200 us of work, at least one), so that a worker never waits for this thread between two tasks. Only with our own
//   order (FIFO, priorities); LIFO and custom queues decide every single pop.
// - Stealing: a worker that runs dry while another still has unstarted tasks takes some of those over.
// - Routes: with a router a task is bound to one worker and waits in that worker's own line.
//
// Invariant: while a task waits in the shared queue no open worker is idle. Whoever makes a worker idle or open calls
// `feed`, so `submit` may look at the length of the queue alone.
//
// A queue of the user's own may answer anything, or throw: that costs its user a task, and never the pool.

import type { PoolCore } from './hooks.ts';
import { REJECTED } from './promise.ts';
import { FIFOQueue } from './queue.ts';
import type { TaskQueue } from './queue.ts';
import { Task } from './task.ts';
import type { WorkerHandle } from './workers/handle.ts';

/** How much work a busy worker may hold before its turn. */
const AHEAD_MS = 0.2;
const RETRY_MS = 10;

/** What dispatching needs of the pool. */
export interface DispatchHost extends PoolCore {
  readonly workers: WorkerHandle[];
  /** Makes a worker and adds it; throws what its constructor throws. */
  createWorker(): WorkerHandle;
}

export class Dispatch {
  readonly queue: TaskQueue;
  /** The queue if its order is ours to anticipate. */
  private readonly ordered: FIFOQueue | null;
  private readonly host: DispatchHost;
  /** Tasks in the lines of single workers. */
  private boundCount = 0;
  private isNextSoon = false;

  /** `isOurs`: the queue was made by the pool and nobody else decides its order. */
  constructor(host: DispatchHost, queue: TaskQueue, isOurs: boolean) {
    this.host = host;
    this.queue = queue;
    this.ordered = isOurs && queue instanceof FIFOQueue ? queue : null;
  }

  /** Waiting tasks, wherever they wait. */
  pending(): number {
    return this.queue.size() + this.boundCount;
  }

  /** Takes a new task to a worker or the queue. A worker that cannot be made makes this throw: nothing was queued. */
  submit(task: Task): void {
    if (this.host.hooks.router !== null) return this.submitRouted(task);
    const queue = this.ordered;
    if (queue === null) {
      const handle = this.idleOrNew();
      this.queue.push(task);
      if (handle !== null) this.feed(handle);
      return;
    }
    if (queue.waiting === 0) {
      const handle = this.idleOrNew() ?? this.leastLoaded();
      if (handle !== null) {
        if (handle.give(task)) return;
        queue.push(task);
        if (handle.given === 0) this.feed(handle);
        return;
      }
    }
    queue.push(task);
  }

  /** As submit, where nobody called who could be told that no worker can be made: the task is. */
  resubmit(task: Task): void {
    try {
      this.submit(task);
    } catch (error) {
      task.end('failed', REJECTED, error);
    }
  }

  /** The first worker without a task, or a new one; null if all are busy and no more may be made. */
  idleOrNew(): WorkerHandle | null {
    const { workers } = this.host;
    for (let at = 0; at < workers.length; at++) {
      const handle = workers[at];
      if (handle.given === 0 && handle.open) return handle;
    }
    return workers.length < this.host.growLimit ? this.host.createWorker() : null;
  }

  /** Gives a worker what it may have. */
  feed(handle: WorkerHandle): void {
    if (!handle.open) return;
    if (handle.given > 0 && this.ordered === null) return;
    let room = this.roomOf(handle);
    while (room > 0) {
      const task = handle.bound.length > 0 ? this.popBound(handle) : this.popShared();
      if (task === undefined) break;
      // Cancelled while it waited: it leaves now.
      if (!task.live) continue;
      if (!handle.give(task)) {
        this.putBack(task);
        // A link without room has something out, whose answer leads back here; should it not, look again.
        if (handle.given === 0) setTimeout(() => this.feed(handle), RETRY_MS);
        return;
      }
      if (!handle.open) return;
      // One that could not be sent was rejected, and its callbacks may have changed everything.
      room = task.handle === handle ? room - 1 : this.roomOf(handle);
    }
    if (handle.given === 0 && handle.open) this.steal(handle);
    this.tellRoom();
  }

  /** Gives every worker what it may have, and makes workers for what waits. */
  next(): void {
    const { workers } = this.host;
    for (let at = 0; at < workers.length && this.pending() > 0; at++) {
      if (workers[at].given === 0) this.feed(workers[at]);
    }
    // As many as wait now: one that is rejected may be submitted again at once, and for ever.
    for (let left = this.sharedCount(); left > 0 && this.mayGrow(); left--) {
      const task = this.popShared();
      if (task === undefined) return;
      if (!task.live) continue;
      try {
        this.host.createWorker().give(task);
      } catch (error) {
        // Nobody called who could be told; the task that needs the worker is.
        task.end('failed', REJECTED, error);
      }
    }
    // What waits now has nobody whose end would lead back here.
    if (workers.length === 0 && this.mayGrow()) this.nextSoon();
  }

  /** Back to the front: it had left the queue and has not started. */
  putBack(task: Task): void {
    task.handle = null;
    if (this.ordered !== null) this.ordered.unshift(task);
    else this.queue.push(task);
  }

  /** A worker is going away: what was bound to it is bound anew, in order. */
  rebind(handle: WorkerHandle): void {
    const tasks: Task[] = [];
    while (handle.bound.length > 0) tasks.push(this.popBound(handle) as Task);
    for (const task of tasks) {
      task.handle = null;
      if (task.live) this.resubmit(task);
    }
  }

  /** Takes all waiting tasks out, those ahead in workers as well. */
  drain(): Task[] {
    const tasks: Task[] = [];
    for (const handle of this.host.workers) tasks.push(...handle.takeBack(true));
    for (const handle of this.host.workers) {
      while (handle.bound.length > 0) tasks.push(this.popBound(handle) as Task);
    }
    for (let left = this.sharedCount(); left > 0; left--) {
      const task = this.popShared();
      if (task === undefined) break;
      tasks.push(task);
    }
    this.queue.clear();
    return tasks;
  }

  /** The oldest waiting task whose priority is at most this; those that were cancelled go on the way. */
  dropOldest(priorityMost: number): Task | undefined {
    let task: Task | undefined;
    do task = this.popOldest(priorityMost);
    while (task !== undefined && !task.live);
    return task;
  }

  private popOldest(priorityMost: number): Task | undefined {
    // What is ahead in workers is older than what is in the queue.
    const fullest = this.fullest(null);
    if (fullest !== null) {
      const task = this.takeUnstarted(fullest, 1, (task) => task.priority <= priorityMost)[0];
      if (task !== undefined) return task;
    }
    return this.ordered !== null ? this.ordered.popOldest(priorityMost) : this.popShared();
  }

  /** The next of the shared queue. */
  private popShared(): Task | undefined {
    if (this.ordered !== null) return this.ordered.pop();
    try {
      const popped: unknown = this.queue.pop() ?? undefined;
      if (popped === undefined || popped instanceof Task) return popped;
      throw new TypeError(`queueStrategy.pop(): expected a task that was pushed, or undefined, got ${typeof popped}`);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
      return undefined;
    }
  }

  /** How many wait in the shared queue. */
  private sharedCount(): number {
    return this.queue.size() - this.aheadCount();
  }

  private mayGrow(): boolean {
    return this.host.workers.length < this.host.growLimit && this.sharedCount() > 0;
  }

  private nextSoon(): void {
    if (this.isNextSoon) return;
    this.isNextSoon = true;
    setTimeout(() => {
      this.isNextSoon = false;
      this.next();
    }, RETRY_MS);
  }

  private aheadCount(): number {
    return this.ordered === null ? 0 : this.ordered.ahead;
  }

  /** How many tasks a worker may be handed just now. */
  private roomOf(handle: WorkerHandle): number {
    if (!handle.ready || this.ordered === null) return handle.given === 0 ? 1 : 0;
    this.setAheadLimit(handle);
    const room = 1 + handle.aheadLimit - handle.given;
    if (room <= 1 || handle.bound.length > 0) return room;
    // A fair part of a short queue: the other workers will be back soon.
    const share = Math.ceil(this.ordered.waiting / this.host.workers.length);
    return Math.min(room, Math.max(share, 1));
  }

  private setAheadLimit(handle: WorkerHandle): void {
    const link = handle.link;
    const { steal, oneAtATime } = this.host.hooks;
    if (link === null || link.aheadMax === 0 || oneAtATime) handle.aheadLimit = 0;
    else if (link.runMeanMs === 0 || (steal !== null && !steal.enabled)) handle.aheadLimit = 1;
    else handle.aheadLimit = Math.min(link.aheadMax, Math.max(1, Math.floor(AHEAD_MS / link.runMeanMs)));
  }

  /** A busy worker that may hold one more, the one with the least. */
  private leastLoaded(): WorkerHandle | null {
    const { workers } = this.host;
    let best: WorkerHandle | null = null;
    for (let at = 0; at < workers.length; at++) {
      const handle = workers[at];
      if (!handle.ready || !handle.open || handle.given > handle.aheadLimit) continue;
      if (best === null || handle.given < best.given) best = handle;
    }
    return best;
  }

  private submitRouted(task: Task): void {
    const { host } = this;
    this.idleOrNew();
    const open = host.workers.filter((handle) => handle.open);
    const chosen = open.length > 0 ? host.hooks.router?.choose(task, open) : undefined;
    if (chosen === undefined || !chosen.open) {
      const idle = this.idleOrNew();
      this.queue.push(task);
      if (idle !== null) this.feed(idle);
      return;
    }
    task.handle = chosen;
    chosen.bound.push(task);
    this.boundCount += 1;
    this.feed(chosen);
    // The chosen one is busy and somebody else is not: that is what stealing is for.
    if (chosen.bound.length > 0) {
      const idle = open.find((handle) => handle.given === 0 && handle.open);
      if (idle !== undefined) this.steal(idle);
    }
  }

  private popBound(handle: WorkerHandle): Task | undefined {
    const task = handle.bound.shift();
    if (task !== undefined) this.boundCount -= 1;
    return task;
  }

  /** An idle worker takes over part of what the fullest one has not started. */
  private steal(thief: WorkerHandle): void {
    if (this.boundCount === 0 && this.aheadCount() === 0) return;
    const policy = this.host.hooks.steal;
    if (policy !== null && !policy.enabled) return;
    const victim = this.fullest(thief);
    if (victim === null) return;
    const unstarted = unstartedOf(victim);
    const count = policy === null ? unstarted - (unstarted >> 1) : policy.count(unstarted, victim.id);
    if (count <= 0) return;
    const { router, observer } = this.host.hooks;
    const tasks = this.takeUnstarted(victim, count, router === null ? null : (task) => router.mayMove(task, thief));
    if (tasks.length === 0) {
      policy?.cameBackEmpty?.();
      return;
    }
    // Bound to the thief from here on: it takes as much as it has room for, and the rest can be stolen in turn.
    for (const task of tasks) {
      task.handle = thief;
      thief.bound.push(task);
    }
    this.boundCount += tasks.length;
    observer?.stolen(tasks.length, victim, thief);
    this.feed(thief);
  }

  private fullest(except: WorkerHandle | null): WorkerHandle | null {
    let best: WorkerHandle | null = null;
    let most = 0;
    for (const handle of this.host.workers) {
      const unstarted = unstartedOf(handle);
      if (handle === except || unstarted <= most) continue;
      best = handle;
      most = unstarted;
    }
    return best;
  }

  /** The oldest unstarted tasks of a worker: those it holds ahead come before those bound to it. */
  private takeUnstarted(victim: WorkerHandle, count: number, wanted: ((task: Task) => boolean) | null): Task[] {
    const tasks = victim.given > 1 ? victim.takeOldest(count, wanted) : [];
    if (tasks.length < count) {
      const more = victim.bound.takeSome(count - tasks.length, wanted);
      this.boundCount -= more.length;
      tasks.push(...more);
    }
    return tasks;
  }

  private tellRoom(): void {
    const admission = this.host.hooks.admission;
    if (admission !== null && admission.waiting > 0) admission.room(this.host);
  }
}

function unstartedOf(handle: WorkerHandle): number {
  return handle.bound.length + (handle.given > 1 ? handle.given - 1 : 0);
}
