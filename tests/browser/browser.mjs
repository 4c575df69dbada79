// Opens the dashboard in Debian's chromium, and watches what no page of ours may do: write an error to the
// console, throw, or ask another host for anything. `CHROMIUM_BIN` names another browser of that kind.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const SHOTS = process.env.BROWSER_OUTPUT ?? fileURLToPath(new URL("../../target/browser", import.meta.url));
const WAIT_MS = 30_000;

export class Browser {
  static async start() {
    const browser = new Browser();
    browser.chromium = await chromium.launch({
      executablePath: process.env.CHROMIUM_BIN ?? "/usr/bin/chromium",
      args: ["--no-sandbox"],
    });
    await mkdir(SHOTS, { recursive: true });
    return browser;
  }

  /** A tab of its own, with its own storage. `allowed` are console errors that the test brings about. */
  async open(address, { allowed = [], ...options } = {}) {
    const viewport = { width: 1440, height: 900 };
    const context = await this.chromium.newContext({
      viewport,
      colorScheme: "light",
      reducedMotion: "reduce",
      ...options,
    });
    const page = await context.newPage();
    const faults = [];
    page.setDefaultTimeout(WAIT_MS);
    page.on("pageerror", (error) => faults.push(`thrown: ${error.stack}`));
    page.on("console", (message) => {
      const text = `${message.text()} (${message.location().url})`;
      const wrong = ["error", "warning"].includes(message.type());
      if (wrong && !allowed.some((pattern) => pattern.test(text))) faults.push(`console: ${text}`);
    });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== address) faults.push(`asked ${request.url()}`);
    });
    await page.goto(address + "/");
    return { page, faults, close: () => context.close() };
  }

  async stop() {
    await this.chromium.close();
  }
}

/** Waits until the live stream is there. */
export function live(page) {
  return page.locator("#chip-live", { hasText: "live" }).waitFor();
}

/** Waits until the element shows this text. */
export async function shows(page, selector, text) {
  await page.locator(selector).filter({ hasText: text }).first().waitFor();
}

/** The row of a task. */
export function rowOf(page, id) {
  const cell = page.locator('[data-column="id"]').getByText(String(id), { exact: true });
  return page.locator(".row-task:not([hidden])").filter({ has: cell });
}

export function screenshot(page, name) {
  return page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

export function noFaults(faults) {
  assert.deepEqual(faults, []);
}
