// Reads server-sent events from the body of a fetch.
// The browser's own EventSource cannot send a bearer token and hides why it failed, so the format is read
// here: lines, joined into an event by the empty line that ends it.

import { parseExactly } from "./exact.js";

/** Yields { event, data, id } with data parsed as JSON; `heard` is called for every piece, comments too. */
export async function* eventsOf(response, heard = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      rest += value;
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parseBlock(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** One event from its lines; null for a block of comments. */
export function parseBlock(block) {
  const data = [];
  let event = "message";
  let id = null;
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id") id = value;
  }
  return data.length === 0 ? null : { event, id, data: parseExactly(data.join("\n")) };
}
