// The number of workers is decided as tests/vectors says, through the module, reasons and errors included.
//
// The Rust tests read the same files: scale.json and scale-trace.json. Stealing and admission are TypeScript's, and are
// held to their vectors in test/features/vectors.test.ts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ScaleSettings } from '../../src/brain/scale.ts';
import { newBrain, refusal, vectors } from './vectors.ts';

const NAMES: Readonly<Record<string, string>> = { half_life_ms: 'halfLifeMs' };

/** Settings as the vectors write them, by the names of this package. */
function settings(set: Record<string, unknown> = {}): Record<string, unknown> {
  return Object.fromEntries(Object.entries(set).map(([name, value]) => {
    const own = NAMES[name] ?? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (value !== null && typeof value === 'object') return [own, settings(value as Record<string, unknown>)];
    const isNumber = typeof value === 'string' && /^(-?inf|NaN)/i.test(value);
    return [own, isNumber ? Number(value.replace(/^(-?)inf.*/i, '$1Infinity')) : value];
  }));
}

for (const file of ['scale', 'scale-trace']) {
  test(`the number of workers changes as ${file}.json says`, () => {
    for (const { name, settings: set, steps } of vectors(file).cases) {
      const { scaling } = newBrain();
      let present = settings(set) as ScaleSettings;
      for (const step of steps) {
        present = { ...present, ...settings(step.set) };
        scaling.configure(present);
        const change = scaling.decide({
          workers: step.workers, waiting: step.waiting, running: step.running, idleLong: step.idle_long,
          oldestWaitMs: step.oldest_wait_ms, arrivalsTotal: step.arrivals_total,
          runMeanMs: (step.run_mean_ns ?? 0) / 1e6,
        }, step.now_ms);
        const decision = change === 0 ? 'stay' : change > 0 ? 'up' : 'down';
        const got = { decision, to: scaling.to, reason: scaling.reason() };
        assert.deepEqual(got, step.expect, `${name}, at ${step.now_ms} ms`);
      }
    }
  });
}

test('settings of scaling that cannot work are refused as the vectors say', () => {
  const { scaling } = newBrain();
  for (const { set, error } of vectors('scale').settings) {
    assert.equal(refusal(() => scaling.configure(settings(set))), error);
  }
  const half = refusal(() => scaling.configure({ workersMin: 1.5 }));
  assert.match(half, /workers_min: expected 1 to workers_max \(8\), got 1\.5/);
  assert.match(refusal(() => scaling.configure({ stepUp: '1' as unknown as number })), /got "1"/);
  assert.match(refusal(() => scaling.configure({ cooldownMs: -1 })), /scaling\.cooldown: expected 0 to/);
  assert.equal(scaling.reason(), '', 'nothing was decided yet');
});

