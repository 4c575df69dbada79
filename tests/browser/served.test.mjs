// How the page travels: packed, under a policy that lets nothing else in, and not twice to whoever has it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon } from "./daemon.mjs";

let daemon;

before(async () => {
  daemon = await Daemon.start({ token: "nobody-needs-this-for-the-page" });
});
after(() => daemon?.stop());

test("every file of the page is packed, typed and kept to its policy", async () => {
  const page = await fetch(daemon.address + "/");
  const text = await page.text();
  const paths = [...new Set([...text.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path))];
  assert.ok(paths.length > 20, `${paths.length} files are named by the page`);
  for (const path of ["/", ...paths]) {
    const { headers, status } = await fetch(daemon.address + path);
    assert.equal(status, 200, path);
    assert.equal(headers.get("content-encoding"), "gzip", path);
    assert.match(headers.get("content-type"), /^(text|image)\//, path);
    assert.equal(headers.get("x-content-type-options"), "nosniff", path);
    const policy = headers.get("content-security-policy");
    assert.match(policy, /default-src 'none'/, path);
    assert.doesNotMatch(policy, /unsafe|\*|http/, path);
  }
});

test("whoever has a file is told that it has not changed", async () => {
  const first = await fetch(daemon.address + "/assets/main.js");
  const again = await fetch(daemon.address + "/assets/main.js", {
    headers: { "if-none-match": first.headers.get("etag") },
  });
  assert.equal(again.status, 304);
  assert.equal((await again.text()).length, 0);
});

test("an unknown file is nowhere", async () => {
  for (const path of ["/assets/none.js", "/assets/", "/assets/%2e%2e/Cargo.toml", "/index.html"]) {
    const { status } = await fetch(daemon.address + path);
    assert.ok([401, 404].includes(status), `${path}: ${status}`);
  }
});
