// The keys of the page, in one table that is also the help.
// They stand back while somebody types or a dialog is open; a dialog has its own keys.

import { byId, make } from "./dom.js";

const KEYS = [
  ["/", "search the tasks"],
  ["j  k  ↓  ↑", "next and previous task"],
  ["Enter", "inspect the task; there j and k go on to the next"],
  ["n", "new task"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

export function keys({ newTask, step }) {
  byId("help-keys").append(
    ...KEYS.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)]),
  );
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("submit-open").addEventListener("click", newTask);
  const acts = {
    "/": () => byId("search").focus(),
    "?": () => byId("help").showModal(),
    n: newTask,
    j: () => step(1),
    k: () => step(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches("input, textarea, select");
    if (typing && event.key === "Escape") event.target.blur();
    if (typing || !(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
  });
}
