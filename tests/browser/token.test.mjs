// A daemon that asks for a token: the page asks the user, keeps it for the tab, and goes on where it was.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, live, noFaults, rowOf, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const SECRET = "a-very-secret-word-for-changes";
const LOOK_ONLY = "another-word-for-those-who-look";

let daemon;
let browser;

before(async () => {
  [daemon, browser] = await Promise.all([
    Daemon.start({ token: SECRET, readToken: LOOK_ONLY }),
    Browser.start(),
  ]);
});
after(async () => {
  await browser?.stop();
  await daemon?.stop();
});

test("the page asks for the token, refuses a wrong one, and lives with the right one", async () => {
  const { page, faults, close } = await browser.open(daemon.address, { allowed: [/status of 401/] });
  await page.locator("#token[open]").waitFor();
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#token").isVisible(), "there is nothing to see without a token");
  await screenshot(page, "token");
  await page.fill("#token-text", "a guess");
  await page.keyboard.press("Enter");
  await shows(page, "#token-problem", "does not know this token");
  await page.fill("#token-text", SECRET);
  await page.keyboard.press("Enter");
  await page.locator("#token").waitFor({ state: "hidden" });
  await live(page);
  await page.keyboard.press("n");
  await page.selectOption("#submit-handler", "echo");
  await page.click('#submit-form button[type="submit"]');
  await shows(page, "#drawer .stage", "done");
  noFaults(faults);
  await page.reload();
  await live(page);
  assert.ok(!(await page.locator("#token").isVisible()), "the tab still has its token");
  noFaults(faults);
  await close();
});

test("with the token that only reads everything is shown and nothing is changed", async () => {
  const task = await daemon.submit({ handler: "sleep", args: { ms: 3_600_000 } });
  const { page, faults, close } = await browser.open(daemon.address, { allowed: [/status of 40[13]/] });
  await page.fill("#token-text", LOOK_ONLY);
  await page.keyboard.press("Enter");
  await live(page);
  await rowOf(page, task.task_id).click();
  await shows(page, "#drawer .stage", "running");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("#drawer .problem:not(:empty)").waitFor();
  const told = JSON.parse(await daemon.call(`/v1/tasks/${task.task_id}`));
  assert.equal(told.stage, "running");
  noFaults(faults);
  await close();
});
