// Light, dark, or as the system says: kept in this browser, set before the first paint.
// Whoever draws by hand asks `colours` for the values and is told when they change.

const KEY = "millpond-theme";
const NAMES = ["auto", "light", "dark"];
const COLOURS = [
  "ink",
  "ink-soft",
  "page",
  "card",
  "line",
  "good",
  "bad",
  "refused",
  "calm",
  "heat-low",
  "heat-high",
  "mark",
];
const listeners = [];
let read = null;

let theme = NAMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
document.documentElement.dataset.theme = theme;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

/** The colours of theme.css by name, as the canvas takes them. */
export function colours() {
  if (read === null) {
    const style = getComputedStyle(document.documentElement);
    read = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
    read.font = getComputedStyle(document.body).fontFamily;
  }
  return read;
}

export function onTheme(listener) {
  listeners.push(listener);
}

/** The button goes through the three in turn and says which one holds. */
export function themeButton(button) {
  const show = () => {
    button.textContent = { auto: "◐ Auto", light: "○ Light", dark: "● Dark" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
  };
  button.addEventListener("click", () => {
    theme = NAMES[(NAMES.indexOf(theme) + 1) % NAMES.length];
    localStorage.setItem(KEY, theme);
    document.documentElement.dataset.theme = theme;
    show();
    changed();
  });
  show();
}

function changed() {
  read = null;
  for (const listener of listeners) listener();
}
