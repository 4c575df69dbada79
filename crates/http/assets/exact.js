// JSON without loss: whole numbers that JavaScript would round stay as they were written.
// Ids of tasks and arguments may have 64 bits. Rounded they would name another task, or show arguments that
// nobody sent. Such a number becomes a raw piece of JSON, which is written back as it came.

/** Most texts have no such number and take the quick way. */
export function parseExactly(text) {
  if (!/\d{16}/.test(text) || JSON.rawJSON === undefined) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const rounded = Number.isInteger(value) && !Number.isSafeInteger(value);
    return rounded && /^-?\d+$/.test(context.source) ? JSON.rawJSON(context.source) : value;
  });
}

/** An id as people read it. */
export function idText(id) {
  return typeof id === "object" ? id.rawJSON : String(id);
}
