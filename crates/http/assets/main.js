// Puts the page together: one live stream in, and everything that shows it.
// A tick is taken into the history at once and drawn in the next frame, so a burst of ticks costs one
// drawing.

import { choice, byId, write } from "./dom.js";
import { deadLetters, schedules } from "./dead.js";
import { Drawer } from "./drawer.js";
import { events } from "./events.js";
import { figures, showLive } from "./figures.js";
import { handlers } from "./handlers.js";
import { History, SCALES } from "./history.js";
import { keys } from "./keys.js";
import { lanes } from "./lanes.js";
import { latency } from "./latency.js";
import { follow } from "./live.js";
import { queues } from "./queues.js";
import { submitForm } from "./submit.js";
import { tasks } from "./tasks.js";
import { themeButton } from "./theme.js";
import { throughput } from "./throughput.js";
import { tokenPrompt } from "./token.js";

const history = new History();
const charts = [throughput(history), latency(history), lanes(history), queues(history)];
const showFigures = figures(history);
const feed = events();
const table = tasks({ open: (task) => drawer.open(task.task_id), filtered: (name) => crafts.press(name) });
const drawer = new Drawer({ step: (by) => table.grid.step(by), changed: () => table.refresh() });
const form = submitForm((task) => {
  table.refresh();
  drawer.open(task.task_id);
});
const crafts = handlers({
  known(all) {
    form.handlers(all);
    table.handlers(all.map(({ name }) => name));
  },
  chosen: (name) => table.only(name),
});
const letters = deadLetters((id) => {
  table.refresh();
  drawer.open(id);
});
const clock = schedules();
let state = null;
let accepted = null;
let frame;

tokenPrompt();
themeButton(byId("theme"));
keys({
  newTask: () => form.open(),
  step: (by) => {
    byId("grid").focus();
    table.grid.step(by);
  },
});
byId("drawer").addEventListener("close", () => byId("grid").focus({ preventScroll: true }));
choice(
  byId("window"),
  SCALES.map(({ name }) => name),
  (place) => {
    for (const chart of charts) chart.show(place);
    redraw();
  },
);
choice(byId("latency-kind"), ["run", "wait"], (place) => charts[1].choose(place));
feed.update();
follow(heard, (now) => {
  if (now === state) return;
  state = now;
  showLive(now);
});

function heard(name, data) {
  if (name === "hello") greeted(data);
  else if (name === "tick") ticked(data);
  else if (name === "pool") {
    if (data.kind.startsWith("scaled")) history.mark(data.at_ms, data.kind);
    feed.add(data);
  } else if (name === "task") stir();
}

function stir() {
  table.stir();
  crafts.stir();
}

/** A daemon answers: the first time, after a pause, or after a failure. */
function greeted({ version }) {
  write(byId("fact-version"), `version ${version}`);
  crafts.load();
  letters.load();
  clock.load();
}

function ticked(tick) {
  if (history.last === null) table.begin();
  if (history.push(tick)) {
    feed.add({ at_ms: tick.at_ms, kind: "restarted", text: "the daemon began anew" });
    table.begin();
  }
  if (accepted !== null && tick.accepted !== accepted) stir();
  accepted = tick.accepted;
  redraw();
}

function redraw() {
  frame ??= requestAnimationFrame(() => {
    frame = undefined;
    if (history.last === null) return;
    showFigures();
    for (const chart of charts) chart.update();
    feed.update();
  });
}
