// The one live stream of this tab: opened, watched, closed while nobody looks, and opened again.
// A browser has about six connections to one host for all its tabs together, so a hidden tab gives its own
// back. After a failure the pause doubles up to five seconds, with some chance in it, so that many tabs do
// not come back to a daemon at the same moment.

import { call } from "./api.js";
import { eventsOf } from "./sse.js";

const PATH = "/v1/events?interval=250ms";
const PAUSE_MIN_MS = 250;
const PAUSE_MAX_MS = 5_000;
const SILENCE_MAX_MS = 6_000;
const OFFLINE_AFTER = 4;

/** Calls `heard(name, data)` for every event and `became(state)` for every change; never returns. */
export async function follow(heard, became) {
  let failures = 0;
  for (;;) {
    if (document.hidden) {
      became("paused");
      await visible();
    }
    became(failures === 0 ? "connecting" : failures < OFFLINE_AFTER ? "reconnecting" : "offline");
    try {
      await readOnce((name, data) => {
        failures = 0;
        became("live");
        tell(heard, name, data);
      });
    } catch {
      // Nobody answered, or the stream broke, or somebody hid the tab: in every case the loop goes on.
    }
    if (document.hidden) continue;
    failures += 1;
    became(failures < OFFLINE_AFTER ? "reconnecting" : "offline");
    await pause(Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** (failures - 1)) * (0.5 + Math.random() / 2));
  }
}

/** A mistake of the page must be seen, and must not look like a broken stream. */
function tell(heard, name, data) {
  try {
    heard(name, data);
  } catch (error) {
    reportError(error);
  }
}

async function readOnce(heard) {
  const stop = new AbortController();
  const hide = () => document.hidden && stop.abort();
  let silence = setTimeout(() => {}, 0);
  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(), SILENCE_MAX_MS);
  };
  document.addEventListener("visibilitychange", hide);
  try {
    const response = await call(PATH, { signal: stop.signal, accept: "text/event-stream" });
    alive();
    for await (const { event, data } of eventsOf(response, alive)) heard(event, data);
  } finally {
    clearTimeout(silence);
    document.removeEventListener("visibilitychange", hide);
    stop.abort();
  }
}

function visible() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

/** Cut short when the network comes back or somebody looks again. */
function pause(milliseconds) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      document.removeEventListener("visibilitychange", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
    document.addEventListener("visibilitychange", end);
  });
}
