// The chart of what goes through: tasks done, failed and refused a second, and connections turned away.
// Done is an area, failed a dashed line, refusals are bars from below: three shapes beside three colours,
// since colour alone tells some people nothing. Thin marks show where the pool was scaled or the daemon
// began anew.

import { byId } from "./dom.js";
import { clock, rate } from "./format.js";
import { SCALES } from "./history.js";
import { MARGIN, Plot, roundUp, tableOf } from "./plot.js";

const SERIES = [
  { name: "done", colour: "good", of: (column) => column.done / column.seconds },
  { name: "failed", colour: "bad", of: (column) => column.failed / column.seconds },
  {
    name: "refused",
    colour: "refused",
    of: (column) => (column.refused + column.turned_away) / column.seconds,
  },
];

export function throughput(history) {
  const box = byId("throughput");
  let scale = 0;
  const columns = () => history.columns(scale);
  const plot = new Plot(
    box,
    "Tasks a second over time",
    (plot) => paint(plot, columns(), SCALES[scale], history),
    tell,
  );
  const fill = tableOf(
    box,
    "Tasks a second over time",
    ["time", "done", "failed", "refused", "turned away"],
    () =>
      columns()
        .slice(-20)
        .reverse()
        .map((column) => [
          clock(column.at),
          ...["done", "failed", "refused", "turned_away"].map((name) => rate(column[name] / column.seconds)),
        ]),
  );

  function tell(at) {
    const width = SCALES[scale].column_ms;
    const column = columns().find((column) => at >= column.at && at < column.at + width);
    if (column === undefined) return null;
    const shown = SERIES.map(({ name, of }) => `${name} ${rate(of(column))}/s`);
    return [clock(column.at), ...shown];
  }

  return {
    show(place) {
      scale = place;
    },
    update() {
      plot.show(history.span(scale));
      fill();
    },
  };
}

function paint(plot, columns, scale, history) {
  const floor = plot.height - MARGIN.bottom;
  const shown = columns.filter((column) => column.seconds > 0);
  const most = Math.max(1, ...shown.flatMap((column) => SERIES.map(({ of }) => of(column))));
  const top = roundUp(most * 1.05);
  const y = (value) => floor - (value / top) * (floor - MARGIN.top);
  for (const share of [0, 0.5, 1]) {
    plot.line(MARGIN.left, y(top * share), plot.width - MARGIN.right, y(top * share));
    plot.text(rate(top * share), MARGIN.left - 7, y(top * share), "right");
  }
  plot.timeAxis();
  plot.context.save();
  plot.context.beginPath();
  plot.context.rect(MARGIN.left, 0, plot.width - MARGIN.left - MARGIN.right, floor + 1);
  plot.context.clip();
  for (const mark of history.marks) markTime(plot, mark, floor);
  bars(plot, shown, scale, y, floor);
  for (const run of runs(shown, scale.column_ms)) {
    curve(plot, run, scale, SERIES[0], y, floor);
    curve(plot, run, scale, SERIES[1], y, null);
  }
  plot.context.restore();
}

/** A dotted line under a sign: up, down, or a diamond for a daemon that began anew. */
function markTime(plot, { at, kind }, floor) {
  const x = plot.x(at);
  plot.context.setLineDash([1, 4]);
  plot.line(x, MARGIN.top + 8, x, floor, plot.ink["ink-soft"]);
  plot.context.setLineDash([]);
  const signs = { "scaled-up": "▲", "scaled-down": "▼" };
  plot.text(signs[kind] ?? "◆", x, MARGIN.top + 2, "center", plot.ink.calm);
}

function bars(plot, columns, scale, y, floor) {
  const width = Math.max(1, plot.x(scale.column_ms) - plot.x(0) - 1);
  plot.context.fillStyle = plot.ink.refused;
  for (const column of columns) {
    const value = SERIES[2].of(column);
    if (value > 0) plot.context.fillRect(plot.x(column.at), y(value), width, floor - y(value));
  }
}

/** Stretches without a gap: a curve over a gap would claim to know what happened in it. */
function runs(columns, column_ms) {
  const found = [];
  for (const column of columns) {
    const run = found.at(-1);
    if (run !== undefined && column.at - run.at(-1).at <= 3 * column_ms) run.push(column);
    else found.push([column]);
  }
  return found;
}

/** `floor` is where the area below the curve ends; null draws a dashed line without one. */
function curve(plot, columns, scale, { of, colour }, y, floor) {
  const context = plot.context;
  const middle = scale.column_ms / 2;
  if (floor === null && columns.every((column) => of(column) === 0)) return;
  context.beginPath();
  for (const column of columns) context.lineTo(plot.x(column.at + middle), y(of(column)));
  context.strokeStyle = plot.ink[colour];
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.setLineDash(floor === null ? [5, 3] : []);
  context.stroke();
  context.setLineDash([]);
  if (floor === null) return;
  context.lineTo(plot.x(columns.at(-1).at + middle), floor);
  context.lineTo(plot.x(columns[0].at + middle), floor);
  context.globalAlpha = 0.13;
  context.fillStyle = plot.ink[colour];
  context.fill();
  context.globalAlpha = 1;
}
