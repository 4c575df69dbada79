// What is said aloud: changes of state only, politely, and never more often than every few seconds.
// A screen reader that hears four ticks a second hears nothing. Later words replace those that still wait.

import { byId, write } from "./dom.js";

const APART_MS = 4_000;
const TOAST_MS = 4_000;
let waiting = null;
let timer = null;
let hiding = null;

export function announce(text) {
  waiting = text;
  if (timer === null) speak();
}

/** The same for eyes: shown for a moment, and said. */
export function notice(text) {
  const toast = byId("toast");
  write(toast, text);
  // Hidden and shown again it stands above a dialog that was opened in between.
  toast.hidePopover();
  toast.showPopover();
  clearTimeout(hiding);
  hiding = setTimeout(() => toast.hidePopover(), TOAST_MS);
  announce(text);
}

function speak() {
  if (waiting === null) {
    timer = null;
    return;
  }
  write(byId("announcer"), waiting);
  waiting = null;
  timer = setTimeout(speak, APART_MS);
}
