// Runs code of a test in a page of a real Chromium, and hands back what it answers.
//
// `CHROMIUM_BIN` names another browser of that kind. What a page throws outside of the test's own code is kept, so that
// a test can say that nothing was.

import { chromium, type Browser, type Page } from 'playwright-core';
import { Site, type SiteOptions } from './site.ts';

const WAIT_MS = 60_000;

export class Chromium {
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(): Promise<Chromium> {
    const executablePath = process.env['CHROMIUM_BIN'] ?? '/usr/bin/chromium';
    return new Chromium(await chromium.launch({ executablePath, args: ['--no-sandbox'] }));
  }

  /** Opens a site of its own for `use`, and closes it again. */
  async visit<T>(options: SiteOptions, use: (visit: Visit) => Promise<T>): Promise<T> {
    const site = await Site.open(options);
    const context = await this.#browser.newContext();
    try {
      const page = await context.newPage();
      page.setDefaultTimeout(WAIT_MS);
      const visit = new Visit(page, site.url);
      page.on('pageerror', (error) => visit.faults.push(error.message));
      page.on('console', (message) => visit.console.push(message.text()));
      await page.goto(site.url);
      return await use(visit);
    } finally {
      await context.close();
      await site.close();
    }
  }

  /** What an element of a page elsewhere says, once that is what is waited for. */
  async read(address: string, selector: string, expected: RegExp): Promise<string> {
    const page = await this.#browser.newPage();
    page.setDefaultTimeout(WAIT_MS);
    await page.goto(address);
    const found = page.locator(selector).filter({ hasText: expected }).first();
    return (await found.textContent()) ?? '';
  }

  async stop(): Promise<void> {
    await this.#browser.close();
  }
}

export class Visit {
  readonly page: Page;
  readonly url: string;
  /** What was thrown and caught by nobody. */
  readonly faults: string[] = [];
  readonly console: string[] = [];

  constructor(page: Page, url: string) {
    this.page = page;
    this.url = url;
  }

  /** Runs the body of an async function in the page, with the package as `millpond`; its value must be JSON. */
  run<T = any>(body: string): Promise<T> {
    const text = `import('/millpond/index.js').then(async (millpond) => { ${body} })`;
    const late = new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error(`the page did not answer within ${WAIT_MS} ms: ${body}`)), WAIT_MS).unref();
    });
    return Promise.race([this.page.evaluate(text) as Promise<T>, late]);
  }
}
