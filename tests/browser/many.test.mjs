// Ten thousand tasks in the list: only those in sight exist as elements, and all of them can be reached.
// How long the browser was kept busy at a stretch is reported, not judged: it depends on the machine.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, live, noFaults, rowOf, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const TASKS = 10_000;
const ROWS_MAX = 60;

let daemon;
let browser;

before(async () => {
  [daemon, browser] = await Promise.all([Daemon.start(), Browser.start()]);
  const lines = Array.from({ length: TASKS }, (_, number) =>
    JSON.stringify({ task_id: number, handler: "echo", args: { number } }),
  );
  const type = "application/x-ndjson";
  await daemon.call("/v1/bulk", { method: "POST", body: lines.join("\n") + "\n", type });
});
after(async () => {
  await browser?.stop();
  await daemon?.stop();
});

test("ten thousand tasks are all reachable and few are elements", async (context) => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await shows(page, "#tasks-note", "10\u202f000 known");
  await page.evaluate(() => {
    window.stretches = [];
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.stretches.push(Math.round(duration));
    }).observe({ type: "longtask" });
  });
  const rows = () => page.locator(".row-task").count();
  assert.ok((await rows()) <= ROWS_MAX);
  await page.focus("#grid");
  const reached = await page.evaluate(async () => {
    const grid = document.getElementById("grid");
    let most = 0;
    for (let turn = 0; turn < 2_000; turn += 1) {
      grid.scrollTop = grid.scrollHeight;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      most = Math.max(most, document.querySelectorAll(".row-task").length);
      if (grid.getAttribute("aria-rowcount") !== "-1") break;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return { most, all: Number(grid.getAttribute("aria-rowcount")) };
  });
  assert.equal(reached.all, TASKS + 1, "all rows and the head are counted");
  assert.ok(reached.most <= ROWS_MAX, `${reached.most} rows were elements at once`);
  await page.keyboard.press("End");
  await shows(page, '.row-task[aria-selected="true"] [data-column="id"]', /^\d+$/);
  assert.equal(
    await page.locator('.row-task[aria-selected="true"]').getAttribute("aria-rowindex"),
    String(TASKS + 1),
  );
  await screenshot(page, "many");
  const stretches = await page.evaluate(() => window.stretches);
  context.diagnostic(`stretches over 50 ms: ${stretches.length}, longest ${Math.max(0, ...stretches)} ms`);
  await page.keyboard.press("Home");
  await page.fill("#search", '"number":4711');
  await shows(page, "#tasks-note", "1 found");
  await rowOf(page, 4711).waitFor();
  noFaults(faults);
  await close();
});

test("a reader who has scrolled down is not disturbed and is told of news", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await shows(page, "#tasks-note", "known");
  await page.evaluate(() => (document.getElementById("grid").scrollTop = 3_000));
  const inSight = () => page.textContent('.row-task[aria-rowindex="92"] [data-column="id"]');
  const before = await inSight();
  const task = await daemon.submit({ task_id: "news", handler: "echo", args: {} });
  await page.locator("#newest").waitFor();
  assert.equal(await inSight(), before);
  await page.click("#newest");
  await rowOf(page, task.task_id).waitFor();
  noFaults(faults);
  await close();
});
