// Tasks that failed for good, and what the clock asks for: a panel each, shown only where there is something to show.
// They are asked for every few seconds, not with every tick: nobody's death is that urgent. Trying again and letting go
// are one click each, and the list is asked for anew after both.

import { idText } from "./exact.js";
import { call, json } from "./api.js";
import { byId, make, write } from "./dom.js";
import { age, count } from "./format.js";

const APART_MS = 5_000;
const SHOWN_MAX = 20;

const letterPath = (id, rest = "") =>
  "/v1/dead/" + encodeURIComponent(typeof id === "string" ? JSON.stringify(id) : idText(id)) + rest;

/** `opened(id)` is told of the task that a letter became. */
export function deadLetters(opened) {
  const panel = byId("dead-panel");
  const list = byId("dead");

  function act(words, method, path) {
    const button = make("button", { type: "button" }, words);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const answer = await call(path, { method });
        if (method === "POST") opened((await answer.json()).task_id);
        await load();
      } catch (error) {
        write(byId("dead-note"), error.message);
        button.disabled = false;
      }
    });
    return button;
  }

  function row(letter) {
    const died = age((Date.now() - Number(letter.died_at_ms)) * 1000);
    return make(
      "li",
      {},
      make("b", {}, idText(letter.task_id)),
      make("span", { class: "aside" }, `${letter.handler} · ${died} ago · ${letter.attempts} attempts`),
      make("span", { class: "failed" }, `${letter.error}: ${letter.message}`),
      make(
        "span",
        { class: "acts" },
        act("try again", "POST", letterPath(letter.task_id, "/retry")),
        act("let go", "DELETE", letterPath(letter.task_id)),
      ),
    );
  }

  async function load() {
    try {
      const { letters, kept, enabled } = await json(`/v1/dead?limit=${SHOWN_MAX}`);
      panel.hidden = !enabled || Number(kept) === 0;
      list.replaceChildren(...letters.map(row));
      write(byId("dead-note"), `${count(Number(kept))} kept`);
    } catch {
      // The live stream tells that the daemon is gone; the list stays.
    }
  }

  setInterval(() => !document.hidden && load(), APART_MS);
  return { load };
}

/** What the clock asks for. */
export function schedules() {
  const panel = byId("schedules-panel");
  const list = byId("schedules");

  function row(schedule) {
    const next = schedule.next_ms.length > 0 ? new Date(Number(schedule.next_ms[0])).toLocaleString() : "never";
    const words = `${schedule.cron} ${schedule.time_zone} · ${schedule.handler} · next ${next}`;
    return make(
      "li",
      {},
      make("b", {}, schedule.name),
      make("span", { class: "aside" }, words),
      make("span", { class: "failed" }, schedule.last_refusal ?? ""),
    );
  }

  async function load() {
    try {
      const answer = await json("/v1/schedules");
      panel.hidden = answer.schedules.length === 0;
      list.replaceChildren(...answer.schedules.map(row));
    } catch {
      // As above.
    }
  }

  setInterval(() => !document.hidden && !panel.hidden && load(), APART_MS);
  return { load };
}
