// How a wrong option is told: one sentence, "name: expected ..., got ...", always a TypeError.
//
// A few checks, each of which gives the value back when it is right, so that reading an option is one line. What comes
// from the user is shown shortened, because an error message has a limit as well.

const SHOWN_MAX = 60;

/** A value in a few words: "the number 3", "the string "x"", "an array of 2". */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  switch (typeof value) {
    case 'string': return `the string ${JSON.stringify(shorten(value))}`;
    case 'number': return `the number ${value}`;
    case 'bigint': return `the bigint ${shorten(String(value))}`;
    case 'boolean': return String(value);
    case 'function': return 'a function';
    case 'symbol': return 'a symbol';
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const made = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof made === 'string' && made !== '' && made !== 'Object' ? `an object ${shorten(made)}` : 'an object';
}

/** Throws the one form of error that wrong options have. */
export function fail(name: string, expected: string, got: unknown, hint?: string): never {
  throw new TypeError(`${name}: expected ${expected}, got ${describe(got)}${hint ? `; ${hint}` : ''}`);
}

export function flag(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') fail(name, 'true or false', value);
  return value;
}

export function kind(name: string, value: unknown, expected: 'function' | 'object'): void {
  if (typeof value === expected && value !== null) return;
  fail(name, expected === 'function' ? 'a function' : 'an object', value);
}

export function numberIn(name: string, value: unknown, least: number, most: number, unit = ''): number {
  if (typeof value === 'number' && value >= least && value <= most) return value;
  return fail(name, `a number${unit && ` of ${unit}`} from ${least} to ${most}`, value);
}

export function integerIn(name: string, value: unknown, least: number, most = 2 ** 31 - 1): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
  return fail(name, `a whole number from ${least} to ${most}`, value);
}

export function oneOf<Name extends string>(name: string, value: unknown, names: readonly Name[]): Name {
  if (names.includes(value as Name)) return value as Name;
  const close = typeof value === 'string' ? nearest(value, names) : undefined;
  return fail(name, `one of ${names.join(', ')}`, value, close && `did you mean "${close}"?`);
}

export function list(name: string, value: unknown, least: number, most: number): void {
  if (Array.isArray(value) && value.length >= least && value.length <= most) return;
  fail(name, `an array of ${least} to ${most}`, value);
}

/** Refuses what is no plain object, and keys nobody reads: a misspelt limit would silently not hold. */
export function checkFields(name: string, value: unknown, fields: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(name, 'an object', value);
  for (const key of Object.keys(value)) {
    if (fields.includes(key)) continue;
    const close = nearest(key, fields);
    const known = `one of the settings ${fields.join(', ')}`;
    fail(`${name}.${shorten(key)}`, known, key, close && `did you mean "${close}"?`);
  }
}

/** The known name that a misspelt one is nearest to, or nothing when none is near. */
export function nearest<Name extends string>(word: string, names: readonly Name[]): Name | undefined {
  if (word.length > SHOWN_MAX) return undefined;
  let best: Name | undefined;
  let least = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const name of names) {
    const steps = distance(word.toLowerCase(), name.toLowerCase());
    if (steps < least) {
      least = steps;
      best = name;
    }
  }
  return best;
}

/** Edits between two short words (Levenshtein), one row at a time. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let line = 1; line <= from.length; line++) {
    const next = [line];
    for (let at = 1; at <= to.length; at++) {
      const change = row[at - 1] + (from[line - 1] === to[at - 1] ? 0 : 1);
      next.push(Math.min(row[at] + 1, next[at - 1] + 1, change));
    }
    row = next;
  }
  return row[to.length];
}

function shorten(text: string): string {
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX - 1)}…`;
}
