// The tasks the table knows: pages from the daemon, newest first, put together without gaps or doubles.
// Search and filters are the daemon's work; this only remembers what it answered. The head of the list is
// asked for again as tasks come and go; further pages are fetched as somebody scrolls down, up to a limit.

import { json, taskPath } from "./api.js";

const HEAD = 200;
const PAGE = 500;
const PAGE_MAX = 1_000;
export const ROWS_MAX = 20_000;

export class TaskList {
  constructor() {
    this.rows = [];
    this.filter = { q: "", stage: "", handler: "" };
    this.next = null;
    this.known = 0;
    this.turn = 0;
    this.loading = false;
  }

  /**
   * Begins at the head, with this filter; what was known further down is fetched again when somebody
   * goes there.
   */
  async begin(filter = this.filter) {
    if (filter !== this.filter) this.turn += 1;
    this.filter = filter;
    const page = await this.fetch(null, HEAD);
    if (page === null) return false;
    // Pages that are still under way belong to the list before this one.
    this.turn += 1;
    this.loading = false;
    this.rows = page.tasks;
    this.next = page.next ?? null;
    return true;
  }

  /** Asks again for the page of this row, and for nothing new: what is in sight stays where it is. */
  async refreshAround({ cursor }) {
    const page = await this.fetch(cursor, cursor === null ? PAGE_MAX : PAGE);
    if (page === null) return false;
    const fresh = new Map(page.tasks.map((task) => [task.key, task]));
    this.rows = brought(this.rows, fresh, cursor);
    return true;
  }

  /** The next page below, if there is one and room for it. */
  async more() {
    if (this.next === null || this.loading || this.rows.length >= ROWS_MAX) return false;
    this.loading = true;
    try {
      const page = await this.fetch(this.next, PAGE);
      if (page === null) return false;
      this.rows = this.rows.concat(page.tasks);
      this.next = page.next ?? null;
      return true;
    } finally {
      this.loading = false;
    }
  }

  /**
   * A page, each task with a key and the cursor it came by; null if another filter was set in the
   * meantime.
   */
  async fetch(cursor, limit) {
    const { turn } = this;
    const query = new URLSearchParams({ limit });
    for (const [name, value] of Object.entries({ ...this.filter, cursor })) if (value) query.set(name, value);
    const page = await json("/v1/tasks?" + query);
    if (turn !== this.turn) return null;
    this.known = page.known;
    const fetched_at = performance.now();
    for (const task of page.tasks) {
      Object.assign(task, { key: taskPath(task.task_id), cursor, fetched_at });
    }
    return page;
  }
}

/**
 * The rows with what is new of them. Below a cursor nothing is ever put in, so a task that is missing there
 * has gone, or no longer matches. At the head it may only have been pushed down.
 */
export function brought(rows, fresh, cursor) {
  const isGone = (row) => cursor !== null && row.cursor === cursor && !fresh.has(row.key);
  return rows.filter((row) => !isGone(row)).map((row) => fresh.get(row.key) ?? row);
}
