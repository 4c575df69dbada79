// Asks for the bearer token when the daemon wants one, once for all calls that wait for it.
// It is kept in the storage of this tab, which ends with the tab, and goes nowhere but to this daemon.

import { hasToken, keepToken, onUnauthorized } from "./api.js";
import { byId, write } from "./dom.js";

export function tokenPrompt() {
  // A link carries no token, so with one these would only lead to a refusal.
  byId("links").hidden = hasToken();
  const dialog = byId("token");
  let asked = null;

  onUnauthorized((refused) => {
    asked ??= new Promise((resolve) => {
      write(byId("token-problem"), refused ? "the daemon does not know this token" : "");
      byId("token-text").value = "";
      dialog.showModal();
      byId("token-form").onsubmit = (event) => {
        event.preventDefault();
        keepToken(byId("token-text").value.trim());
        byId("links").hidden = true;
        asked = null;
        dialog.close();
        resolve();
      };
    });
    return asked;
  });
  // Without a token there is nothing to show, so Escape does not close it.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
}
