// The form for a new task: a handler with its summary, its example as the arguments, and the few usual
// options. What the daemon refuses is shown in its own words, and the form stays as it was. The arguments
// are sent as they were typed, because parsing and writing them again would change large numbers.

import { json } from "./api.js";
import { notice } from "./announce.js";
import { byId, make, write } from "./dom.js";
import { idText } from "./exact.js";

export function submitForm(accepted) {
  const dialog = byId("submit");
  const select = byId("submit-handler");
  const args = byId("submit-args");
  let known = [];
  let untouched = true;

  function explain() {
    const handler = known.find(({ name }) => name === select.value);
    write(byId("submit-summary"), handler?.summary ?? "");
    if (untouched) args.value = JSON.stringify(handler?.example ?? {}, null, 2);
  }

  /** The request as text; throws if the arguments are not JSON. */
  function request() {
    const text = args.value.trim() || "{}";
    JSON.parse(text);
    const fields = [`"handler":${JSON.stringify(select.value)}`, `"args":${text}`];
    fields.push(`"priority":${JSON.stringify(byId("submit-priority").value)}`);
    const numbers = { timeout_ms: "submit-timeout", retries: "submit-retries", delay_ms: "submit-delay" };
    for (const [name, id] of Object.entries(numbers)) {
      if (byId(id).value !== "") fields.push(`"${name}":${byId(id).value}`);
    }
    return `{${fields.join(",")}}`;
  }

  async function send() {
    write(byId("submit-problem"), "");
    let body;
    try {
      body = request();
    } catch (error) {
      write(byId("submit-problem"), `arguments: expected JSON; ${error.message}`);
      args.focus();
      return;
    }
    try {
      const task = await json("/v1/tasks", { method: "POST", body });
      dialog.close();
      notice(`Task ${idText(task.task_id)} accepted`);
      accepted(task);
    } catch (problem) {
      write(byId("submit-problem"), problem.message);
    }
  }

  select.addEventListener("change", () => {
    untouched = true;
    explain();
  });
  args.addEventListener("input", () => (untouched = false));
  byId("submit-close").addEventListener("click", () => dialog.close());
  byId("submit-form").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("submit-form").requestSubmit();
  });

  return {
    open() {
      write(byId("submit-problem"), "");
      dialog.showModal();
    },
    handlers(handlers) {
      known = handlers;
      const chosen = select.value;
      select.replaceChildren(...handlers.map(({ name }) => make("option", {}, name)));
      if (handlers.some(({ name }) => name === chosen)) select.value = chosen;
      explain();
    },
  };
}
