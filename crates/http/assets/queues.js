// How full each queue is: one lane of the pool for each priority, and the queue of connections at the door.
// Depth against capacity says how near refusal is; the age of the oldest says how long a newcomer will
// wait. A bar that fills up also changes its pattern.

import { byId, make, mark, write } from "./dom.js";
import { duration, exact } from "./format.js";
import { Plot, tableOf } from "./plot.js";

const NEAR = 0.6;
const FULL = 0.95;

export function queues(history) {
  const box = byId("queues");
  const list = box.appendChild(make("div"));
  const shown = new Map();
  let scale = 0;
  const all = () => {
    const { lanes, connections } = history.last;
    const own = lanes.map((lane) => ({
      key: lane.priority,
      name: lane.priority,
      depth: lane.queued,
      capacity: lane.capacity,
      aside: lane.queued > 0 ? `oldest ${duration(lane.oldest_ms * 1000)}` : "empty",
    }));
    const { queue, queue_capacity, in_flight } = connections;
    return [
      ...own,
      {
        key: "connections",
        name: "connections",
        depth: queue,
        capacity: queue_capacity,
        aside: `${exact(in_flight)} in flight`,
      },
    ];
  };
  const fill = tableOf(box, "The queues now", ["queue", "waiting", "room for", "detail"], () =>
    all().map((queue) => [queue.name, exact(queue.depth), exact(queue.capacity), queue.aside]),
  );

  function rowOf(queue) {
    const depth = make("b");
    const of = make("span");
    const bar = make("i");
    const aside = make("span", { class: "aside" });
    const row = make(
      "div",
      { class: "queue" },
      make("b", {}, queue.name),
      make("div", { class: "depth" }, depth, of),
      make("div", { class: "bar", "aria-hidden": "true" }, bar),
      aside,
    );
    const plot = new Plot(row, `Depth of ${queue.name} over time`, (plot) =>
      sparkline(plot, history.columns(scale), queue.key),
    );
    list.append(row);
    return { row, depth, of, bar, aside, plot };
  }

  return {
    show(place) {
      scale = place;
    },
    update() {
      for (const queue of all()) {
        if (!shown.has(queue.key)) shown.set(queue.key, rowOf(queue));
        const { row, depth, of, bar, aside, plot } = shown.get(queue.key);
        const share = queue.capacity > 0 ? queue.depth / queue.capacity : 0;
        write(depth, exact(queue.depth));
        write(of, ` of ${exact(queue.capacity)}`);
        write(aside, queue.aside);
        bar.style.width = `${Math.min(100, share * 100)}%`;
        mark(row, "data-tone", share >= FULL ? "bad" : share >= NEAR ? "wait" : null);
        plot.paint();
      }
      write(
        byId("queues-note"),
        `${exact(history.last.lanes.reduce((sum, lane) => sum + lane.queued, 0))} waiting`,
      );
      fill();
    },
  };
}

function sparkline(plot, columns, key) {
  if (columns.length < 2) return;
  const most = Math.max(1, ...columns.map((column) => column.depths[key] ?? 0));
  const first = columns[0].at;
  const span = Math.max(1, columns.at(-1).at - first);
  const context = plot.context;
  context.beginPath();
  for (const column of columns) {
    const height = (column.depths[key] ?? 0) / most;
    context.lineTo(
      ((column.at - first) / span) * (plot.width - 2) + 1,
      plot.height - 2 - height * (plot.height - 4),
    );
  }
  context.strokeStyle = plot.ink["ink-soft"];
  context.lineWidth = 1.25;
  context.stroke();
}
