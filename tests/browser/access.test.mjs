// The page for everybody: no fault that axe can find, in both themes, on a phone, in every dialog; figures of
// the charts as tables; nothing wider than a phone. The screenshots of a page at work are taken here.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { Browser, live, noFaults, screenshot, shows } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let daemon;
let browser;
let working = true;
let work;

before(async () => {
  [daemon, browser] = await Promise.all([Daemon.start(), Browser.start()]);
  work = keepBusy();
});
after(async () => {
  working = false;
  await work;
  await browser?.stop();
  await daemon?.stop();
});

/** Something to look at: batches, with some that fail, until the tests are over. */
async function keepBusy() {
  await daemon.submit({ task_id: "long-report", handler: "sleep", args: { ms: 3_600_000 } });
  for (let turn = 0; working; turn += 1) {
    const batch = Array.from({ length: 60 + 40 * (turn % 5) }, (_, number) => {
      if (number % 50 === 0) return { handler: "speak", args: { steps: 2, fail: "the mill is closed" } };
      if (number % 9 === 0) return { handler: "sleep", args: { ms: (number * 7) % 120 } };
      return {
        handler: "echo",
        args: { number, note: "still water" },
        priority: ["low", "normal", "high"][number % 3],
      };
    });
    await daemon.call("/v1/batch", { method: "POST", body: JSON.stringify(batch) });
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

async function violations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  return violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
  );
}

/** Waits until the charts have something to show: so many columns of half a second. */
async function settled(page, columns = 16) {
  const button = page.getByRole("button", { name: "Throughput as a table" });
  await button.click();
  await page
    .locator("tbody tr")
    .nth(columns - 1)
    .waitFor();
  await button.click();
}

for (const colorScheme of ["light", "dark"]) {
  test(`nothing to complain about in the ${colorScheme} theme`, async () => {
    const { page, faults, close } = await browser.open(daemon.address, { colorScheme });
    await live(page);
    await settled(page);
    await screenshot(page, colorScheme);
    assert.deepEqual(await violations(page), []);
    for (const button of await page.getByRole("button", { name: "as a table" }).all()) await button.click();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("n");
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.locator(".row-task:not([hidden])").first().click();
    await shows(page, "#drawer pre", "{");
    await screenshot(page, `${colorScheme}-drawer`);
    assert.deepEqual(await violations(page), []);
    noFaults(faults);
    await close();
  });
}

test("a phone shows all of it without scrolling sideways", async () => {
  const options = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true };
  const { page, faults, close } = await browser.open(daemon.address, options);
  await live(page);
  await settled(page, 8);
  await screenshot(page, "phone");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 360, `the page is ${wide} pixels wide`);
  assert.deepEqual(await violations(page), []);
  await page.locator("#tasks").scrollIntoViewIfNeeded();
  await page.locator(".row-task:not([hidden])").first().tap();
  await shows(page, "#drawer pre", "{");
  await screenshot(page, "phone-drawer");
  assert.deepEqual(await violations(page), []);
  noFaults(faults);
  await close();
});

test("every chart is also a table, with figures in it", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  await live(page);
  for (const name of ["Throughput", "Latency", "Workers", "Queues"]) {
    await page.getByRole("button", { name: `${name} as a table` }).click();
    const panel = page.locator(".panel", { has: page.getByRole("heading", { name, exact: true }) });
    await panel.locator("tbody td").first().waitFor();
  }
  noFaults(faults);
  await close();
});

test("the theme is the user's choice and is remembered", async () => {
  const { page, faults, close } = await browser.open(daemon.address);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.click("#theme");
  const light = await ground();
  await page.click("#theme");
  const dark = await ground();
  assert.notEqual(light, dark);
  await page.reload();
  assert.equal(await ground(), dark);
  noFaults(faults);
  await close();
});
