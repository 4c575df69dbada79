// The tasks that a worker was given and has not answered, found by their numbers.
//
// Numbers count up and few are out at a time, so the number's low bits are the place in a small table; a map would cost
// more than the rest of the way through the handle. The oldest one out runs, or is about to; the others are ahead.

import type { Task } from '../task.ts';

const ID_MASK = 0x3fffffff;
const SLOTS_MIN = 8;

export class GivenTasks {
  /** How many there are. */
  count = 0;
  private slots: (Task | undefined)[] = new Array(SLOTS_MIN).fill(undefined);
  private lastId = 0;

  /** Room for one running task and so many ahead; called while there are none. */
  reserve(ahead: number): void {
    let size = SLOTS_MIN;
    // Twice as many places as tasks: one task that is out very long must not make the others search.
    while (size < 2 * (ahead + 2)) size *= 2;
    this.slots = new Array(size).fill(undefined);
  }

  /** A number that no task here has: the next one, but for a task that has been out very long. */
  nextId(): number {
    const mask = this.slots.length - 1;
    let id = this.lastId;
    do id = (id + 1) & ID_MASK || 1;
    while (this.slots[id & mask] !== undefined);
    this.lastId = id;
    return id;
  }

  add(id: number, task: Task): void {
    task.id = id;
    this.slots[id & (this.slots.length - 1)] = task;
    this.count += 1;
  }

  get(id: number): Task | undefined {
    const task = this.slots[id & (this.slots.length - 1)];
    return task !== undefined && task.id === id ? task : undefined;
  }

  take(id: number): Task | undefined {
    const at = id & (this.slots.length - 1);
    const task = this.slots[at];
    if (task === undefined || task.id !== id) return undefined;
    this.slots[at] = undefined;
    this.count -= 1;
    return task;
  }

  /** All of them, oldest first. */
  list(): Task[] {
    const tasks = this.slots.filter((task) => task !== undefined);
    return tasks.sort((one, other) => one.id - other.id);
  }

  clear(): void {
    this.slots.fill(undefined);
    this.count = 0;
  }
}
