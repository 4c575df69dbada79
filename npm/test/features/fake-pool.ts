// A pool that has numbers and no workers, for parts that only look at it and tell it what to do.
//
// Tests of promises that need no thread use it, because with it a test decides what the clock and the queue say.

import type { PoolCore, PoolHooks } from '../../src/hooks.ts';
import { Task } from '../../src/task.ts';
import type { ExecOptions } from '../../src/pool-options.ts';
import type { WorkerHandle } from '../../src/workers/handle.ts';

export class FakeHandle {
  given = 0;
  backlog = 0;
  ready = true;
  open = true;
  terminating = false;
  terminated = false;
  completed = 0;
  failed = 0;
  runMeanMs = 0;
  lastRunMs = NaN;
  weight = 1;
  data: unknown = undefined;
  lastTaskAt: number;
  /** What the next look at its event loop will say; undefined: it cannot tell. */
  share: number | undefined = undefined;
  /** What its heap will be said to be when asked; undefined: it cannot tell. */
  heap: number | undefined = undefined;
  heapUsed = NaN;
  readonly id: number;
  readonly createdAt: number;
  constructor(id: number, createdAt = performance.now()) {
    this.id = id;
    this.createdAt = createdAt;
    this.lastTaskAt = createdAt;
  }
  askHeap(): boolean {
    this.heapUsed = this.heap ?? NaN;
    return this.heap !== undefined;
  }
  busy(): boolean {
    return this.given > 0;
  }
  eventLoopUtilization() {
    return this.share === undefined ? undefined : { active: 0, idle: 0, utilization: this.share };
  }
}

export class FakePool implements PoolCore {
  readonly handles: FakeHandle[] = [];
  minWorkers: number | undefined = undefined;
  maxWorkers = 8;
  maxQueueSize = Infinity;
  growLimit = 8;
  aheadCount = 0;
  hooks: PoolHooks = {
    admission: null, router: null, steal: null, observer: null, dispose: () => {}, restart: () => {},
  } as unknown as PoolHooks;
  waiting: Task[] = [];
  readonly emitted: [event: string, detail: any][] = [];
  readonly recycled: number[] = [];
  private serial = 0;

  get workers(): readonly WorkerHandle[] {
    return this.handles as unknown as readonly WorkerHandle[];
  }
  pending(): number {
    return this.waiting.length;
  }
  stats() {
    return { totalWorkers: this.handles.length, busyWorkers: 0, idleWorkers: 0, pendingTasks: 0, activeTasks: 0 };
  }
  submit(task: Task): void {
    this.waiting.push(task);
  }
  dropOldest(priorityMost = Infinity): Task | undefined {
    const at = this.waiting.findIndex((task) => task.priority <= priorityMost);
    return at < 0 ? undefined : this.waiting.splice(at, 1)[0];
  }
  addWorkers(count: number): number {
    const made = Math.min(count, this.maxWorkers - this.handles.length);
    for (let left = made; left > 0; left--) this.handles.push(new FakeHandle(this.handles.length));
    return made;
  }
  retireIdle(count: number): number {
    return this.handles.splice(this.handles.length - count, count).length;
  }
  recycle(handle: WorkerHandle): void {
    this.recycled.push(handle.id);
    (handle as unknown as FakeHandle).terminating = true;
  }
  emit(event: string, detail: unknown): void {
    this.emitted.push([event, detail]);
  }
  task(method = 'work', options?: ExecOptions): Task {
    const host = { ending: () => {} };
    return new Task(host as never, ++this.serial, method, [], options);
  }
}
