// Reads the text that Prometheus reads, strictly: what this refuses, a scraper may refuse too.
//
// Own and small, because the promise is the format itself and not what some lenient parser makes of it.

import assert from 'node:assert/strict';

/** Samples by name and labels; throws at anything that is not the exposition format. */
export function parse(text: string): Map<string, number> {
  assert.ok(text.endsWith('\n'));
  const samples = new Map<string, number>();
  const seen = new Set<string>();
  let family = '';
  let type = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const help = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .+$/.exec(line);
    if (help) {
      family = help[1];
      assert.ok(!seen.has(family), `family ${family} comes twice`);
      seen.add(family);
      continue;
    }
    const typed = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (typed) {
      assert.equal(typed[1], family);
      type = typed[2];
      continue;
    }
    const sample = /^([a-z_]+)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)$/.exec(line);
    assert.ok(sample, `not a sample: ${line}`);
    const suffix = sample[1].slice(family.length);
    assert.ok(sample[1].startsWith(family), line);
    assert.ok(type === 'histogram' ? /^_(bucket|sum|count)$/.test(suffix) : suffix === '', line);
    if (type === 'counter') assert.match(family, /_total$/);
    const value = sample[3] === '+Inf' ? Infinity : Number(sample[3]);
    assert.ok(!Number.isNaN(value), line);
    assert.ok(!samples.has(sample[1] + (sample[2] ?? '')), `sample twice: ${line}`);
    samples.set(sample[1] + (sample[2] ?? ''), value);
  }
  return samples;
}
