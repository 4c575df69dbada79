// The histogram counts as tests/vectors/histogram.json says, through the module, and weights become whole as in Rust.
//
// Values beyond 2^53 nanoseconds are compared without rounding, which is why some calls go to the module itself.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BOUNDS_DEFAULT_MS, boundsInNanos } from '../../src/brain/histogram.ts';
import { BrainFull } from '../../src/brain/load.ts';
import { halves, newBrain, refusal, vectors } from './vectors.ts';

test('every value has the bucket that the vectors say', () => {
  const { exports, slate } = newBrain();
  for (const { value, bucket, lower, upper, middle } of vectors('histogram').buckets) {
    assert.equal(exports.histogram_bucket(...halves(value)), bucket, value);
    assert.deepEqual([0, 1, 2].map((at) => slate.exact(at)), [lower, upper, middle].map(BigInt), value);
  }
});

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
    histogram.dispose();
  }
});

test('bounds become nanoseconds, or are refused as the vectors say', () => {
  for (const { bounds_ms: bounds, expect_ns: expect, error } of vectors('histogram').bounds) {
    const given = bounds.map((bound: number | string) => Number(String(bound).replace(/^(-?)inf$/, '$1Infinity')));
    if (error === undefined) assert.deepEqual(boundsInNanos(given), expect);
    else assert.equal(refusal(() => boundsInNanos(given)), error);
  }
});

test('times are counted in milliseconds, merged and forgotten', () => {
  const brain = newBrain();
  const [one, other] = [brain.histogram(), brain.histogram()];
  one.record(10);
  other.record(20, 3);
  one.merge(other);
  const { count, sumMs, minMs, maxMs, meanMs, p50 } = one.snapshot();
  assert.deepEqual([count, sumMs, minMs, maxMs, meanMs], [4, 70, 10, 20, 17.5]);
  assert.ok(Math.abs(p50 - 20) < 0.16 && Math.abs(one.quantile(0.25) - 10) < 0.08, `${p50}`);
  assert.deepEqual(one.cumulative([5, 15, 25]), [0, 1, 4]);
  assert.throws(() => one.merge(one), /expected another one/);
  assert.throws(() => one.merge(newBrain().histogram()), /expected another one/);
  one.clear();
  assert.deepEqual([one.count, one.quantile(0.5), other.count], [0, 0, 3]);
  other.record(Number.NaN);
  assert.deepEqual([other.count, other.snapshot().minMs], [4, 0], 'no time counts as none');
});

test('there may be 256 histograms, and those that are disposed of make room', () => {
  const brain = newBrain();
  const all = Array.from({ length: 256 }, () => brain.histogram());
  assert.throws(() => brain.histogram(), BrainFull);
  all[9].dispose();
  all[9].dispose();
  assert.equal(brain.histogram().number, 9);
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
