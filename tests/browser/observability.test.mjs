// The examples for Prometheus and Grafana speak of metrics by name. A name that the daemon does not have
// would make an alert that never fires, so all of them must be among those that a real daemon describes.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Daemon } from "./daemon.mjs";

const EXAMPLES = new URL("../../examples/observability/", import.meta.url);
let described;
let daemon;

before(async () => {
  daemon = await Daemon.start();
  const text = await daemon.call("/metrics");
  described = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => [name, kind]));
});
after(() => daemon?.stop());

/** Histograms are described once and read as buckets, sum and count. */
function isDescribed(name) {
  if (described.has(name)) return true;
  return described.get(name.replace(/_(bucket|sum|count)$/, "")) === "histogram";
}

for (const file of ["grafana.json", "alerts.yml", "alerts-test.yml"]) {
  test(`${file} names only metrics that a daemon has`, async () => {
    const text = await readFile(new URL(file, EXAMPLES), "utf8");
    const names = [...new Set(text.match(/\bmillpond_[a-z_]+/g))];
    assert.ok(names.length >= 10, `${names.length} names were found`);
    assert.deepEqual(
      names.filter((name) => !isDescribed(name)),
      [],
    );
  });
}
