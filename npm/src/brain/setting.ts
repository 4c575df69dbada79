// Settings that cannot work are refused here, before the module sees them: with their name, what is allowed, and what
// came.
//
// The texts are those of the Rust side, which the vectors compare. Names are written as in Rust
// (`scaling.workers_min`); a layer that calls its options otherwise has `setting`, `expected` and `got` apart.

import { plain, shown } from './words.ts';

const WHOLE_MAX = 0xffff_ffff;
/** The longest time that is taken: in nanoseconds it is still a whole number of JavaScript's. */
const TIME_MS_MAX = 9_007_199_254;

export class BadSetting extends RangeError {
  override readonly name = 'BadSetting';

  constructor(readonly setting: string, readonly expected: string, readonly got: string) {
    super(`${setting}: expected ${expected}, got ${got}`);
  }
}

/** A whole number from `least` to `most`. */
export function whole(setting: string, value: number, least = 1, most = WHOLE_MAX): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new BadSetting(setting, `${least} to ${most}`, shown(value));
}

/** Any number from `least` to `most`. */
export function fraction(setting: string, value: number, least: number, most: number): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw new BadSetting(setting, `a number from ${plain(least)} to ${plain(most)}`, shown(value));
}

/** A time in milliseconds, as nanoseconds. */
export function span(setting: string, milliseconds: number): number {
  if (typeof milliseconds === 'number' && milliseconds >= 0 && milliseconds <= TIME_MS_MAX) return milliseconds * 1e6;
  throw new BadSetting(setting, `0 to ${TIME_MS_MAX} ms`, shown(milliseconds));
}

/** A time that must be more than none. */
export function longer(setting: string, milliseconds: number, expected = 'more than 0 s'): number {
  const nanos = span(setting, milliseconds);
  if (nanos >= 0.5) return nanos;
  throw new BadSetting(setting, expected, '0 s');
}

/** The place of a name among those that are known. */
export function place(setting: string, names: readonly string[], name: string): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  const hint = typeof name === 'string' ? nearest(names, name) : undefined;
  const got = `${shown(name)}${hint === undefined ? '' : `; did you mean "${hint}"?`}`;
  throw new BadSetting(setting, `one of ${names.join(', ')}`, got);
}

/** The name that was probably meant: whoever gets more than a third of one wrong meant something else. */
function nearest(names: readonly string[], name: string): string | undefined {
  const letters = [...name].slice(0, 64).join('');
  let best: { edits: number; name: string } | undefined;
  for (const known of names) {
    const edits = editsBetween(known, letters);
    const isBetter = !best || edits < best.edits || (edits === best.edits && known < best.name);
    if (edits * 3 <= known.length && isBetter) best = { edits, name: known };
  }
  return best?.name;
}

/** How many letters must be put in, taken out or changed to make one of the other. */
function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let down = 0; down < one.length; down += 1) {
    const next = [down + 1];
    for (let right = 0; right < other.length; right += 1) {
      const changed = row[right] + Number(one[down] !== other[right]);
      next.push(Math.min(changed, row[right + 1] + 1, next[right] + 1));
    }
    row = next;
  }
  return row[other.length];
}
