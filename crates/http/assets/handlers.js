// The handlers, by how much they are asked for: what each does, how often it fails, how long it takes.
// A click shows only its tasks. The figures are since the start of the daemon and are asked for every few
// seconds, only while tasks come.

import { json } from "./api.js";
import { byId, make, mark, write } from "./dom.js";
import { count, duration } from "./format.js";

const APART_MS = 5_000;

/** `known(handlers)` is told of every answer, `chosen(name)` of a click; "" means all of them. */
export function handlers({ known, chosen }) {
  const list = byId("handlers");
  const shown = new Map();
  let stirred = false;

  async function load() {
    stirred = false;
    try {
      const answer = await json("/v1/handlers");
      known(answer.handlers);
      show(answer.handlers);
    } catch {
      // The live stream tells that the daemon is gone; the figures stay.
    }
  }

  function rowOf(name) {
    const parts = {
      accepted: make("span"),
      failed: make("span", { class: "failed" }),
      took: make("span", { class: "aside" }),
      bar: make("i"),
    };
    const button = make(
      "button",
      { type: "button", "aria-pressed": "false" },
      make("b", {}, name),
      make("span", { class: "number" }, parts.accepted, parts.failed),
      make("span", { class: "bar", "aria-hidden": "true" }, parts.bar),
      parts.took,
    );
    button.addEventListener("click", () =>
      chosen(button.getAttribute("aria-pressed") === "true" ? "" : name),
    );
    return { ...parts, button, item: make("li", {}, button) };
  }

  function show(all) {
    const most = Math.max(1, ...all.map(({ accepted }) => accepted));
    const sorted = all.toSorted((a, b) => b.accepted - a.accepted || a.name.localeCompare(b.name));
    for (const name of shown.keys()) if (!all.some((handler) => handler.name === name)) shown.delete(name);
    const items = sorted.map((handler) => {
      if (!shown.has(handler.name)) shown.set(handler.name, rowOf(handler.name));
      const row = shown.get(handler.name);
      write(row.accepted, count(handler.accepted));
      write(row.failed, handler.failed > 0 ? ` ✕ ${count(handler.failed)}` : "");
      row.bar.style.width = `${(100 * handler.accepted) / most}%`;
      const { p50_us, p99_us } = handler.ran;
      write(
        row.took,
        handler.accepted > 0 ? `p50 ${duration(p50_us)} · p99 ${duration(p99_us)}` : handler.summary,
      );
      mark(row.button, "title", handler.summary);
      return row.item;
    });
    // Rows are moved only if the order changed: moving an element takes the focus away from it.
    if (items.some((item, place) => list.children[place] !== item)) list.replaceChildren(...items);
    write(byId("handlers-note"), `${all.length} known`);
  }

  setInterval(() => stirred && !document.hidden && load(), APART_MS);
  return {
    load,
    stir() {
      stirred = true;
    },
    /** Shows which one the table is held to. */
    press(name) {
      for (const [own, { button }] of shown) mark(button, "aria-pressed", own === name);
    },
  };
}
