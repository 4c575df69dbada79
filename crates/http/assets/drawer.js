// One task, whole: how it stands and why, what it was asked, what it says while it runs, and how it ended.
// The drawer follows the task's own stream. A stream that breaks is taken up again where it stopped, as
// long as the task is shown and has not ended. What it says is drawn once a frame, however fast it speaks.

import { call, json, taskPath } from "./api.js";
import { notice } from "./announce.js";
import { byId, make, mark, write } from "./dom.js";
import { idText } from "./exact.js";
import { duration, exact, standing } from "./format.js";
import { eventsOf } from "./sse.js";

const SAID_MAX = 300;
const AGAIN_MS = 1_000;
const LOOK_MS = 2_000;

export class Drawer {
  /** `step(by)` gives the neighbour in the table, `changed()` is told after a cancel or a retry. */
  constructor({ step, changed }) {
    this.box = byId("drawer");
    this.changed = changed;
    this.build();
    this.box.addEventListener("close", () => this.left());
    this.box.addEventListener("click", (event) => event.target === this.box && this.box.close());
    this.box.addEventListener("keydown", (event) => {
      const by = { j: 1, k: -1 }[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const task = step(by);
      if (task !== null) this.open(task.task_id);
    });
  }

  build() {
    const button = (name, text, kind, act) => {
      this[name] = make("button", { type: "button", class: kind }, text);
      this[name].addEventListener("click", act);
      return this[name];
    };
    this.title = make("h2", { id: "drawer-title" });
    this.stage = make("span", { class: "stage" });
    this.progress = make("progress", { max: "1", "aria-label": "Progress" });
    this.problem = make("p", { class: "problem", role: "alert" });
    const act = (verb, said) => () => this.act(verb, said);
    const head = make(
      "div",
      { class: "drawer-head" },
      make(
        "div",
        { class: "title" },
        this.title,
        this.stage,
        button("close", "Close", "plain", () => this.box.close()),
      ),
      this.progress,
      make(
        "menu",
        {},
        make("li", {}, button("cancel", "Cancel", "danger", act("cancel", "cancelled"))),
        make("li", {}, button("retry", "Retry", "", act("retry", "submitted again"))),
        make(
          "li",
          {},
          button("copy", "Copy the id", "plain", () => this.copyId()),
        ),
      ),
      this.problem,
    );
    this.facts = make("dl", { class: "facts" });
    this.why = make("p", { class: "why" });
    this.parts = {};
    const part = (name, title, content) => {
      this.parts[name] = { box: make("section", {}, make("h3", {}, title), content), content };
      return this.parts[name].box;
    };
    const body = make(
      "div",
      { class: "drawer-body", tabindex: "0", role: "region", "aria-label": "Details of the task" },
      make("section", { "aria-label": "Why" }, this.why),
      this.facts,
      part("error", "Error", make("pre")),
      part("result", "Result", make("pre")),
      part(
        "said",
        "Stream",
        make("ol", { class: "said", tabindex: "0", "aria-label": "What the task says" }),
      ),
      part("args", "Arguments", make("pre")),
      part("tries", "Attempts", make("table")),
    );
    this.box.append(head, body);
  }

  open(id) {
    this.left();
    this.id = id;
    this.stop = new AbortController();
    this.waiting = [];
    this.offset = 0;
    this.attempt = 0;
    write(this.title, idText(id));
    write(this.problem, "");
    write(this.why, "…");
    this.parts.said.content.replaceChildren();
    for (const { box } of Object.values(this.parts)) box.hidden = true;
    if (!this.box.open) this.box.showModal();
    this.follow(id, this.stop.signal);
    this.looking = setInterval(() => this.load(id, this.stop.signal).catch(() => {}), LOOK_MS);
  }

  left() {
    this.stop?.abort();
    clearInterval(this.looking);
  }

  async follow(id, signal) {
    while (!signal.aborted) {
      try {
        await this.load(id, signal);
        if (await this.listen(id, signal)) return await this.load(id, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error.status !== undefined) return this.lost(error);
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  /** The task is not there any more, and the daemon says why. */
  lost(problem) {
    write(this.problem, problem.message);
    write(this.why, "");
    for (const button of [this.cancel, this.retry]) button.hidden = true;
    clearInterval(this.looking);
  }

  async load(id, signal) {
    const [task, { why }] = await Promise.all([
      json(taskPath(id), { signal }),
      json(taskPath(id, "/why"), { signal }),
    ]);
    if (signal.aborted) return;
    write(this.why, why);
    this.showTask(task);
    if (task.stage === "ended") clearInterval(this.looking);
  }

  /** True when the task has ended and the stream is whole. */
  async listen(id, signal) {
    const path = taskPath(id, `/events?from=${this.offset}`);
    const response = await call(path, { signal, accept: "text/event-stream" });
    for await (const { event, data } of eventsOf(response)) {
      if (signal.aborted) return true;
      if (event === "ended") return true;
      if (event === "task") this.showStanding(data);
      else if (data.offset !== undefined) this.hear(event, data);
    }
    return false;
  }

  hear(event, data) {
    this.offset = data.offset + (event === "missed" ? 0 : 1);
    if (event === "progress") this.showProgress(data.progress);
    this.waiting.push({ event, data });
    if (this.waiting.length > 2 * SAID_MAX) this.waiting.splice(0, SAID_MAX);
    if (this.frame !== undefined) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = undefined;
      this.showSaid();
    });
  }

  showSaid() {
    const list = this.parts.said.content;
    this.parts.said.box.hidden = false;
    const atEnd = list.scrollTop + list.clientHeight > list.scrollHeight - 40;
    for (const { event, data } of this.waiting.splice(0)) {
      if (data.attempt > this.attempt) {
        // What an earlier attempt said is void once a later one speaks.
        for (const item of list.children) item.dataset.void = "";
        this.attempt = data.attempt;
      }
      const value = data[event];
      const text =
        event === "missed"
          ? `${exact(value)} events were not kept`
          : typeof value === "string"
            ? value
            : JSON.stringify(value);
      list.append(
        make(
          "li",
          {},
          make("span", {}, String(data.offset)),
          make("span", {}, event),
          make("span", {}, text),
        ),
      );
    }
    while (list.children.length > SAID_MAX) list.firstChild.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
  }

  showStanding(task) {
    const { sign, text } = standing({ ...task, progress: undefined });
    mark(this.stage, "data-stage", sign);
    write(this.stage, text);
    this.cancel.hidden = task.stage === "ended";
    this.retry.hidden = task.stage !== "ended";
    this.showProgress(task.stage === "ended" ? undefined : task.progress);
  }

  showProgress(share) {
    this.progress.hidden = share === undefined;
    if (share !== undefined) this.progress.value = share;
  }

  showTask(task) {
    this.showStanding(task);
    const facts = {
      handler: task.handler,
      priority: task.priority,
      accepted: new Date(task.accepted_at).toLocaleString("sv"),
      waited: duration(task.waited_us),
      ran: duration(task.ran_us),
      attempts: exact(task.attempts),
      worker: task.worker ?? "–",
      door: task.door,
    };
    if (task.timeout_ms !== undefined) facts["time limit"] = duration(task.timeout_ms * 1000);
    if (task.retries > 0) facts.retries = exact(task.retries);
    this.facts.replaceChildren(
      ...Object.entries(facts).map(([name, value]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, String(value))),
      ),
    );
    this.showPart("error", task.error && `${task.error} (${task.status}): ${task.message}`);
    this.showPart("result", task.status === 0 ? JSON.stringify(task.result, null, 2) : undefined);
    this.showPart("args", JSON.stringify(task.args, null, 2));
    this.showTries(task.tries ?? []);
  }

  showPart(name, text) {
    const { box, content } = this.parts[name];
    box.hidden = text === undefined;
    write(content, text ?? "");
  }

  showTries(tries) {
    const row = (kind, cells) => make("tr", {}, ...cells.map((cell) => make(kind, {}, String(cell))));
    this.parts.tries.box.hidden = tries.length === 0;
    this.parts.tries.content.replaceChildren(
      row("th", ["attempt", "began after", "ran", "how it ended"]),
      ...tries.map((one) =>
        row("td", [
          one.attempt,
          duration(one.began_after_us),
          duration(one.ran_us),
          one.error ? `${one.error}: ${one.message ?? ""}` : "well",
        ]),
      ),
    );
  }

  async act(verb, said) {
    write(this.problem, "");
    try {
      const task = await json(taskPath(this.id, "/" + verb), { method: "POST" });
      notice(`Task ${idText(this.id)} ${said}`);
      this.changed();
      if (verb === "retry") this.open(task.task_id);
    } catch (problem) {
      write(this.problem, problem.message);
    }
  }

  async copyId() {
    try {
      await navigator.clipboard.writeText(idText(this.id));
      notice("The id is copied");
    } catch (problem) {
      write(this.problem, `the id could not be copied: ${problem.message}`);
    }
  }
}
