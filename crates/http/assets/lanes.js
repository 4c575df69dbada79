// One lane for each worker: how much of each moment it was busy, as the height and the colour of its strip.
// At high rates a mark for each task would be a grey smear, so a cell holds the busy share of its time. A
// diamond is a robbery: the worker took tasks from another. The state stands beside the lane in words.

import { byId, write } from "./dom.js";
import { count, exact, percent } from "./format.js";
import { SCALES } from "./history.js";
import { MARGIN, Plot, tableOf } from "./plot.js";

const TALL_MIN = 11;
const TALL_MAX = 64;
const ROOM = 208;

export function lanes(history) {
  const box = byId("workers");
  let scale = 0;
  const plot = new Plot(box, "How busy each worker was over time", (plot) => paint(plot, history, scale));
  const fill = tableOf(
    box,
    "The workers now",
    ["worker", "state", "handler", "busy, 10 s", "tasks done", "waiting", "stolen"],
    () => {
      const recent = history.sum(10_000).workers;
      return history.last.workers.map((worker) => {
        const own = recent.get(worker.worker);
        const busy = own === undefined ? 0 : own.busy / own.seconds;
        return [
          String(worker.worker),
          stateOf(worker),
          worker.handler ?? "–",
          percent(busy),
          exact(worker.completed),
          String(worker.queued),
          exact(worker.stolen),
        ];
      });
    },
  );
  let heights = "";
  return {
    show(place) {
      scale = place;
    },
    update() {
      const { workers, workers_wanted, steals } = history.last;
      const height = workers.length * laneHeight(workers.length) + "px";
      if (height !== heights) {
        heights = height;
        plot.canvas.style.height = height;
      }
      const busy = workers.filter((worker) => worker.is_busy).length;
      write(
        byId("workers-note"),
        `${busy} of ${workers.length} busy · ${workers_wanted} wanted · ${count(steals)} steals`,
      );
      plot.show(history.span(scale));
      fill();
    },
  };
}

/** Few workers share the room of the panel; of many it scrolls. */
function laneHeight(workers) {
  return Math.min(TALL_MAX, Math.max(TALL_MIN, Math.floor(ROOM / workers)));
}

/** What a worker does, in one word for people. */
function stateOf(worker) {
  return worker.is_busy ? "busy" : worker.state;
}

function paint(plot, history, scale) {
  if (history.last === null) return;
  const { workers } = history.last;
  const tall = laneHeight(workers.length);
  const gutter = plot.width < 480 ? 74 : 128;
  const left = 30;
  const wide = plot.width - left - gutter;
  const share = (plot.width - MARGIN.left - MARGIN.right) / wide;
  // The lanes have margins of their own: the plot's time axis is stretched to them.
  const x = (at) => left + (plot.x(at) - MARGIN.left) / share;
  const cell = Math.max(1, x(SCALES[scale].column_ms) - x(0));
  workers.forEach((worker, row) => {
    const floor = (row + 1) * tall - 3;
    plot.line(left, floor + 0.5, left + wide, floor + 0.5);
    if (tall >= 10) labels(plot, worker, floor - tall / 2 + 2, left + wide, gutter);
    for (const column of history.columns(scale)) {
      const own = column.workers.get(worker.worker);
      if (own !== undefined && x(column.at) >= left - cell)
        strip(plot, own, Math.max(left, x(column.at)), cell, floor, tall - 5);
    }
  });
}

function labels(plot, worker, middle, edge, gutter) {
  plot.text(String(worker.worker), 20, middle, "right");
  const state = stateOf(worker);
  const words = worker.handler && gutter > 100 ? `${state} · ${worker.handler}` : state;
  plot.text(
    words.length > 19 ? words.slice(0, 18) + "…" : words,
    edge + 10,
    middle,
    "left",
    worker.is_busy ? plot.ink.ink : plot.ink["ink-soft"],
  );
}

function strip(plot, own, x, cell, floor, tall) {
  const context = plot.context;
  const busy = own.seconds > 0 ? own.busy / own.seconds : 0;
  if (busy > 0.005) {
    const height = Math.max(2, busy * tall);
    context.globalAlpha = 0.35 + 0.65 * busy;
    context.fillStyle = plot.ink.good;
    context.fillRect(x, floor - height, Math.max(1, cell - 0.5), height);
    context.globalAlpha = 1;
  }
  if (own.stolen > 0 && tall > 5) {
    const size = 2.5;
    const middle = x + cell / 2;
    const top = floor - tall + size;
    context.fillStyle = plot.ink.refused;
    context.beginPath();
    context.moveTo(middle, top - size);
    context.lineTo(middle + size, top);
    context.lineTo(middle, top + size);
    context.lineTo(middle - size, top);
    context.fill();
  }
}
