// The daemon dies without a word and comes back: the page says so, waits, and goes on by itself.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, live, noFaults, rowOf, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const BROKEN = [
  /ERR_CONNECTION_REFUSED/,
  /ERR_CONNECTION_RESET/,
  /ERR_INCOMPLETE_CHUNKED/,
  /ERR_EMPTY_RESPONSE/,
];

let daemon;
let browser;

before(async () => {
  [daemon, browser] = await Promise.all([Daemon.start(), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await daemon?.stop();
});

test("the page survives a daemon that is killed and started again", async () => {
  const { page, faults, close } = await browser.open(daemon.address, { allowed: BROKEN });
  await live(page);
  const before = await daemon.submit({ task_id: "before", handler: "echo", args: {} });
  await rowOf(page, before.task_id).waitFor();
  await daemon.kill();
  await page.locator("#chip-live", { hasText: /reconnecting|offline/ }).waitFor();
  await shows(page, "#chip-service", "unknown");
  await screenshot(page, "offline");
  await daemon.run();
  await live(page);
  await shows(page, "#chip-service", "ready");
  await shows(page, "#events", "the daemon began anew");
  // The new daemon does not know the old task.
  await rowOf(page, before.task_id).waitFor({ state: "detached" });
  const after = await daemon.submit({ task_id: "after", handler: "echo", args: {} });
  await rowOf(page, after.task_id).locator('[data-stage="done"]').waitFor();
  noFaults(faults);
  await close();
});

test("an open task whose daemon is gone is shown as lost", async () => {
  const { page, faults, close } = await browser.open(daemon.address, {
    allowed: [...BROKEN, /status of 404/],
  });
  await live(page);
  const task = await daemon.submit({ task_id: "lost", handler: "sleep", args: { ms: 3_600_000 } });
  await rowOf(page, task.task_id).click();
  await shows(page, "#drawer .stage", "running");
  await daemon.kill();
  await daemon.run();
  await shows(page, "#drawer .problem", "lost");
  noFaults(faults);
  await close();
});

test("a hidden tab gives its stream back, takes it up again, and stands where it stood", async () => {
  for (let number = 0; number < 60; number += 1) await daemon.submit({ handler: "echo", args: { number } });
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  await shows(page, "#tasks-note", "known");
  const scrolled = await page.evaluate(() => (document.getElementById("grid").scrollTop = 500));
  const look = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("/v1/events"));
  await look(true);
  await ended;
  await page.locator("#chip-live", { hasText: "paused" }).waitFor();
  await look(false);
  await live(page);
  await shows(page, "#chip-service", "ready");
  assert.equal(await page.evaluate(() => document.getElementById("grid").scrollTop), scrolled);
  noFaults(faults);
  await close();
});
