// The parts of the page that need no browser, held against tables: figures, ticks, streams, ids, lists.

import assert from "node:assert/strict";
import { test } from "node:test";
import { idText, parseExactly } from "../../crates/http/assets/exact.js";
import {
  age,
  bytes,
  count,
  duration,
  exact,
  percent,
  rate,
  standing,
} from "../../crates/http/assets/format.js";
import { History, SCALES, quantile } from "../../crates/http/assets/history.js";
import { eventsOf, parseBlock } from "../../crates/http/assets/sse.js";
import { brought } from "../../crates/http/assets/tasklist.js";
import { taskPath } from "../../crates/http/assets/api.js";

const plain = (text) => text.replaceAll("\u202f", " ");

function table(format, cases) {
  for (const [value, expected] of cases) assert.equal(plain(format(value)), expected, String(value));
}

test("figures are short and have a unit", () => {
  table(count, [
    [0, "0"],
    [999, "999"],
    [1234, "1.23k"],
    [99_949, "99.9k"],
    [999_499, "999k"],
    [999_500, "1M"],
    [5.1e9, "5.1G"],
  ]);
  table(rate, [
    [0, "0"],
    [0.25, "0.25"],
    [9.5, "9.5"],
    [10, "10"],
    [1500, "1.5k"],
  ]);
  table(exact, [
    [0, "0"],
    [999, "999"],
    [1000, "1 000"],
    [1234567, "1 234 567"],
  ]);
  table(duration, [
    [undefined, "–"],
    [0, "0 µs"],
    [340, "340 µs"],
    [999.6, "1 ms"],
    [3400, "3.4 ms"],
    [999_600, "1 s"],
    [12e6, "12 s"],
    [59.97e6, "1 min"],
    [200e6, "3 min 20 s"],
    [3600e6, "1 h"],
    [7500e6, "2 h 5 min"],
    [273_600e6, "3 d 4 h"],
  ]);
  table(age, [
    [0, "now"],
    [999_999, "now"],
    [61.9e6, "1 min 1 s"],
  ]);
  table(bytes, [
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1 KiB"],
    [4.1e6, "3.91 MiB"],
  ]);
  table(percent, [
    [0, "0 %"],
    [0.004, "0.4 %"],
    [0.5, "50 %"],
    [1, "100 %"],
  ]);
});

test("a task stands in one word", () => {
  const text = (task) => plain(standing(task).text);
  assert.equal(text({ stage: "queued" }), "queued");
  assert.equal(text({ stage: "running", progress: 0.42 }), "running 42 %");
  assert.equal(text({ stage: "ended", status: 0 }), "done");
  assert.deepEqual(standing({ stage: "ended", status: -101, error: "cancelled" }), {
    sign: "cancelled",
    text: "cancelled",
  });
  assert.deepEqual(standing({ stage: "ended", status: -6, error: "timed-out" }), {
    sign: "failed",
    text: "timed-out",
  });
});

test("large numbers stay as they were written", () => {
  const text = '{"id":12345678901234567890,"small":7,"text":"1234567890123456789","real":1.5}';
  const value = parseExactly(text);
  if (JSON.rawJSON === undefined) return assert.equal(value.small, 7);
  assert.equal(JSON.stringify(value), text);
  assert.equal(idText(value.id), "12345678901234567890");
});

test("ids become paths that mean the same id", () => {
  assert.equal(taskPath(17), "/v1/tasks/17");
  assert.equal(taskPath("17"), "/v1/tasks/%2217%22");
  assert.equal(taskPath("t17", "/why"), "/v1/tasks/t17/why");
  assert.equal(taskPath(".."), "/v1/tasks/%22..%22");
  assert.equal(taskPath("a/b c"), "/v1/tasks/%22a%2Fb%20c%22");
});

test("events are cut from a stream wherever its pieces end", async () => {
  const text =
    ': hello\n\nevent: tick\nid: 4\ndata: {"a":\ndata: 1}\n\nevent: task\r\ndata: "ä"\r\n\r\ndata: 3\n\n';
  const whole = new TextEncoder().encode(text);
  for (const size of [1, 2, 7, whole.length]) {
    const pieces = new ReadableStream({
      start(controller) {
        for (let at = 0; at < whole.length; at += size) controller.enqueue(whole.slice(at, at + size));
        controller.close();
      },
    });
    const events = [];
    for await (const event of eventsOf(new Response(pieces))) events.push(event);
    assert.deepEqual(
      events,
      [
        { event: "tick", id: "4", data: { a: 1 } },
        { event: "task", id: null, data: "ä" },
        { event: "message", id: null, data: 3 },
      ],
      `pieces of ${size}`,
    );
  }
  assert.equal(parseBlock(": only a comment"), null);
});

test("rows are brought up to date in place, and leave only if they are gone for sure", () => {
  const rows = (cursor, ...keys) => keys.map((key) => ({ key, cursor }));
  const fresh = (cursor, ...keys) =>
    new Map(rows(cursor, ...keys).map((row) => [row.key, { ...row, news: 1 }]));
  const told = (all) => all.map(({ key, news }) => key + (news ? "!" : ""));
  const known = [...rows(null, "c", "b"), ...rows("20", "a", "z")];
  assert.deepEqual(told(brought(known, fresh("20", "z"), "20")), ["c", "b", "z!"]);
  assert.deepEqual(told(brought(known, fresh(null, "e", "d", "c"), null)), ["c!", "b", "a", "z"]);
});

function tick(at_ms, overrides = {}) {
  return {
    at_ms,
    uptime_ms: at_ms - 1_000_000,
    succeeded: 0,
    failed: 0,
    refused: 0,
    lanes: [],
    workers: [],
    connections: { refused: 0, queue: 0 },
    ran: { bounds_us: [10, 100], counts: [0, 0, 0] },
    waited: { bounds_us: [10, 100], counts: [0, 0, 0] },
    ...overrides,
  };
}

test("ticks add up to columns, and rates are over the time that was seen", () => {
  const history = new History();
  for (let step = 0; step <= 8; step += 1) {
    history.push(
      tick(2_000_000 + step * 250, {
        succeeded: step * 100,
        failed: step,
        ran: { bounds_us: [10, 100], counts: [0, step * 100, 0] },
      }),
    );
  }
  const sum = history.sum(1_000);
  assert.deepEqual([sum.seconds, sum.done, sum.failed], [1, 400, 4]);
  const columns = history.columns(0);
  assert.equal(
    columns.reduce((all, column) => all + column.done, 0),
    800,
  );
  assert.ok(columns.every(({ at }) => at % SCALES[0].column_ms === 0));
  assert.deepEqual(history.columns(0).at(-2).ran, [0, 200, 0]);
});

test("a daemon that began anew counts from nought, and a gap is no column", () => {
  const history = new History();
  history.push(tick(2_000_000, { succeeded: 500 }));
  assert.equal(history.push(tick(2_000_250, { uptime_ms: 100, succeeded: 3 })), true);
  assert.equal(history.columns(0).length, 0);
  history.push(tick(2_000_500, { uptime_ms: 350, succeeded: 5 }));
  assert.equal(history.columns(0).at(-1).done, 2);
  history.push(tick(2_060_000, { uptime_ms: 59_850, succeeded: 900 }));
  assert.equal(history.columns(0).at(-1).done, 2, "what happened in a long gap cannot be dated");
});

test("a worker that stays in one task is busy although nothing is counted yet", () => {
  const history = new History();
  const worker = { worker: 0, state: "running", is_busy: true, completed: 4, run_total_us: 10, stolen: 0 };
  history.push(tick(2_000_000, { workers: [worker] }));
  history.push(tick(2_000_250, { workers: [worker] }));
  assert.deepEqual(history.sum(1_000).workers.get(0).busy, 0.25);
});

test("a seat without a worker is not shown", () => {
  const history = new History();
  const seat = (worker, state) => ({
    worker,
    state,
    is_busy: false,
    completed: 0,
    run_total_us: 0,
    stolen: 0,
  });
  history.push(tick(2_000_000, { workers: [seat(0, "ready"), seat(1, "terminated"), seat(2, "cold")] }));
  assert.deepEqual(
    history.last.workers.map(({ worker }) => worker),
    [0],
  );
});

test("old columns go, so that a day of ticks takes no more room than a minute", () => {
  const history = new History();
  for (let step = 0; step < 8_000; step += 1) history.push(tick(2_000_000 + step * 1_000));
  SCALES.forEach(({ window_ms, column_ms }, place) => {
    assert.ok(history.columns(place).length <= window_ms / column_ms + 1);
  });
  assert.ok(history.recent.length <= 11);
});

test("a share of all lies below a quantile", () => {
  const bounds = [10, 100, 1000];
  assert.equal(quantile(bounds, [0, 0, 0, 0], 0.5), undefined);
  assert.equal(quantile(bounds, [4, 0, 0, 0], 0.5), 5);
  assert.equal(quantile(bounds, [0, 10, 0, 0], 1), 100);
  assert.equal(quantile(bounds, [50, 0, 50, 0], 0.5), 10);
  assert.equal(quantile(bounds, [0, 0, 0, 7], 0.99), 1000, "beyond the last bound there is nothing to go by");
});
