// Stealing, scaling and admission decide as tests/vectors says, through the module, reasons and errors included.
//
// The Rust tests read the same files: steal.json, scale.json, scale-trace.json and admit.json.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dropOrder } from '../../src/brain/admit.ts';
import type { Brain } from '../../src/brain/load.ts';
import type { ScaleSettings } from '../../src/brain/scale.ts';
import type { StealSettings } from '../../src/brain/steal.ts';
import { newBrain, paint, refusal, vectors } from './vectors.ts';

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

test('a thief does as the vectors say', () => {
  for (const { name, settings: set, steps } of vectors('steal').cases) {
    const brain = newBrain();
    brain.stealing.configure(settings(set) as StealSettings);
    for (const step of steps) {
      if (step.came_back_empty) brain.stealing.cameBackEmpty(step.thief);
      paint(brain, step.workers);
      const victim = brain.stealing.decide(step.thief, step.now_ms);
      const got = victim < 0 ? null : { victim, take: brain.stealing.take, reason: brain.stealing.reason() };
      assert.deepEqual(got, step.expect, name);
    }
  }
});

test('settings and sizes of thieves that cannot be are refused as the vectors say', () => {
  const { settings: refused, names } = vectors('steal');
  const { stealing } = newBrain();
  for (const { set, error } of refused) assert.equal(refusal(() => stealing.configure(settings(set))), error);
  for (const { name, error } of names) {
    if (error === undefined) stealing.configure({ size: name });
    else assert.equal(refusal(() => stealing.configure({ size: name })), error);
  }
  const noTime = refusal(() => stealing.configure({ cooldownMs: Number.NaN }));
  assert.match(noTime, /stealing\.cooldown: expected 0 to .* ms, got NaN/);
});

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

test('a picture becomes the load that the vectors say', () => {
  for (const { workers, waiting, scale_down_idle_ms: idle, now_ms: now, expect } of vectors('scale').views) {
    const brain = newBrain();
    brain.scaling.configure({ scaleDownIdleMs: idle });
    paint(brain, workers.map((worker: object, id: number) => ({ ...worker, id })));
    brain.scaling.sample(waiting, 0, 0, now);
    assert.deepEqual(load(brain), [
      expect.workers, expect.waiting ?? 0, expect.running ?? 0, expect.idle_long ?? 0, expect.run_mean_ns ?? 0,
    ]);
  }
});

function load({ slate }: Brain): number[] {
  return [0, 1, 2, 3, 6].map((at) => slate.float(at));
}

test('a task at the door goes on as the vectors say', () => {
  const { admission } = newBrain();
  for (const { name, policy, timeout_ms: timeout, door, expect } of vectors('admit').cases) {
    admission.configure(policy, timeout ?? null);
    assert.equal(admission.decide(settings(door)), expect.step, name);
    assert.equal(admission.reason(), expect.text, name);
    assert.equal(admission.code, expect.code, name);
    if (expect.step === 'wait') assert.equal(admission.waitMs, expect.wait_ms ?? null, name);
  }
});

test('policies have names, and lanes are dropped from in their order', () => {
  const { admission } = newBrain();
  for (const { name, error } of vectors('admit').names) {
    if (error === undefined) admission.configure(name);
    else assert.equal(refusal(() => admission.configure(name)), error);
  }
  for (const { lane, lanes, expect } of vectors('admit').drop_order) assert.deepEqual(dropOrder(lane, lanes), expect);
});
