// A function as a text, so that it can run elsewhere.
//
// The same few functions are offloaded again and again, and their text does not change: it is remembered for as long as
// the function itself lives.

const texts = new WeakMap<Function, string>();

/** The source of a function. Built-in and bound functions have none; the worker will say so. */
export function sourceOf(method: Function): string {
  const known = texts.get(method);
  if (known !== undefined) return known;
  const text = String(method);
  texts.set(method, text);
  return text;
}
