// The tasks the table knows: pages from the daemon, newest first, put together without gaps or doubles.
// Search and filters are the daemon's work; this only remembers what it answered. The head of the list is
// asked for again as tasks come and go; further pages are fetched as somebody scrolls down, up to a limit.

import { json, taskPath } from "./api.js";

const HEAD = 200;
const PAGE = 500;
export const ROWS_MAX = 20_000;

/** Two tasks are the same if their addresses are. */
export const keyOf = (task) => taskPath(task.task_id);

export class TaskList {
  constructor() {
    this.rows = [];
    this.filter = { q: "", stage: "", handler: "" };
    this.next = null;
    this.known = 0;
    this.turn = 0;
    this.loading = false;
  }

  /** Begins anew, with another filter or another daemon. */
  async begin(filter = this.filter) {
    this.filter = filter;
    this.turn += 1;
    this.loading = false;
    const page = await this.fetch(null, HEAD);
    if (page !== null) this.take(page.tasks, page.next);
  }

  /** Asks for the head again and joins it to what is known below; true if there was news. */
  async refreshHead() {
    const page = await this.fetch(null, HEAD);
    if (page === null) return false;
    const joined = join(page.tasks, this.rows);
    if (joined === null || page.next === undefined) this.take(page.tasks, page.next);
    else this.rows = joined;
    return true;
  }

  /** Asks again for the page of this row, and for nothing new: what is in sight stays where it is. */
  async refreshAround(row) {
    const page = await this.fetch(row.cursor, row.cursor === null ? HEAD : PAGE);
    if (page === null) return false;
    const fresh = new Map(page.tasks.map((task) => [keyOf(task), task]));
    this.rows = this.rows.map((row) => fresh.get(keyOf(row)) ?? row);
    return true;
  }

  /** The next page below, if there is one and room for it. */
  async more() {
    if (this.next === null || this.loading || this.rows.length >= ROWS_MAX) return false;
    this.loading = true;
    try {
      const page = await this.fetch(this.next, PAGE);
      if (page === null) return false;
      const known = new Set(this.rows.map(keyOf));
      this.rows = this.rows.concat(page.tasks.filter((task) => !known.has(keyOf(task))));
      this.next = page.next ?? null;
      return true;
    } finally {
      this.loading = false;
    }
  }

  take(tasks, next) {
    this.rows = tasks;
    this.next = next ?? null;
  }

  /** A page, each task with the cursor it came by; null if another filter was set in the meantime. */
  async fetch(cursor, limit) {
    const { turn } = this;
    const query = new URLSearchParams({ limit });
    for (const [name, value] of Object.entries({ ...this.filter, cursor })) if (value) query.set(name, value);
    const page = await json("/v1/tasks?" + query);
    if (turn !== this.turn) return null;
    this.known = page.known;
    const fetched_at = performance.now();
    for (const task of page.tasks) Object.assign(task, { cursor, fetched_at });
    return page;
  }
}

/** The new head, then what was known below it; null if the two have nothing in common. */
export function join(head, rows) {
  const inHead = new Set(head.map(keyOf));
  const last = rows.findLastIndex((row) => inHead.has(keyOf(row)));
  return last < 0 ? null : head.concat(rows.slice(last + 1));
}
