// What people come to the page for: hand in a task, see it run, hear what it says, cancel it, do it again,
// find it. Each step is what a user does and what a user sees; the daemon and the browser are real.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, live, noFaults, rowOf, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

let daemon;
let browser;

before(async () => {
  [daemon, browser] = await Promise.all([Daemon.start(), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await daemon?.stop();
});

async function submit(page, handler, args, options = {}) {
  await page.keyboard.press("n");
  await page.selectOption("#submit-handler", handler);
  if (args !== undefined) await page.fill("#submit-args", JSON.stringify(args));
  for (const [id, value] of Object.entries(options)) await page.fill(`#submit-${id}`, String(value));
  await page.click('#submit-form button[type="submit"]');
}

test("a task from the form runs and shows its result", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await page.click("#submit-open");
  await page.selectOption("#submit-handler", "echo");
  assert.notEqual(await page.textContent("#submit-summary"), "");
  const example = JSON.parse(await page.inputValue("#submit-args"));
  assert.equal(typeof example, "object");
  await page.fill("#submit-args", '{"hello": "pond", "large": 12345678901234567890}');
  await screenshot(page, "form");
  await page.keyboard.press("Control+Enter");
  await shows(page, "#drawer .stage", "done");
  await shows(page, "#drawer pre", "12345678901234567890");
  await page.keyboard.press("Escape");
  const id = await page.textContent("#drawer-title");
  await rowOf(page, id).locator('[data-stage="done"]').waitFor();
  await shows(page, ".figure", "1 ended");
  noFaults(faults);
  await close();
});

test("the handler's example is the beginning of its arguments", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await page.keyboard.press("n");
  await page.selectOption("#submit-handler", "speak");
  await shows(page, "#submit-summary", "Says a few things, then answers.");
  assert.deepEqual(JSON.parse(await page.inputValue("#submit-args")), { steps: 3 });
  await page.fill("#submit-args", "{}");
  await page.selectOption("#submit-handler", "echo");
  await page.selectOption("#submit-handler", "speak");
  assert.deepEqual(JSON.parse(await page.inputValue("#submit-args")), { steps: 3 });
  noFaults(faults);
  await close();
});

test("a refusal is shown in the daemon's words and the form stays", async () => {
  const { page, faults, close } = await browser.open(daemon.address, { allowed: [/status of 4\d\d/] });
  await live(page);
  await submit(page, "echo", undefined, { args: "{not json" });
  await shows(page, "#submit-problem", "expected JSON");
  await page.fill("#submit-args", "[1, 2]");
  await page.click('#submit-form button[type="submit"]');
  await shows(page, "#submit-problem", "args");
  assert.equal(await page.inputValue("#submit-args"), "[1, 2]");
  noFaults(faults);
  await close();
});

test("what a task says is seen in order, and its end too", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await submit(page, "speak", { steps: 4, note: "heard" });
  await shows(page, "#drawer .stage", "done");
  await shows(page, "#drawer pre", '"said": 4');
  const said = await page
    .locator(".said li")
    .evaluateAll((items) => items.map((item) => item.children[1].textContent));
  const expected = ["log", ...Array(4).fill(["partial", "progress"]).flat()];
  assert.deepEqual(said, expected);
  await screenshot(page, "stream");
  noFaults(faults);
  await close();
});

test("a failed task shows its error, and is tried again as a new task", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await submit(page, "speak", { steps: 1, fail: "the mill is closed" });
  await shows(page, "#drawer .stage", "handler-error");
  await shows(page, "#drawer pre", "the mill is closed");
  const first = await page.textContent("#drawer-title");
  await screenshot(page, "failed");
  await page.getByRole("button", { name: "Retry" }).click();
  await page.waitForFunction((first) => document.getElementById("drawer-title").textContent !== first, first);
  await shows(page, "#drawer .stage", "handler-error");
  await page.keyboard.press("Escape");
  await rowOf(page, first).waitFor();
  noFaults(faults);
  await close();
});

test("a running task is explained and can be cancelled", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await submit(page, "speak", { steps: 0 });
  await shows(page, "#drawer .stage", "running");
  await shows(page, ".said li", "the first word");
  const why = await page.textContent(".why");
  assert.ok(why.length > 10, `why it runs: ${why}`);
  await screenshot(page, "running");
  await page.getByRole("button", { name: "Cancel" }).click();
  await shows(page, "#drawer .stage", "cancelled");
  const id = await page.textContent("#drawer-title");
  const told = JSON.parse(await daemon.call(`/v1/tasks/${id}`));
  assert.deepEqual([told.stage, told.error], ["ended", "cancelled"]);
  noFaults(faults);
  await close();
});

test("tasks are found by words, by stage and by handler", async () => {
  const needle = await daemon.submit({ handler: "echo", args: { where: "in the haystack" } });
  const asleep = await daemon.submit({ handler: "sleep", args: { ms: 3_600_000 } });
  for (let hay = 0; hay < 5; hay += 1) await daemon.submit({ handler: "echo", args: { hay } });
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await page.keyboard.press("/");
  await page.keyboard.type("haystack");
  await shows(page, "#tasks-note", "1 found");
  await rowOf(page, needle.task_id).waitFor();
  await page.fill("#search", "no such words anywhere");
  await shows(page, ".empty", "No task matches");
  await page.fill("#search", "");
  await page.selectOption("#filter-stage", "running");
  await shows(page, "#tasks-note", "1 found");
  await rowOf(page, asleep.task_id).waitFor();
  await page.selectOption("#filter-stage", "");
  await page.locator("#handlers button", { hasText: "sleep" }).click();
  await shows(page, "#tasks-note", "1 found");
  await page.locator("#handlers button", { hasText: "sleep" }).click();
  await rowOf(page, needle.task_id).waitFor();
  noFaults(faults);
  await close();
});

test("a task handed in elsewhere appears by itself and ends by itself", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  const task = await daemon.submit({ handler: "sleep", args: { ms: 3_600_000 } });
  await rowOf(page, task.task_id).locator('[data-stage="running"]').waitFor();
  await daemon.call(`/v1/tasks/${task.task_id}/cancel`, { method: "POST" });
  await rowOf(page, task.task_id).locator('[data-stage="cancelled"]').waitFor();
  noFaults(faults);
  await close();
});

test("the keyboard alone is enough", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await page.locator(".row-task:not([hidden])").nth(2).waitFor();
  await page.keyboard.press("?");
  await page.locator("#help[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#help").waitFor({ state: "hidden" });
  const ids = await page.locator('.row-task:not([hidden]) [data-column="id"]').allTextContents();
  await page.keyboard.press("j");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("k");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await shows(page, "#drawer-title", ids[1]);
  await page.keyboard.press("j");
  await shows(page, "#drawer-title", ids[2]);
  await page.keyboard.press("Escape");
  await page.locator("#drawer").waitFor({ state: "hidden" });
  const focused = await page.evaluate(() => document.activeElement.id);
  assert.equal(focused, "grid");
  noFaults(faults);
  await close();
});
