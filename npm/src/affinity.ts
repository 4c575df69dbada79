// Which worker a key belongs to, so that tasks with the same key find what the last one left there.
//
// The brain knows the owners (rendezvous hashing, or a ring of virtual nodes) and remembers for a while where a key was
// last, so that keys in use also stay where they are when workers come. A task with a key waits for its worker: idle
// workers do not take it, because its caller asked for that worker and not for the first one. When the worker is lost,
// its keys move to their next owners and those of the other workers stay.
//
// Not here: hashing and remembering (`brain/affinity.ts`), tasks without a key (`strategy.ts`).

import type { AffinitySettings } from './options.ts';
import type { AffinityCounts, BrainFace } from './plain-brain.ts';
import type { Task } from './task.ts';
import type { WorkerHandle } from './workers/handle.ts';

export class KeyRouter {
  private readonly handles = new Map<number, WorkerHandle>();

  constructor(settings: AffinitySettings, private readonly brain: BrainFace) {
    brain.affinity.configure({
      method: settings.method,
      virtualNodes: settings.virtualNodes,
      stickyForMs: settings.ttl,
      stickyKeysMax: settings.maxKeys,
    });
  }

  /** The worker of the key, or the next in its order of preference while that one takes no tasks. */
  choose(key: string, workers: readonly WorkerHandle[]): WorkerHandle | undefined {
    const owner = this.handles.get(this.brain.affinity.route(key, performance.now()));
    if (owner && workers.includes(owner)) return owner;
    for (const id of this.brain.affinity.preference(key, this.handles.size)) {
      const next = this.handles.get(id);
      if (next && workers.includes(next)) return next;
    }
    return undefined;
  }

  /** Only when the worker it waits for is gone, or it waits for none. */
  mayMove(task: Task): boolean {
    return task.handle === null || task.handle.terminated || task.handle.terminating;
  }

  added(handle: WorkerHandle): void {
    this.handles.set(handle.id, handle);
    this.brain.affinity.add(handle.id);
  }

  removed(handle: WorkerHandle): void {
    this.handles.delete(handle.id);
    this.brain.affinity.remove(handle.id, performance.now());
  }

  counts(): AffinityCounts {
    return this.brain.affinity.counts();
  }
}
