// The figures of the moment, the status strip, and the warnings: what one glance should tell.
// Rates are over the last second and a half, latencies over ten, so that figures move but do not flicker.

import { announce } from "./announce.js";
import { byId, make, mark, write } from "./dom.js";
import { bytes, count, duration, exact, percent, rate } from "./format.js";
import { quantile } from "./history.js";

const NOW_MS = 1_500;
const LATELY_MS = 10_000;
const LIVE = {
  connecting: ["quiet", "connecting"],
  live: ["good", "live"],
  reconnecting: ["wait", "reconnecting"],
  offline: ["bad", "offline"],
  paused: ["quiet", "paused"],
};

export function figures(history) {
  const list = byId("figures");
  const shown = new Map();
  let warned = "";

  function show(name, value, unit, aside, tone = null) {
    if (!shown.has(name)) {
      const made = { text: make("span"), unit: make("small"), aside: make("dd", { class: "aside" }) };
      made.box = make(
        "div",
        { class: "figure" },
        make("dt", {}, name),
        make("dd", {}, made.text, made.unit),
        made.aside,
      );
      list.append(made.box);
      shown.set(name, made);
    }
    const own = shown.get(name);
    write(own.text, value);
    write(own.unit, unit);
    write(own.aside, aside);
    mark(own.box, "data-tone", tone);
  }

  function showWarnings(warnings) {
    const text = warnings.join("\n");
    if (text === warned) return;
    warned = text;
    const list = byId("warnings");
    for (const element of [list, byId("warned")]) element.hidden = warnings.length === 0;
    list.replaceChildren(...warnings.map((warning) => make("li", {}, warning)));
    write(byId("warned").firstChild, warnings.length === 1 ? "1 warning" : `${warnings.length} warnings`);
    if (warnings.length > 0) announce(`Warning: ${warnings[0]}`);
  }

  return function update() {
    const tick = history.last;
    const now = history.sum(NOW_MS);
    const lately = history.sum(LATELY_MS);
    const per = (value) => (now.seconds > 0 ? value / now.seconds : 0);
    const refused = tick.refused + tick.connections.refused;
    const busy = tick.workers.filter((worker) => worker.is_busy).length;
    const oldest = Math.max(0, ...tick.lanes.map((lane) => lane.oldest_ms));
    const ended = tick.succeeded + tick.failed;
    const took = (share) => duration(quantile(tick.ran.bounds_us, lately.ran, share));
    const waiting = tick.lanes.reduce((sum, lane) => sum + lane.queued, 0);
    show("Throughput", rate(per(now.done + now.failed)), "/s", `${count(ended)} ended`);
    show("Run time, p99", took(0.99), "", `p50 ${took(0.5)}`);
    show("Waiting", count(waiting), "", waiting > 0 ? `oldest ${duration(oldest * 1000)}` : "nothing waits");
    show(
      "Busy workers",
      String(busy),
      `of ${tick.workers.length}`,
      `${count(tick.stages.running)} under way`,
    );
    show(
      "Failed",
      rate(per(now.failed)),
      "/s",
      `${count(tick.failed)} of ${count(ended)}, ${percent(ended ? tick.failed / ended : 0)}`,
      now.failed > 0 ? "bad" : null,
    );
    show(
      "Refused",
      rate(per(now.refused + now.turned_away)),
      "/s",
      `${count(refused)} since the start`,
      now.refused + now.turned_away > 0 ? "wait" : null,
    );
    show("Connections", count(tick.connections.open), "open", `${count(tick.connections.idle)} idle`);
    write(byId("fact-uptime"), `up ${duration(Math.floor(tick.uptime_ms / 1000) * 1e6)}`);
    write(byId("kept"), `${exact(tick.results.kept)} results kept, ${bytes(tick.results.bytes)}`);
    tone(byId("chip-service"), tick.is_draining ? "wait" : "good", tick.is_draining ? "draining" : "ready");
    showWarnings(tick.warnings);
  };
}

/** The state of the live stream; a lost daemon's figures are old, and the page says so. */
export function showLive(state) {
  tone(byId("chip-live"), ...LIVE[state]);
  if (state === "offline" || state === "reconnecting") tone(byId("chip-service"), "quiet", "unknown");
  document.documentElement.dataset.live = state;
  if (state !== "connecting" && state !== "paused") announce(`The page is ${LIVE[state][1]}`);
}

function tone(chip, name, text) {
  mark(chip, "data-tone", name);
  write(chip, text);
}
