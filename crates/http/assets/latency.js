// The heatmap of latency: time from left to right, logarithmic buckets upwards, darker where more tasks fell.
// A line of p99 alone hides two humps; the heatmap shows them, and p50 and p99 are drawn on it as a solid
// and a dashed line. The shades are one hue from pale to deep, which every kind of colour vision can order.

import { byId } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { SCALES, quantile } from "./history.js";
import { MARGIN, Plot, tableOf } from "./plot.js";

const KINDS = ["ran", "waited"];
const ROWS_MIN = 8;

export function latency(history) {
  const box = byId("latency");
  let scale = 0;
  let kind = "ran";
  const columns = () => history.columns(scale);
  const bounds = () => history.last?.[kind].bounds_us ?? [];
  const plot = new Plot(
    box,
    "How long tasks took over time",
    (plot) => paint(plot, columns(), kind, bounds(), SCALES[scale]),
    tell,
  );
  const fill = tableOf(box, "How long tasks took over time", ["time", "tasks", "p50", "p99"], () =>
    columns()
      .slice(-20)
      .reverse()
      .map((column) => [clock(column.at), ...summary(column)]),
  );

  function summary(column) {
    const all = column[kind].reduce((sum, value) => sum + value, 0);
    const at = (share) => duration(quantile(bounds(), column[kind], share));
    return [count(all), at(0.5), at(0.99)];
  }

  function tell(at) {
    const column = columns().find((column) => at >= column.at && at < column.at + SCALES[scale].column_ms);
    if (column === undefined) return null;
    const [all, p50, p99] = summary(column);
    return [clock(column.at), `${all} tasks`, `p50 ${p50}`, `p99 ${p99}`];
  }

  return {
    show(place) {
      scale = place;
    },
    choose(place) {
      kind = KINDS[place];
      plot.paint();
    },
    update() {
      plot.show(history.span(scale));
      fill();
    },
  };
}

function paint(plot, columns, kind, bounds, scale) {
  plot.timeAxis();
  const range = usedRange(columns, kind, bounds.length);
  if (range === null) {
    plot.text("No task has ended in this time", plot.width / 2, plot.height / 2, "center");
    return;
  }
  const floor = plot.height - MARGIN.bottom;
  const tall = (floor - MARGIN.top) / (range.last - range.first + 1);
  const y = (place) => floor - (place - range.first) * tall;
  labels(plot, range, bounds, y);
  const most = Math.max(...columns.flatMap((column) => column[kind]));
  const wide = Math.max(1.5, plot.x(scale.column_ms) - plot.x(0));
  const context = plot.context;
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, 0, plot.width - MARGIN.left - MARGIN.right, floor);
  context.clip();
  const shades = Array.from(
    { length: 16 },
    (_, step) =>
      `color-mix(in oklab, ${plot.ink["heat-high"]} ${Math.round(step * 6.67)}%, ${plot.ink["heat-low"]})`,
  );
  for (const column of columns) {
    const x = plot.x(column.at);
    column[kind].forEach((value, place) => {
      if (value === 0) return;
      const shade = Math.round((Math.log1p(value) / Math.log1p(most)) * 15);
      context.fillStyle = shades[shade];
      context.fillRect(x, y(place + 1), wide - 0.5, Math.max(1, tall - 0.5));
    });
  }
  quantileLine(plot, columns, kind, bounds, scale, y, 0.5, []);
  quantileLine(plot, columns, kind, bounds, scale, y, 0.99, [4, 3]);
  context.restore();
}

/** Only the buckets that something fell into, with a few around them: the axis then fits the data. */
function usedRange(columns, kind, length) {
  let first = Infinity;
  let last = -1;
  for (const column of columns) {
    column[kind].forEach((value, place) => {
      if (value > 0) {
        first = Math.min(first, place);
        last = Math.max(last, place);
      }
    });
  }
  if (last < 0) return null;
  const missing = Math.max(0, ROWS_MIN - (last - first + 1));
  first = Math.max(0, first - Math.ceil(missing / 2));
  return { first, last: Math.min(length, Math.max(last, first + ROWS_MIN - 1)) };
}

/** At most one label for 26 pixels, at the upper bounds. */
function labels(plot, range, bounds, y) {
  let free = Infinity;
  for (let place = range.first; place <= range.last && place < bounds.length; place += 1) {
    const at = y(place + 1);
    if (free - at < 26) continue;
    free = at;
    plot.text(duration(bounds[place]), MARGIN.left - 7, Math.max(at, MARGIN.top), "right");
    plot.line(MARGIN.left, at, plot.width - MARGIN.right, at);
  }
}

function quantileLine(plot, columns, kind, bounds, scale, y, share, dash) {
  const context = plot.context;
  const points = [];
  for (const column of columns) {
    const value = quantile(bounds, column[kind], share);
    if (value !== undefined)
      points.push([plot.x(column.at + scale.column_ms / 2), y(placeOf(value, bounds))]);
  }
  // A rim in the colour of the card keeps the line readable on pale and on deep cells alike.
  for (const [colour, width, pattern] of [
    [plot.ink.card, 3.5, []],
    [plot.ink.mark, 1.75, dash],
  ]) {
    context.beginPath();
    for (const [x, height] of points) context.lineTo(x, height);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(pattern);
    context.stroke();
  }
  context.setLineDash([]);
}

/** Where among the buckets a value lies, with the share of its bucket. */
function placeOf(value, bounds) {
  const place = bounds.findIndex((bound) => value <= bound);
  if (place < 0) return bounds.length;
  const below = place === 0 ? 0 : bounds[place - 1];
  return place + (value - below) / (bounds[place] - below);
}
