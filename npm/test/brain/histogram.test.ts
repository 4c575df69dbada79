// The histogram counts as tests/vectors/histogram.json says, through the module, and weights become whole as in Rust.
//
// Values beyond 2^53 nanoseconds are compared without rounding, which is why some calls go to the module itself.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BOUNDS_DEFAULT_MS, boundsInNanos } from '../../src/brain/histogram.ts';
import { BrainFull } from '../../src/brain/load.ts';
import { halves, newBrain, refusal, vectors } from './vectors.ts';

test('what was counted is answered as the vectors say', () => {
  const brain = newBrain();
  for (const { name, values, bounds_ms: bounds, expect } of vectors('histogram').cases) {
    const histogram = brain.histogram();
    for (const [value, times] of values) {
      brain.exports.histogram_record_exact(histogram.number, ...halves(value), ...halves(times));
    }
    brain.exports.histogram_read(histogram.number);
    const names = ['count', 'sum', 'min', 'max', 'mean', 'p50', 'p90', 'p95', 'p99', 'p999'];
    const got = names.map((_, at) => brain.slate.exact(at));
    assert.deepEqual(got, names.map((fact) => BigInt(expect[fact] ?? 0)), name);
    histogram.cumulative(bounds ?? BOUNDS_DEFAULT_MS);
    const counts = expect.cumulative.map((_: unknown, at: number) => brain.slate.exact(at));
    assert.deepEqual(counts, expect.cumulative.map(BigInt), name);
  }
});

test('bounds become nanoseconds, or are refused as the vectors say', () => {
  for (const { bounds_ms: bounds, expect_ns: expect, error } of vectors('histogram').bounds) {
    const given = bounds.map((bound: number | string) => Number(String(bound).replace(/^(-?)inf$/, '$1Infinity')));
    if (error === undefined) assert.deepEqual(boundsInNanos(given), expect);
    else assert.equal(refusal(() => boundsInNanos(given)), error);
  }
});

test('every bucket is answered by its middle, as the vectors say', () => {
  const brain = newBrain();
  for (const { value, middle } of vectors('histogram').buckets.slice(0, 200)) {
    const histogram = brain.histogram();
    // With one above and one below, the middle is not kept within the extremes.
    for (const [low, high] of [[0, 0], halves(value), [0xffff_ffff, 0xffff_ffff]]) {
      brain.exports.histogram_record_exact(histogram.number, low, high, 1, 0);
    }
    brain.exports.histogram_read(histogram.number);
    assert.equal(brain.slate.exact(5), BigInt(middle), value);
  }
});

test('times are counted in milliseconds', () => {
  const brain = newBrain();
  const [one, other] = [brain.histogram(), brain.histogram()];
  one.record(10);
  one.record(20, 3);
  const { count, sumMs, minMs, maxMs, meanMs, p50 } = one.snapshot();
  assert.deepEqual([count, sumMs, minMs, maxMs, meanMs], [4, 70, 10, 20, 17.5]);
  assert.ok(Math.abs(p50 - 20) < 0.16, `${p50}`);
  assert.deepEqual(one.cumulative([5, 15, 25]), [0, 1, 4]);
  assert.equal(other.count, 0, 'each counts for itself');
  other.record(Number.NaN);
  assert.deepEqual([other.count, other.snapshot().minMs], [1, 0], 'no time counts as none');
});

test('there may be 256 histograms', () => {
  const brain = newBrain();
  for (let number = 0; number < 256; number += 1) assert.equal(brain.histogram().number, number);
  assert.throws(() => brain.histogram(), BrainFull);
  assert.ok(brain.memoryBytes < 12 << 20, `${brain.memoryBytes} bytes`);
});

test('weights become small and whole, or are refused with what is allowed', () => {
  const { wholeWeights } = newBrain();
  assert.deepEqual(wholeWeights([0.5, 1, 1.5]), [1, 2, 3]);
  assert.deepEqual(wholeWeights([1 / 3, 1]), [1, 3]);
  assert.deepEqual([wholeWeights([]), wholeWeights([7])], [[], [1]]);
  for (const bad of [0, -1, Number.NaN, Infinity]) {
    assert.match(refusal(() => wholeWeights([1, bad])), /^weights: expected positive numbers .* for worker 1$/);
  }
  assert.equal(
    refusal(() => wholeWeights([1, 1001])),
    'weights: expected no weight more than 1000 times as large as another, got 1 and 1001',
  );
});
