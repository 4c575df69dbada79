// What the pool did of its own accord: scaling, robberies, refusals, workers that came and went.
// Under load a pool steals hundreds of times a second. Events of one kind that follow each other are one
// line with a number, so that the rare ones stay in sight.

import { byId, make, write } from "./dom.js";
import { clock, exact } from "./format.js";

const KEPT = 120;
const SIGNS = {
  "scaled-up": ["▲", "good"],
  "scaled-down": ["▼", "good"],
  stole: ["⇄", "quiet"],
  refused: ["✕", "bad"],
  "dropped-newest": ["✕", "bad"],
  "dropped-oldest": ["✕", "bad"],
  "worker-started": ["+", "quiet"],
  "worker-stopped": ["−", "quiet"],
  "strategy-swapped": ["↻", "quiet"],
  restarted: ["◆", "wait"],
};

export function events() {
  const list = byId("events");
  const kept = [];
  let changed = true;
  let all = 0;

  function item({ kind, text, at_ms, times }) {
    const [sign, tone] = SIGNS[kind] ?? ["·", "quiet"];
    const words = make(
      "span",
      {},
      text,
      times > 1 ? make("span", { class: "times" }, ` ×${exact(times)}`) : null,
    );
    const when = make("time", { datetime: new Date(at_ms).toISOString() }, clock(at_ms));
    return make(
      "li",
      { "data-kind": tone },
      make("span", { class: "sign", "aria-hidden": "true" }, sign),
      words,
      when,
    );
  }

  return {
    add(event) {
      all += 1;
      changed = true;
      // The last few lines may take it in: two kinds that alternate would else fill the list.
      const same = kept.slice(0, 3).find((known) => known.kind === event.kind && event.kind !== "restarted");
      if (same !== undefined) {
        Object.assign(same, { text: event.text, at_ms: event.at_ms, times: same.times + 1 });
        return;
      }
      kept.unshift({ ...event, times: 1 });
      kept.length = Math.min(kept.length, KEPT);
    },
    update() {
      if (!changed) return;
      changed = false;
      const empty = make(
        "li",
        { class: "empty" },
        make("span"),
        make("span", {}, "Nothing has happened yet"),
      );
      list.replaceChildren(...(kept.length ? kept.map(item) : [empty]));
      write(byId("events-note"), all > 0 ? `${exact(all)} seen` : "");
    },
  };
}
