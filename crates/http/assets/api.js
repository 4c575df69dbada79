// Every call to the daemon goes through here: the token, problem+json, and what happens on a 401.
// A call that is not authorised asks for a token and is then sent again, so no caller has to know about
// tokens.

import { idText, parseExactly } from "./exact.js";

const TOKEN = "millpond-token";
let askForToken = async () => {};

/** What the daemon refused, in its own words. */
class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the daemon answered ${status}`);
    this.status = status;
  }
}

/** `ask` is given whether a token was refused, and resolves when there is a new one. */
export function onUnauthorized(ask) {
  askForToken = ask;
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

export function keepToken(text) {
  sessionStorage.setItem(TOKEN, text);
}

/** The response of a call that went well; throws a Problem, or what fetch throws if nobody answers. */
export async function call(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { accept };
    if (token !== null) headers.authorization = "Bearer " + token;
    if (method !== "GET") headers["content-type"] = "application/json";
    const response = await fetch(path, { method, headers, body, signal, cache: "no-store" });
    if (response.ok) return response;
    const problem = new Problem(response.status, await response.json().catch(() => ({})));
    if (response.status !== 401) throw problem;
    await askForToken(token !== null);
  }
}

export async function json(path, options) {
  return parseExactly(await (await call(path, options)).text());
}

/** The path of a task. JSON's quotes tell a text from a number, and from what means something in a path. */
export function taskPath(id, rest = "") {
  const plain = typeof id !== "string" || /^[a-z][\w-]*$/i.test(id);
  return "/v1/tasks/" + encodeURIComponent(plain ? idText(id) : JSON.stringify(id)) + rest;
}
