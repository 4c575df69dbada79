// One worker as its pool sees it: what it was given, what came back, and how it ends.
//
// The oldest task it was given is running, or about to; the others are only ahead, and can be had back till they start.
//
//   booting --'ready'--> open <--clean-up done-- cleaning up --failed--> ending --exit--> gone
//      `- holds one task     `-- cancel or timeout of a running task --'
//
// A task that was cancelled while it ran is `tracked` until the worker says that its abort listeners are done; until
// then the worker gets nothing new, because it may have to be killed.
//
// Field and method names that workerpool's handlers have are kept: users reach for them through `pool.workers`.
//
// Not here: which task comes next (`../dispatch.ts`), finding tasks by number (`given.ts`), killing (`stopper.ts`).

import { exitMessage, TerminateError, unpackError } from '../errors.ts';
import { CLEANUP, TERMINATE } from '../links/link.ts';
import type { Link, LinkEvents, LinkPort } from '../links/link.ts';
import { nextTurn } from '../links/platform.node.ts';
import type { RemovalReason } from '../hooks.ts';
import { Promise, REJECTED, RESOLVED } from '../promise.ts';
import type { Settled } from '../promise.ts';
import { Deque } from '../queue.ts';
import type { Task } from '../task.ts';
import { releaseDebugPort } from './debug-ports.ts';
import { GivenTasks } from './given.ts';
import { spawnWorker, workerKind } from './spawn.node.ts';
import type { LoopUse, RawWorker, SpawnOptions } from './spawn.ts';
import { Stopper } from './stopper.ts';
import { TRACED } from './traced.ts';

/** A worker that keeps dying with the same unstarted task takes it along in the end. */
const RETURNS_MAX = 3;

export interface HandleSettings extends SpawnOptions {
  workerTerminateTimeout: number;
  /** Whether the script is the package's own, which has nothing to clean up. */
  isDefaultScript: boolean;
}

/** What a handle asks of its pool. */
export interface HandleHost {
  /** Counts the tasks that wait inside workers. */
  readonly level: { ahead: number };
  openLink(handle: WorkerHandle, port: LinkPort, canShare: boolean): Link;
  /** A task has its answer; it is not settled yet. */
  finished(handle: WorkerHandle, task: Task, state: Settled, value: unknown): void;
  /** The worker can take more. */
  free(handle: WorkerHandle): void;
  /** Tasks that have not started: to the front of the queue, in this order. */
  putBack(tasks: readonly Task[]): void;
  /** The worker must go: a clean-up failed. */
  discard(handle: WorkerHandle): void;
  /** It is gone; `lost` had started, `back` had not. Called once. */
  gone(handle: WorkerHandle, lost: readonly Task[], back: readonly Task[], error: Error): void;
}

interface Tracked {
  readonly task: Task;
  readonly id: number;
  readonly timer: ReturnType<typeof setTimeout>;
}

type Ended = (error: Error | null, handle: WorkerHandle) => void;

export class WorkerHandle implements LinkEvents, LinkPort {
  readonly id: number;
  readonly script: string;
  worker: RawWorker | null;
  readonly kind: 'thread' | 'process' | 'web';
  readonly forkArgs: readonly string[] | undefined;
  readonly forkOpts: any;
  readonly workerOpts: any;
  readonly workerThreadOpts: any;
  readonly workerTerminateTimeout: number;
  readonly debugPort: number | undefined;
  link: Link | null = null;
  ready = false;
  terminating = false;
  terminated = false;
  /** It has been told to end. */
  cleaning = false;
  /** Whether it may be given tasks. */
  open = true;
  /** Tasks handed over and not answered. */
  given = 0;
  /** How many beyond the first it may hold; moved by the dispatcher. */
  aheadLimit = 0;
  /** Tasks that a router bound to it. */
  readonly bound = new Deque<Task>();
  readonly createdAt: number = performance.now();
  lastTaskAt: number = this.createdAt;
  completed = 0;
  failed = 0;
  /** Bytes of its heap, as it last told. */
  heapUsed = NaN;
  weight = 1;
  data: any = undefined;
  /** Why it is on its way out, for those who count. */
  reason: RemovalReason = 'terminated';

  private readonly host: HandleHost;
  private readonly settings: HandleSettings;
  private readonly stopper: Stopper;
  private readonly tasks = new GivenTasks();
  /** The one task that waits for the worker to register. */
  private held: Task | null = null;
  private tracked: Tracked[] = [];
  private callbacks: Ended[] = [];
  private speaksShared = false;
  private heapAsked = false;
  private bootTimer: ReturnType<typeof setTimeout> | undefined;
  private crash: unknown = undefined;
  /** Its end is being told: nothing more can be asked of it. */
  private isEnding = false;
  private loopBefore: object | undefined;

  constructor(host: HandleHost, id: number, script: string, settings: HandleSettings) {
    this.host = host;
    this.id = id;
    this.script = script;
    this.settings = settings;
    this.kind = workerKind(settings.workerType);
    this.forkArgs = settings.forkArgs;
    this.forkOpts = settings.forkOpts;
    this.workerOpts = settings.workerOpts;
    this.workerThreadOpts = settings.workerThreadOpts;
    this.workerTerminateTimeout = settings.workerTerminateTimeout;
    this.debugPort = settings.debugPort;
    const worker = spawnWorker(script, settings);
    this.worker = worker;
    this.stopper = new Stopper(worker, settings.workerTerminateTimeout);
    worker.on('message', (message) => this.onMessage(message));
    worker.on('error', (error) => this.onWorkerError(error));
    worker.on('exit', (code, signal) => this.onExit(code, signal));
    if (settings.emitStdStreams) {
      worker.on('stdout', (data) => this.onOutput({ stdout: String(data) }));
      worker.on('stderr', (data) => this.onOutput({ stderr: String(data) }));
    }
  }

  /** Bound tasks that wait on this side. */
  get backlog(): number {
    return this.bound.length;
  }

  get runMeanMs(): number {
    return this.link === null ? 0 : this.link.runMeanMs;
  }

  get lastRunMs(): number {
    return this.link === null ? NaN : this.link.lastRunMs;
  }

  busy(): boolean {
    return this.given > 0 || this.cleaning || this.tracked.length > 0 || this.bootTimer !== undefined;
  }

  /** How busy its event loop was since the last call; undefined where the platform does not tell. */
  eventLoopUtilization(): LoopUse | undefined {
    const meter = this.worker?.performance;
    if (!meter) return undefined;
    const now = meter.eventLoopUtilization();
    const since = this.loopBefore === undefined ? now : meter.eventLoopUtilization(now, this.loopBefore);
    this.loopBefore = now;
    return since;
  }

  /** Asks for `heapUsed` anew, one question at a time; false: this worker cannot tell. */
  askHeap(): boolean {
    if (!this.speaksShared || this.worker === null) return false;
    if (!this.heapAsked) {
      this.heapAsked = true;
      this.post({ millpond: 'heap' });
    }
    return true;
  }

  // Handing over ------------------------------------------------------------------------------------------------

  /** Takes a task; false: no room, nothing happened. One that cannot be sent is rejected, and counts as taken. */
  give(task: Task): boolean {
    if (this.ready) return this.send(task);
    if (this.held !== null) return false;
    task.handle = this;
    this.held = task;
    this.given = 1;
    if (task.timeout !== null) task.startTimer();
    return true;
  }

  /** Whether it was given this task and has not answered it. */
  holds(task: Task): boolean {
    return task === this.held || (task.id !== 0 && this.tasks.get(task.id) === task);
  }

  /** Whether nothing is before it. */
  isFirst(task: Task): boolean {
    return task === this.held || this.tasks.list()[0] === task;
  }

  /** When a task that it holds started, on this thread's clock; undefined: it has not. */
  startOf(task: Task): number | undefined {
    return task.id === 0 || this.link === null ? undefined : this.link.startedAt(task.id);
  }

  /** All tasks that have not started, oldest first; they are no longer here. The oldest one is left if asked. */
  takeBack(leaveFirst: boolean): Task[] {
    const tasks = this.tasks.list();
    const back: Task[] = [];
    // The newest first: the worker works its way up from the other end.
    for (let at = tasks.length - 1; at >= (leaveFirst ? 1 : 0); at--) {
      if (this.revoke(tasks[at])) back.push(tasks[at]);
    }
    return back.reverse();
  }

  /** Up to `count` tasks that have not started, for another worker: the oldest, which have waited longest. */
  takeOldest(count: number, wanted: ((task: Task) => boolean) | null): Task[] {
    const back: Task[] = [];
    const tasks = this.tasks.list();
    for (let at = 1; at < tasks.length && back.length < count; at++) {
      if (wanted !== null && !wanted(tasks[at])) continue;
      if (this.revoke(tasks[at])) back.push(tasks[at]);
    }
    return back;
  }

  /** A task is being cancelled: takes it back, or has the worker clean up after it. */
  withdraw(task: Task): void {
    if (task === this.held) {
      this.held = null;
      this.given = 0;
      this.watchBoot();
      if (this.terminating) this.idle();
      return;
    }
    if (!this.holds(task)) return;
    const id = task.id;
    if (this.revoke(task)) {
      // It had not started: in the eyes of its user it waits, and is counted until it is popped.
      this.host.putBack([task]);
      if (this.given === 0) this.idle();
      return;
    }
    this.forget(task);
    task.handle = this;
    const back = this.takeBack(false);
    const timer = setTimeout(() => this.onCleanup(id, { message: 'no answer' }), this.workerTerminateTimeout);
    this.tracked.push({ task, id, timer });
    this.updateOpen();
    this.control({ id, method: CLEANUP });
    if (back.length > 0) this.host.putBack(back);
  }

  // What the link tells -----------------------------------------------------------------------------------------

  onResult(id: number, value: unknown): void {
    const task = this.take(id);
    if (task === undefined) return this.onLateAnswer(id);
    this.completed += 1;
    this.host.finished(this, task, RESOLVED, value);
  }

  onError(id: number, error: unknown): void {
    const task = this.take(id);
    if (task === undefined) return this.onLateAnswer(id);
    this.failed += 1;
    this.host.finished(this, task, REJECTED, unpackError(error));
  }

  onEvent(id: number, payload: unknown): void {
    const task = this.tasks.get(id);
    if (task !== undefined) return tell(task, payload);
    const tracked = this.tracked.find((entry) => entry.id === id);
    if (tracked !== undefined) tell(tracked.task, payload);
  }

  onCleanup(id: number, error: object | null): void {
    const at = this.tracked.findIndex((entry) => entry.id === id);
    if (at < 0) return;
    clearTimeout(this.tracked[at].timer);
    this.tracked.splice(at, 1);
    this.updateOpen();
    if (error !== null) this.host.discard(this);
    else if (this.tracked.length === 0) this.idle();
  }

  onBatchEnd(): void {
    this.lastTaskAt = performance.now();
    this.host.free(this);
  }

  // LinkPort
  post(message: unknown, transfer?: readonly Transferable[]): void {
    this.worker?.send(message, transfer);
  }

  // Ending ------------------------------------------------------------------------------------------------------

  /** Ends it: after its tasks, or (force) at once, and they are rejected. `callback` hears when it is gone. */
  terminate(force?: boolean, callback?: Ended): void {
    if (typeof callback === 'function') this.callbacks.push(callback);
    if (this.terminated) return this.tellEnded();
    this.terminating = true;
    this.updateOpen();
    for (const entry of this.tracked) clearTimeout(entry.timer);
    this.tracked = [];
    if (force) this.rejectAll(new Error('Worker terminated'));
    if (this.given === 0) this.kill();
  }

  terminateAndNotify(force?: boolean, timeout?: number): Promise<WorkerHandle> {
    const resolver = Promise.defer<WorkerHandle>();
    if (timeout) resolver.promise.timeout(timeout);
    this.terminate(force, (error) => (error ? resolver.reject(error) : resolver.resolve(this)));
    return resolver.promise;
  }

  /** Nothing is left to do here: end if that was asked for, else take more. */
  idle(): void {
    if (!this.terminating) this.host.free(this);
    else if (this.given === 0) this.kill();
  }

  private kill(): void {
    if (this.cleaning || this.isEnding) return;
    this.cleaning = true;
    this.updateOpen();
    const ask = this.ready ? (): void => this.link?.control(TERMINATE) : null;
    if (this.stopper.begin(ask)) this.end(new Error('Worker terminated'));
    else if (!this.ready && this.settings.isDefaultScript) this.stopper.kill();
  }

  private rejectAll(error: Error): void {
    const tasks = this.held === null ? this.tasks.list() : [this.held];
    if (this.given > 1) this.host.level.ahead -= this.given - 1;
    this.tasks.clear();
    this.held = null;
    this.given = 0;
    for (const task of tasks) task.end('terminated', REJECTED, error);
  }

  private onWorkerError(error: any): void {
    const isBlob = this.kind === 'web' && this.settings.isDefaultScript && !this.ready;
    this.crash = isBlob ? blobError(error) : (error ?? new Error('Unknown worker error'));
    // A thread is still unwinding and exits by itself; its exit tells what became of its tasks.
    if (this.worker === null || this.kind === 'thread') return;
    this.stopper.kill();
    this.end(this.crashError());
  }

  private onExit(code: unknown, signal: unknown): void {
    this.stopper.done();
    const worker = this.worker;
    if (worker === null) return;
    const message = exitMessage(code, signal, this.script, worker);
    const tell = (): void => this.end(this.crash === undefined ? new TerminateError(message) : this.crashError());
    // What a thread posted to others while it cleaned up has come in this turn, and is to be heard before its end is.
    if (this.cleaning && this.kind === 'thread') nextTurn(tell);
    else tell();
  }

  private crashError(): Error {
    const { crash } = this;
    const message = (crash as { message?: unknown })?.message;
    return new TerminateError(`Workerpool Worker error: ${message ? message : String(crash)}`, crash);
  }

  /** The worker is gone, expected or not. */
  private end(error: Error): void {
    if (this.isEnding) return;
    this.isEnding = true;
    clearTimeout(this.bootTimer);
    this.bootTimer = undefined;
    this.updateOpen();
    // First of all what it still managed to answer: abandon() tells it, and callbacks run.
    const left = this.link === null ? null : this.link.abandon();
    for (const entry of this.tracked) clearTimeout(entry.timer);
    this.terminated = true;
    this.terminating = false;
    this.tracked = [];
    this.updateOpen();
    const tasks = this.held === null ? this.tasks.list() : [this.held];
    const unstarted = new Set(left === null ? [] : left.unstarted);
    const back = tasks.filter((task) => unstarted.has(task.id) && ++task.returns <= RETURNS_MAX);
    const lost = tasks.filter((task) => !back.includes(task));
    if (this.given > 1) this.host.level.ahead -= this.given - 1;
    this.given = 0;
    this.held = null;
    this.tasks.clear();
    for (const task of back) release(task);
    this.worker?.removeAllListeners?.('message');
    this.worker = null;
    this.link = null;
    releaseDebugPort(this.debugPort);
    const expected = this.cleaning;
    this.cleaning = false;
    if (!expected) this.reason = 'crashed';
    this.host.gone(this, lost, back, error);
    this.tellEnded();
  }

  private tellEnded(): void {
    const callbacks = this.callbacks;
    this.callbacks = [];
    for (const callback of callbacks) callback(null, this);
  }

  // Inside ------------------------------------------------------------------------------------------------------

  private onMessage(message: any): void {
    if (this.terminated) return;
    if (this.link !== null && this.link.receive(message)) return;
    if (message === 'ready') {
      if (!this.ready) this.onReady();
    } else if (typeof message === 'object' && message !== null && message.millpond === 'here') {
      this.speaksShared = message.version === 1;
    } else if (typeof message === 'object' && message !== null && message.millpond === 'heap') {
      this.heapAsked = false;
      this.heapUsed = Number(message.used);
    }
  }

  private onReady(): void {
    this.ready = true;
    clearTimeout(this.bootTimer);
    this.bootTimer = undefined;
    this.updateOpen();
    let link: Link;
    try {
      link = this.host.openLink(this, this, this.speaksShared);
    } catch (error) {
      this.crash = error;
      this.stopper.kill();
      return this.end(this.crashError());
    }
    this.link = link;
    this.tasks.reserve(link.aheadMax);
    if (this.cleaning) return this.stopper.ask(() => link.control(TERMINATE));
    const task = this.held;
    this.held = null;
    this.given = 0;
    if (task !== null && !this.send(task)) this.host.putBack([task]);
    this.idle();
  }

  private send(task: Task): boolean {
    const link = this.link as Link;
    const traced = task.traceparent !== undefined;
    const id = this.tasks.nextId();
    try {
      const sent = link.send(
        id,
        traced ? TRACED : task.method,
        traced ? [task.traceparent, task.method, task.params] : task.params,
        task.options === undefined ? undefined : (task.options.transfer as readonly Transferable[] | undefined),
      );
      if (sent === 'full') return false;
    } catch (error) {
      task.handle = null;
      task.end('failed', REJECTED, error);
      return true;
    }
    task.handle = this;
    this.tasks.add(id, task);
    this.given += 1;
    if (this.given > 1) this.host.level.ahead += 1;
    if (task.timeout !== null) task.startTimer();
    return true;
  }

  private take(id: number): Task | undefined {
    const task = this.tasks.take(id);
    if (task === undefined) return undefined;
    this.given -= 1;
    if (this.given > 0) this.host.level.ahead -= 1;
    return task;
  }

  private forget(task: Task): void {
    this.take(task.id);
    release(task);
  }

  private revoke(task: Task): boolean {
    if (this.link === null || !this.link.revoke(task.id)) return false;
    this.forget(task);
    return true;
  }

  /** The answer of a task that was cancelled: if another has started meanwhile, the worker is well and stays. */
  private onLateAnswer(id: number): void {
    if (this.given > 0) this.onCleanup(id, null);
  }

  /** Something was cancelled before the worker registered: it must do so in time, or another takes its place. */
  private watchBoot(): void {
    this.bootTimer = setTimeout(() => this.host.discard(this), this.workerTerminateTimeout);
    this.updateOpen();
  }

  private control(message: Parameters<Link['control']>[0]): void {
    try {
      this.link?.control(message);
    } catch {
      // The channel is closed: the exit that follows ends everything.
    }
  }

  private onOutput(payload: object): void {
    const running = this.held ?? this.tasks.list()[0];
    if (running !== undefined) tell(running, payload);
    for (const entry of this.tracked) tell(entry.task, payload);
  }

  private updateOpen(): void {
    const usable = !this.terminating && !this.isEnding && !this.cleaning;
    this.open = usable && this.tracked.length === 0 && this.bootTimer === undefined;
  }
}

/** Browsers do not say why a worker does not start; for the default one there is one usual reason. */
function blobError(error: any): Error {
  const words = error?.message ? ` (${error.message})` : '';
  return new Error(
    `the default worker could not be started from a blob: URL${words}; allow "worker-src blob:" in the page's `
    + 'Content-Security-Policy, or give the pool a script',
  );
}

/** The task is nobody's again, and its time has not begun. */
function release(task: Task): void {
  task.handle = null;
  task.id = 0;
  task.stopTimer();
}

/** An event for the task's listener. What that throws is the user's, and must not stop what else has arrived. */
function tell(task: Task, payload: unknown): void {
  const on = task.options?.on;
  if (typeof on !== 'function') return;
  try {
    on(payload);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
