// Which worker gets a task: a strategy by name (decided by the brain over a picture of the workers), a function, or an
// object with `select`; and how one is swapped for another while tasks flow.
//
// Before each choice the picture is brought up to what the pool's handles say, instead of being told of every step a
// task takes: a task that was stolen, cancelled or given back can then never be counted wrong. A custom strategy that
// throws or names a worker that is not in the list costs nothing but the choice: the task goes to the first free
// worker, and the pool warns once for each strategy.
//
// Not here: the strategies themselves (`brain/choose.ts`), affinity (which comes first: `affinity.ts`), stealing.

import type { WorkerHandle } from './workers/handle.ts';
import type { BrainFace } from './plain-brain.ts';
import type { Task } from './task.ts';
import type { Utilisation } from './utilisation.ts';

export const STRATEGY_NAMES = [
  'round-robin', 'least-used', 'least-busy', 'least-elu', 'weighted-round-robin', 'fair-share', 'interleaved-weighted',
  'power-of-two', 'random',
] as const;
export type StrategyName = (typeof STRATEGY_NAMES)[number];

/** The numbers that `WorkerInfo.state` has. */
export const WorkerState = { COLD: 0, WARMING: 1, READY: 2, BUSY: 3, TERMINATING: 4, TERMINATED: 5 } as const;
export type WorkerState = (typeof WorkerState)[keyof typeof WorkerState];

/** A worker as a custom strategy sees it: a copy of this moment. */
export interface WorkerInfo {
  readonly id: number;
  readonly state: WorkerState;
  /** Tasks it has run. */
  readonly taskCount: number;
  readonly activeTasks: number;
  readonly queuedTasks: number;
  /** Mean run time of recent tasks, ms. */
  readonly averageTaskTime: number;
  readonly lastTaskTime: number;
  /** Since its last task ended, ms; 0 while it has one. */
  readonly idleTime: number;
  readonly weight: number;
  readonly eluPercent?: number;
}

export interface TaskInfo {
  readonly id: number;
  readonly method: string;
  readonly priority: number;
  readonly affinityKey?: string;
  readonly estimatedDuration?: number;
}

export interface SelectionResult {
  readonly worker: WorkerInfo;
  readonly reason?: string;
}

export type WorkerChoiceStrategyFn = (workers: readonly WorkerInfo[], task: TaskInfo) => WorkerInfo | undefined;

export interface WorkerChoiceStrategy {
  readonly name: string;
  select(workers: readonly WorkerInfo[], task: TaskInfo): SelectionResult | undefined;
  onTaskComplete?(workerId: number, duration: number): void;
  onWorkerAdded?(worker: WorkerInfo): void;
  onWorkerRemoved?(workerId: number): void;
  reset?(): void;
}

export type StrategyOption = StrategyName | WorkerChoiceStrategyFn | WorkerChoiceStrategy;

/** What a strategy looks at in the picture, and so what is shown to the brain before a choice. */
interface Reads {
  readonly load?: true;
  readonly completed?: true;
  readonly runTime?: true;
  readonly utilisation?: true;
}
const READS: Readonly<Record<StrategyName, Reads>> = {
  'round-robin': {},
  random: {},
  'least-busy': { load: true },
  'power-of-two': { load: true },
  'least-used': { load: true, completed: true },
  'least-elu': { load: true, utilisation: true },
  'weighted-round-robin': { runTime: true },
  'interleaved-weighted': { runTime: true },
  'fair-share': { load: true, runTime: true },
};

/** What the picture holds of a worker, kept at its handle: a call into the brain costs more than to see that nothing
 * has changed. */
class Shown {
  running = 0;
  queued = 0;
  completed = 0;
  runTotalMs = 0;
  share = 0;
  /** Run time so far, ms; `runTotalMs` is what was shown of it. */
  ranMs = 0;
}

const CHOICES_PER_CLOCK = 16;

export class Chooser {
  private strategy: StrategyOption;
  private reads: Reads = {};
  private readonly known = new Set<number>();
  private hasWarned = false;
  private wereAllTaking = true;
  private choices = 0;
  private now = 0;

  constructor(
    strategy: StrategyOption, private readonly brain: BrainFace, private readonly utilisation: Utilisation,
    private readonly warn: (message: string) => void,
  ) {
    this.strategy = strategy;
    this.use(strategy, []);
  }

  /** The name in use: of an object its own, of a function 'custom'. */
  get name(): string {
    if (typeof this.strategy === 'string') return this.strategy;
    return typeof this.strategy === 'function' ? 'custom' : this.strategy.name;
  }

  /** From the next task on this one chooses. Tasks that were already given stay where they are. */
  use(strategy: StrategyOption, workers: readonly WorkerHandle[]): void {
    const now = performance.now();
    if (typeof strategy === 'string') {
      this.brain.chooser.use(strategy, now);
      this.reads = READS[strategy];
    } else if (typeof strategy === 'object') {
      this.guard(() => {
        strategy.reset?.();
        for (const handle of workers) strategy.onWorkerAdded?.(this.info(handle, now));
      });
    }
    this.strategy = strategy;
    this.hasWarned = false;
  }

  choose(task: Task, workers: readonly WorkerHandle[]): WorkerHandle | undefined {
    if (workers.length === 0) return undefined;
    try {
      if (typeof this.strategy === 'string') return this.chooseByBrain(workers, this.roughNow());
      return this.chooseByUser(task, workers, performance.now());
    } catch (error) {
      this.warnOnce(error);
      return undefined;
    }
  }

  added(handle: WorkerHandle): void {
    this.known.add(handle.id);
    handle.data = new Shown();
    const { strategy } = this;
    if (typeof strategy === 'object') this.guard(() => strategy.onWorkerAdded?.(this.info(handle, performance.now())));
  }

  removed(handle: WorkerHandle): void {
    this.known.delete(handle.id);
    const { strategy } = this;
    if (typeof strategy === 'object') this.guard(() => strategy.onWorkerRemoved?.(handle.id));
  }

  completed(handle: WorkerHandle, runMs: number): void {
    if (runMs > 0) (handle.data as Shown).ranMs += runMs;
    const { strategy } = this;
    if (typeof strategy === 'object') this.guard(() => strategy.onTaskComplete?.(handle.id, runMs));
  }

  /** A clock costs as much as a choice: strategies that compare only loads and counts get an old one. */
  private roughNow(): number {
    const { runTime, utilisation } = this.reads;
    if (runTime || utilisation || this.choices % CHOICES_PER_CLOCK === 0) this.now = performance.now();
    this.choices += 1;
    return this.now;
  }

  private chooseByBrain(workers: readonly WorkerHandle[], now: number): WorkerHandle | undefined {
    const { brain } = this;
    this.showWhoTakes(workers);
    const { reads } = this;
    if (reads.load || reads.runTime) for (let at = 0; at < workers.length; at++) this.show(workers[at], now);
    const id = brain.chooser.choose(now);
    if (id < 0) return undefined;
    for (let at = 0; at < workers.length; at++) if (workers[at].id === id) return workers[at];
    return undefined;
  }

  /** Brings a worker's row of the picture up to what its handle says. */
  private show(handle: WorkerHandle, now: number): void {
    const { reads } = this;
    const picture = this.brain.workers;
    const shown = handle.data as Shown;
    const running = handle.given > 0 ? 1 : 0;
    const queued = handle.given - running + handle.backlog;
    if (reads.load && (running !== shown.running || queued !== shown.queued)) {
      shown.running = running;
      shown.queued = queued;
      picture.setLoad(handle.id, running, queued);
    }
    if (reads.runTime && shown.ranMs !== shown.runTotalMs) {
      shown.runTotalMs = shown.ranMs;
      picture.setRunTime(handle.id, shown.ranMs, handle.runMeanMs);
    }
    if (reads.completed) {
      const completed = handle.completed + handle.failed;
      if (completed === shown.completed) return;
      shown.completed = completed;
      picture.setCompleted(handle.id, completed);
    } else if (reads.utilisation) {
      const share = this.utilisation.share(handle, now);
      if (share === shown.share) return;
      shown.share = share;
      picture.setUtilisation(handle.id, share);
    }
  }

  /** `workers` are those that take tasks; the picture may hold others (being cleaned up, about to go). */
  private showWhoTakes(workers: readonly WorkerHandle[]): void {
    const picture = this.brain.workers;
    const areAllTaking = workers.length === this.known.size;
    if (areAllTaking && this.wereAllTaking) return;
    const taking = new Set(workers.map((handle) => handle.id));
    for (const id of this.known) picture.setState(id, taking.has(id) ? 'ready' : 'terminating');
    this.wereAllTaking = areAllTaking;
  }

  private chooseByUser(task: Task, workers: readonly WorkerHandle[], now: number): WorkerHandle | undefined {
    const { strategy } = this;
    const infos = workers.map((handle) => this.info(handle, now));
    const facts: TaskInfo = {
      id: task.serial, method: task.method, priority: task.priority, affinityKey: task.affinity,
    };
    const picked = typeof strategy === 'function'
      ? strategy(infos, facts)
      : (strategy as WorkerChoiceStrategy).select(infos, facts)?.worker;
    if (picked === undefined || picked === null) return undefined;
    const handle = workers.find((each) => each.id === picked.id);
    if (!handle) throw new TypeError(`expected one of the workers it was given, got a worker with id ${picked.id}`);
    return handle;
  }

  private info(handle: WorkerHandle, now: number): WorkerInfo {
    const active = handle.given > 0 ? 1 : 0;
    return {
      id: handle.id,
      state: stateOf(handle),
      taskCount: handle.completed + handle.failed,
      activeTasks: active,
      queuedTasks: handle.given - active + handle.backlog,
      averageTaskTime: handle.runMeanMs,
      lastTaskTime: handle.lastRunMs,
      idleTime: active === 1 ? 0 : now - handle.lastTaskAt,
      weight: handle.weight,
      eluPercent: 100 * this.utilisation.share(handle, now),
    };
  }

  private guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.warnOnce(error);
    }
  }

  private warnOnce(error: unknown): void {
    if (this.hasWarned) return;
    this.hasWarned = true;
    this.warn(`workerChoiceStrategy ${this.name}: it threw, tasks go to the first free worker: ${String(error)}`);
  }
}

function stateOf(handle: WorkerHandle): WorkerState {
  if (handle.terminated) return WorkerState.TERMINATED;
  if (handle.terminating) return WorkerState.TERMINATING;
  if (!handle.ready) return WorkerState.WARMING;
  return handle.given > 0 ? WorkerState.BUSY : WorkerState.READY;
}
