// Numbers in words, as the Rust side prints them: times, shares, names in quotes.
//
// The vectors in tests/vectors hold both sides to the same texts, so what Rust's formatting does is done here: a time
// has the largest unit that makes it 1 or more, and a number never has an exponent.

const UNITS: readonly [number, string][] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];

/** A time of so many nanoseconds: `1.5s`, `20ms`, `0ns`. */
export function time(nanos: number): string {
  for (const [unit, name] of UNITS) {
    if (nanos < unit) continue;
    const rest = String(nanos % unit).padStart(String(unit).length - 1, '0').replace(/0+$/, '');
    return `${Math.floor(nanos / unit)}${rest === '' ? '' : `.${rest}`}${name}`;
  }
  return `${nanos}ns`;
}

/** Thousandths as a number with a point: `4.500`. */
export function ratio(thousandths: number): string {
  return `${Math.floor(thousandths / 1000)}.${String(thousandths % 1000).padStart(3, '0')}`;
}

/** A share of 10 000 in per cent: `11.50 %`. */
export function percent(share: number): string {
  return `${Math.floor(share / 100)}.${String(share % 100).padStart(2, '0')} %`;
}

/** A number, without an exponent however large or small it is. */
export function plain(number: number): string {
  if (Number.isNaN(number)) return 'NaN';
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf';
  const text = String(number);
  const parts = /^(-?)(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
  if (!parts) return Object.is(number, -0) ? '-0' : text;
  const [, sign, whole, fraction = '', exponent] = parts;
  const shift = Number(exponent);
  if (shift > 0) return `${sign}${whole}${fraction.padEnd(shift, '0')}`;
  return `${sign}0.${'0'.repeat(-shift - 1)}${whole}${fraction}`;
}

/** Whatever came, as an error shows it: texts in quotes and not too long. */
export function shown(value: unknown): string {
  if (typeof value === 'number') return plain(value);
  if (typeof value === 'string') return JSON.stringify([...value].slice(0, 64).join(''));
  if (value === null || value === undefined || typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return `${value}n`;
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}
