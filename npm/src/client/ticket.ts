// The claim on one result: what `submit` gives back.
//
// It holds no connection and no state but the id and how the task looked when it was taken in; every question goes to
// the daemon. It may be thrown away: the task goes on, and another ticket for the same id is as good.

import type { Client, WaitOptions } from './client.ts';
import type { FollowOptions } from './follow.ts';
import type { TaskEvent, TaskId, TaskView } from './shapes.ts';

export class Ticket<Result = any> {
  readonly id: TaskId;
  /** The task as it was when this ticket was made. */
  readonly task: TaskView<Result> | undefined;
  readonly #client: Client;

  constructor(client: Client, id: TaskId, task?: TaskView<Result>) {
    this.#client = client;
    this.id = id;
    this.task = task;
  }

  /** The task as it is now. */
  get(options?: { signal?: AbortSignal }): Promise<TaskView<Result>> {
    return this.#client.get<Result>(this.id, options);
  }

  /** The task once it has ended, well or not. */
  wait(options?: WaitOptions): Promise<TaskView<Result>> {
    return this.#client.wait<Result>(this.id, options);
  }

  /** Its result once it has ended well; throws a `TaskError` otherwise. */
  result(options?: WaitOptions): Promise<Result> {
    return this.#client.result<Result>(this.id, options);
  }

  cancel(options?: { signal?: AbortSignal }): Promise<TaskView<Result>> {
    return this.#client.cancel<Result>(this.id, options);
  }

  /** Everything it says, to its end. */
  stream<Partial = any>(options?: FollowOptions): AsyncGenerator<TaskEvent<Partial, Result>> {
    return this.#client.stream<Partial, Result>(this.id, options);
  }
}
