// The table of tasks: only the rows in sight exist, however long the list is.
// Rows are elements that are written anew as the list moves under them. The focus stays on the grid and the
// chosen row is named by `aria-activedescendant`, because an element that is used again must not take the
// focus with it.

import { byId, make, mark, write } from "./dom.js";
import { idText } from "./exact.js";
import { age, duration, exact, standing } from "./format.js";

const COLUMNS = [
  ["stage", "State"],
  ["id", "Task"],
  ["handler", "Handler"],
  ["priority", "Priority"],
  ["attempts", "Tries"],
  ["waited", "Waited"],
  ["ran", "Ran"],
  ["age", "Accepted"],
  ["where", "Where"],
];
const NUMBERS = new Set(["attempts", "waited", "ran", "age"]);
const AROUND = 6;
const AHEAD = 80;

export class TaskGrid {
  /** `open(task)` is called for the row that was clicked or entered, `more()` when the end comes near. */
  constructor({ open, more }) {
    this.box = byId("grid");
    this.open = open;
    this.more = more;
    this.rows = [];
    this.chosen = null;
    this.slots = [];
    const cell = ([name, title]) =>
      make(
        "span",
        { role: "columnheader", "data-column": name, class: NUMBERS.has(name) ? "number" : null },
        title,
      );
    this.head = make("div", { class: "grid-head", role: "row", "aria-rowindex": "1" }, ...COLUMNS.map(cell));
    this.body = make("div", { class: "grid-body", role: "rowgroup" });
    this.empty = make("p", { class: "empty" });
    this.box.append(make("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.box.after(this.empty);
    this.box.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.measure()).observe(this.box);
    this.measure();
  }

  /** Shows these rows; `total` is how many there are if that is known, `note` stands where none is. */
  show(rows, total, note) {
    this.rows = rows;
    mark(this.box, "aria-rowcount", total === null ? -1 : total + 1);
    write(this.empty, rows.length === 0 ? note : "");
    this.empty.hidden = rows.length > 0;
    this.schedule();
  }

  isAtTop() {
    return this.box.scrollTop < this.tall;
  }

  toTop() {
    this.box.scrollTop = 0;
  }

  /** A row in sight that may still change. */
  restless() {
    return this.rows.slice(this.first, this.last).find((task) => task.stage !== "ended");
  }

  place() {
    return this.rows.findIndex((task) => task.key === this.chosen);
  }

  /** Moves the choice by so many rows and says which task it is now. */
  step(by) {
    if (this.rows.length === 0) return null;
    const place = this.place();
    const near = by > 0 ? this.first : this.last - 1;
    const to = place < 0 && Number.isFinite(by) ? near : place + by;
    return this.choose(Math.min(this.rows.length - 1, Math.max(0, to)));
  }

  choose(place) {
    this.chosen = this.rows[place].key;
    const top = place * this.tall;
    const view = this.box.clientHeight - this.head.offsetHeight;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.tall > this.box.scrollTop + view) this.box.scrollTop = top + this.tall - view;
    this.paint();
    return this.rows[place];
  }

  measure() {
    this.tall = parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 34;
    const wanted = Math.ceil(this.box.clientHeight / this.tall) + 2 * AROUND;
    while (this.slots.length < wanted) this.slots.push(this.slot());
    while (this.slots.length > wanted) this.slots.pop().row.remove();
    this.schedule();
  }

  slot() {
    const cells = COLUMNS.map(([name]) =>
      make("span", { role: "gridcell", "data-column": name, class: NUMBERS.has(name) ? "number" : null }),
    );
    cells[0].append(make("span", { class: "stage" }));
    cells[1].classList.add("id");
    const row = make("div", { class: "row-task", role: "row", id: `row-${this.slots.length}` }, ...cells);
    this.body.append(row);
    return { row, cells, task: null };
  }

  schedule() {
    if (this.frame !== undefined) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = undefined;
      this.paint();
    });
  }

  paint() {
    this.body.style.height = this.rows.length * this.tall + "px";
    const top = Math.floor(this.box.scrollTop / this.tall);
    this.first = Math.max(0, Math.min(top, this.rows.length));
    this.last = Math.min(this.rows.length, top + Math.ceil(this.box.clientHeight / this.tall));
    const begin = Math.max(0, top - AROUND);
    let active = null;
    for (let offset = 0; offset < this.slots.length; offset += 1) {
      const place = begin + offset;
      // A row keeps its element while it is in sight: scrolling by one then moves one element.
      const slot = this.slots[place % this.slots.length];
      slot.task = this.rows[place] ?? null;
      slot.row.hidden = slot.task === null;
      if (slot.task !== null) this.fill(slot, place);
      if (slot.task !== null && slot.task.key === this.chosen) active = slot.row.id;
    }
    mark(this.box, "aria-activedescendant", active);
    if (this.last > this.rows.length - AHEAD) this.more();
  }

  fill({ row, cells, task }, place) {
    row.style.transform = `translateY(${place * this.tall}px)`;
    mark(row, "aria-rowindex", place + 2);
    mark(row, "aria-selected", task.key === this.chosen);
    const since = (performance.now() - task.fetched_at) * 1000;
    const { sign, text } = standing(task);
    mark(cells[0].firstChild, "data-stage", sign);
    write(cells[0].firstChild, text);
    const ran = task.stage === "running" ? (task.ran_us ?? 0) + since : task.ran_us;
    const worker = task.worker === undefined ? "" : ` · ${task.worker}`;
    const values = [
      idText(task.task_id),
      task.handler,
      task.priority,
      exact(task.attempts),
      duration(task.waited_us),
      task.attempts > 0 ? took(ran) : "–",
      age(task.age_us + since),
      task.door + worker,
    ];
    values.forEach((value, column) => write(cells[column + 1], value));
  }

  click(event) {
    const slot = this.slots.find(({ row }) => row.contains(event.target));
    if (slot?.task) this.open(this.choose(this.rows.indexOf(slot.task)));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, this.last - this.first - 2);
    const steps = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key === "Enter" && this.place() >= 0) this.open(this.rows[this.place()]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Whole microseconds are all that is known of a task's time. */
function took(microseconds) {
  return microseconds < 1 ? "<1\u202fµs" : duration(microseconds);
}
