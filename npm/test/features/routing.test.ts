// Who gets a task: names, functions and objects must choose from what is true now, and a broken strategy must cost
// no task.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyRouter } from '../../src/affinity.ts';
import { PlainBrain } from '../../src/plain-brain.ts';
import { Stealing } from '../../src/stealing.ts';
import { Chooser, WorkerState } from '../../src/strategy.ts';
import type { StrategyOption, TaskInfo, WorkerInfo } from '../../src/strategy.ts';
import { Utilisation } from '../../src/utilisation.ts';
import type { WorkerHandle } from '../../src/workers/handle.ts';
import { FakeHandle, FakePool } from './fake-pool.ts';

function chooserWith(strategy: StrategyOption, workers: number) {
  const brain = new PlainBrain();
  const warnings: string[] = [];
  const chooser = new Chooser(strategy, brain, new Utilisation(), (message) => warnings.push(message));
  const handles = Array.from({ length: workers }, (_, id) => new FakeHandle(id));
  for (const handle of handles) {
    brain.workers.add(handle.id);
    chooser.added(handle as unknown as WorkerHandle);
  }
  const pool = new FakePool();
  const choose = (among: FakeHandle[] = handles): number | undefined =>
    chooser.choose(pool.task('work', { priority: 4 }), among as unknown as WorkerHandle[])?.id;
  return { chooser, handles, warnings, choose };
}

test('least-busy reads what the handles say at each choice, and equals take turns', () => {
  const { handles, choose } = chooserWith('least-busy', 3);
  assert.deepEqual([choose(), choose(), choose(), choose()], [0, 1, 2, 0]);
  handles[0].given = 2;
  handles[1].backlog = 1;
  assert.equal(choose(), 2);
  handles[2].given = 3;
  assert.equal(choose(), 1);
});

test('a worker that takes no tasks is not chosen, and is again when it does', () => {
  const { handles, choose } = chooserWith('least-busy', 2);
  handles[1].given = 5;
  assert.equal(choose([handles[1]]), 1);
  assert.equal(choose(), 0);
  assert.equal(choose([]), undefined);
});

test('a custom function gets copies of the workers and the task, and its choice holds', () => {
  let seen: [readonly WorkerInfo[], TaskInfo] | undefined;
  const { handles, choose } = chooserWith((workers, task) => {
    seen = [workers, task];
    return workers[1];
  }, 2);
  Object.assign(handles[1], { completed: 3, failed: 1, given: 3, backlog: 2, runMeanMs: 5, lastRunMs: 6, weight: 2 });
  handles[0].ready = false;
  assert.equal(choose(), 1);
  const [workers, task] = seen!;
  assert.deepEqual(task, { id: 1, method: 'work', priority: 4, affinityKey: undefined });
  assert.deepEqual({ ...workers[1], eluPercent: 0 }, {
    id: 1, state: WorkerState.BUSY, taskCount: 4, activeTasks: 1, queuedTasks: 4, averageTaskTime: 5, lastTaskTime: 6,
    idleTime: 0, weight: 2, eluPercent: 0,
  });
  assert.equal(workers[0].state, WorkerState.WARMING);
});

test('a strategy object is told of workers and tasks, and reset when it is put in', () => {
  const log: unknown[] = [];
  const strategy = {
    name: 'mine',
    select: (workers: readonly WorkerInfo[]) => ({ worker: workers[0], reason: 'first' }),
    onTaskComplete: (id: number, ms: number) => log.push(['complete', id, ms]),
    onWorkerAdded: (worker: WorkerInfo) => log.push(['added', worker.id]),
    onWorkerRemoved: (id: number) => log.push(['removed', id]),
    reset: () => log.push(['reset']),
  };
  const { chooser, handles, choose } = chooserWith(strategy, 2);
  assert.equal(chooser.name, 'mine');
  assert.equal(choose(), 0);
  chooser.completed(handles[0] as unknown as WorkerHandle, 7);
  chooser.removed(handles[1] as unknown as WorkerHandle);
  assert.deepEqual(log, [['reset'], ['added', 0], ['added', 1], ['complete', 0, 7], ['removed', 1]]);
  log.length = 0;
  chooser.use('least-busy', []);
  assert.equal(choose(), 0);
  chooser.use(strategy, handles as unknown as WorkerHandle[]);
  assert.deepEqual(log, [['reset'], ['added', 0], ['added', 1]]);
});

test('a strategy that throws or invents a worker leaves the task to the first free one, and is warned of once', () => {
  const thrown = chooserWith(() => { throw new Error('mine'); }, 1);
  assert.equal(thrown.choose(), undefined);
  assert.equal(thrown.choose(), undefined);
  assert.deepEqual(thrown.warnings.length, 1);
  assert.match(thrown.warnings[0], /^workerChoiceStrategy custom: it threw, .* the first free worker: Error: mine$/);
  const invented = chooserWith(() => ({ id: 99 }) as WorkerInfo, 1);
  assert.equal(invented.choose(), undefined);
  assert.match(invented.warnings[0], /expected one of the workers it was given, got a worker with id 99$/);
  const nobody = chooserWith(() => undefined, 1);
  assert.equal(nobody.choose(), undefined);
  assert.equal(nobody.warnings.length, 0);
});

test('a key stays with its worker; only the keys of a lost one move, to those that stand in while it is shut', () => {
  const keys = new KeyRouter({ method: 'rendezvous', virtualNodes: 1, ttl: 60_000, maxKeys: 100 }, new PlainBrain());
  const handles = [0, 1, 2].map((id) => new FakeHandle(id)) as unknown as WorkerHandle[];
  for (const handle of handles) keys.added(handle);
  const names = Array.from({ length: 60 }, (_, at) => `user:${at}`);
  const before = names.map((name) => keys.choose(name, handles)!.id);
  assert.equal(new Set(before).size, 3);
  assert.deepEqual(names.map((name) => keys.choose(name, handles)!.id), before);
  const others = handles.filter((handle) => handle.id !== 1);
  const meanwhile = names.map((name) => keys.choose(name, others)!.id);
  keys.removed(handles[1]);
  const after = names.map((name) => keys.choose(name, others)!.id);
  names.forEach((_, at) => {
    if (before[at] !== 1) assert.equal(after[at], before[at]);
    assert.equal(after[at], meanwhile[at]);
    assert.notEqual(after[at], 1);
  });
  const { hits, moved } = keys.counts();
  assert.equal(moved, before.filter((id) => id === 1).length);
  assert.ok(hits > 0);
});

test('stealing takes one, half rounded up, or all, within its limit, and a single task while it cools down', () => {
  const make = (over: object) => new Stealing({
    enabled: true, stealSize: 'half', stealThreshold: 2, maxStealSize: 8, stealCooldown: 0, ...over,
  });
  assert.deepEqual([0, 1, 2, 3, 9, 100].map((count) => make({}).count(count)), [0, 1, 1, 2, 5, 8]);
  assert.deepEqual([1, 9].map((count) => make({ stealSize: 'one' }).count(count)), [1, 1]);
  assert.deepEqual([1, 5, 9].map((count) => make({ stealSize: 'all' }).count(count)), [1, 5, 8]);
  assert.equal(make({ stealThreshold: 5 }).count(4), 1);
  assert.equal(make({ enabled: false }).count(4), 0);
  const cooling = make({ stealCooldown: 60_000 });
  assert.deepEqual([cooling.count(8), cooling.count(8), cooling.count(8)], [4, 1, 1]);
});
