// A daemon that is full: the user is told in its words, the refusal is counted, and a task that makes room
// makes the next attempt succeed.

import { after, before, test } from "node:test";
import { Browser, live, noFaults, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

let daemon;
let browser;

before(async () => {
  [daemon, browser] = await Promise.all([Daemon.start({ settings: ["tasks_max = 2"] }), Browser.start()]);
});
after(async () => {
  await browser?.stop();
  await daemon?.stop();
});

test("a full daemon is seen to refuse, and then to accept", async () => {
  const { page, faults, close } = await browser.open(daemon.address, { allowed: [/status of 503/] });
  await live(page);
  for (const task_id of ["first", "second"]) {
    await daemon.submit({ task_id, handler: "sleep", args: { ms: 3_600_000 } });
  }
  await page.keyboard.press("n");
  await page.selectOption("#submit-handler", "echo");
  await page.click('#submit-form button[type="submit"]');
  await shows(page, "#submit-problem", "2 of 2 tasks are under way");
  await screenshot(page, "refused");
  await page.keyboard.press("Escape");
  await shows(page, ".figure", "1 since the start");
  await daemon.call("/v1/tasks/first/cancel", { method: "POST" });
  await page.keyboard.press("n");
  await page.click('#submit-form button[type="submit"]');
  await shows(page, "#drawer .stage", "done");
  noFaults(faults);
  await close();
});
