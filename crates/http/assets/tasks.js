// Keeps the table of tasks true: search and filters, and when the list is asked for again.
// At the top the newest tasks come in by themselves, about once a second and only if something happened.
// Whoever has scrolled down reads in peace: rows there are brought up to date but never move, and a button
// leads back.

import { byId, make, write } from "./dom.js";
import { exact } from "./format.js";
import { TaskGrid } from "./taskgrid.js";
import { ROWS_MAX, TaskList } from "./tasklist.js";

const STAGES = ["delayed", "queued", "running", "retrying", "ended"];
const APART_MS = 1_000;
const TYPING_MS = 200;

/**
 * `open(task)` is called for a row, `filtered(name)` when the table is held to one handler, or "" to
 * none.
 */
export function tasks({ open, filtered }) {
  const list = new TaskList();
  const grid = new TaskGrid({ open, more: () => run(() => list.more()) });
  let dirty = false;
  let asking = false;
  let problem = null;
  let typing = null;

  fillSelect(byId("filter-stage"), "Every stage", STAGES);
  fillSelect(byId("filter-handler"), "Every handler", []);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(begin, TYPING_MS);
  });
  byId("newest").addEventListener("click", () => {
    grid.toTop();
    byId("newest").hidden = true;
    byId("grid").focus();
    run(() => list.begin());
  });
  byId("grid").addEventListener("scroll", () => grid.isAtTop() && (byId("newest").hidden = true), {
    passive: true,
  });
  setInterval(() => document.hidden || look(), APART_MS);

  function begin() {
    grid.toTop();
    grid.chosen = null;
    filtered(byId("filter-handler").value);
    const filter = {
      q: byId("search").value,
      stage: byId("filter-stage").value,
      handler: byId("filter-handler").value,
    };
    return run(() => list.begin(filter));
  }

  /** Does one call to the daemon and shows what is known after it. */
  async function run(ask) {
    try {
      const news = await ask();
      problem = null;
      if (news) show();
    } catch (error) {
      // The live stream tells that the daemon is gone; what was known stays in sight.
      problem = error;
      show();
    }
  }

  function show() {
    const { rows, next, known } = list;
    const narrowed = Object.values(list.filter).some((value) => value !== "");
    const none = problem
      ? `The tasks could not be fetched: ${problem.message}`
      : narrowed
        ? "No task matches"
        : "No task yet. Press n to submit one.";
    grid.show(rows, next === null ? rows.length : null, none);
    const shown = next === null ? exact(rows.length) : `${exact(rows.length)}+`;
    const full = rows.length >= ROWS_MAX ? "; search to see others" : "";
    write(byId("tasks-note"), `${shown} ${narrowed ? "found" : "shown"}, ${exact(known)} known${full}`);
  }

  async function look() {
    const restless = grid.restless();
    if (asking || (!dirty && restless === undefined)) {
      grid.schedule();
      return;
    }
    asking = true;
    try {
      if (grid.isAtTop()) {
        dirty = false;
        await run(() => list.begin());
      } else {
        byId("newest").hidden = !dirty;
        if (restless !== undefined) await run(() => list.refreshAround(restless));
      }
    } finally {
      asking = false;
    }
  }

  return {
    grid,
    begin,
    /** Something was accepted or has ended. */
    stir() {
      dirty = true;
    },
    /** A task of this page's own making is shown at once. */
    refresh: () => (grid.isAtTop() ? run(() => list.begin()) : look()),
    only(name) {
      byId("filter-handler").value = name;
      begin();
    },
    handlers: (names) => fillSelect(byId("filter-handler"), "Every handler", names),
  };
}

function fillSelect(select, every, names) {
  const chosen = select.value;
  select.replaceChildren(
    make("option", { value: "" }, every),
    ...names.map((name) => make("option", {}, name)),
  );
  select.value = names.includes(chosen) ? chosen : "";
}
