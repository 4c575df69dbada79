// Given weights made small and whole, as the strategies that go by weight want them.
//
// The same steps as `weights::whole` of the Rust side, in the same floating point: so the same numbers come out, and
// the module need not carry what runs once when a pool is made.

import { BadSetting } from './setting.ts';
import { plain, shown } from './words.ts';

const WEIGHT_MAX = 1000;

/**
 * Small whole weights in the proportions of the given ones, each within 1 per cent of its share if that can be done
 * with weights up to 1000, and else as near as can be.
 *
 * @throws BadSetting for a weight that is no positive number, or more than 1000 times as large as another.
 */
export function wholeWeights(weights: readonly number[]): number[] {
  weights.forEach((weight, at) => {
    if (typeof weight === 'number' && Number.isFinite(weight) && weight > 0) return;
    const expected = 'positive numbers (above 0, neither infinite nor NaN)';
    throw new BadSetting('weights', expected, `${shown(weight)} for worker ${at}`);
  });
  const smallest = weights.reduce((least, weight) => Math.min(least, weight), Infinity);
  const largest = weights.reduce((most, weight) => Math.max(most, weight), 0);
  if (largest / smallest > WEIGHT_MAX) {
    const expected = `no weight more than ${WEIGHT_MAX} times as large as another`;
    throw new BadSetting('weights', expected, `${plain(smallest)} and ${plain(largest)}`);
  }
  let nearest = { off: Infinity, unit: 1 };
  // The smallest weight is tried as 1, 2, 3 and so on, since short rounds are better than long ones.
  for (let unit = 1; unit <= WEIGHT_MAX && (largest / smallest) * unit <= WEIGHT_MAX + 0.5; unit += 1) {
    const off = weights.reduce((most, weight) => Math.max(most, offBy((weight / smallest) * unit)), 0);
    if (off < nearest.off) nearest = { off, unit };
    if (off <= 0.01) break;
  }
  return weights.map((weight) => rounded((weight / smallest) * nearest.unit));
}

function rounded(weight: number): number {
  return Math.floor(weight + 0.5);
}

/** By which share of itself a number is off when rounded. */
function offBy(weight: number): number {
  return Math.abs(rounded(weight) - weight) / weight;
}
