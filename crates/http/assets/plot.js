// A canvas that stays sharp, follows the size of its box and the theme, and can be pointed at.
// It knows time from left to right and nothing of what is drawn; throughput.js and latency.js do that.
// What a chart shows is also there as a table, filled only while it is open.

import { make, write } from "./dom.js";
import { colours, onTheme } from "./theme.js";

export const MARGIN = { left: 46, right: 8, top: 8, bottom: 20 };

export class Plot {
  /** `draw(plot)` paints everything; `tell(at)` gives the lines of the tip at a time, or null. */
  constructor(box, label, draw, tell = null) {
    this.canvas = make("canvas", { role: "img", "aria-label": label });
    this.context = this.canvas.getContext("2d");
    this.draw = draw;
    this.pointed = null;
    this.from = 0;
    this.to = 1;
    box.append(this.canvas);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    onTheme(() => this.paint());
    if (tell !== null) this.watchPointer(box, tell);
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint();
  }

  /** Shows this span of time from now on. */
  show({ from, to }) {
    this.from = from;
    this.to = to;
    this.paint();
  }

  paint() {
    if (!this.width || !this.height) return;
    this.ink = colours();
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = `11px ${this.ink.font}`;
    this.draw(this);
    this.pointer?.();
  }

  x(at) {
    const width = this.width - MARGIN.left - MARGIN.right;
    return MARGIN.left + ((at - this.from) / (this.to - this.from)) * width;
  }

  text(words, x, y, align = "left", colour = this.ink["ink-soft"]) {
    this.context.fillStyle = colour;
    this.context.textAlign = align;
    this.context.textBaseline = "middle";
    this.context.fillText(words, x, y);
  }

  line(x1, y1, x2, y2, colour = this.ink.line) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = 1;
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  /** How long ago, below the chart. */
  timeAxis() {
    const seconds = (this.to - this.from) / 1000;
    const unit = seconds > 150 ? 60 : 1;
    const name = unit === 60 ? "min" : "s";
    // As many as give whole numbers for every span that there is.
    const parts = seconds <= 150 ? 3 : seconds <= 600 ? 5 : 4;
    for (let part = 0; part <= parts; part += 1) {
      const ago = (seconds * (parts - part)) / parts;
      const x = this.x(this.to - ago * 1000);
      const align = part === 0 ? "left" : part === parts ? "right" : "center";
      this.text(ago === 0 ? "now" : `−${Math.round(ago / unit)} ${name}`, x, this.height - 8, align);
    }
  }

  watchPointer(box, tell) {
    const tip = make("div", { class: "tip", "aria-hidden": "true" });
    tip.hidden = true;
    box.append(tip);
    const wide = () => this.width - MARGIN.left - MARGIN.right;
    this.pointer = () => {
      const at = this.from + this.pointed * (this.to - this.from);
      const lines = this.pointed === null ? null : tell(at);
      tip.hidden = lines === null;
      if (lines === null) return;
      write(tip, lines.join("\n"));
      const x = this.x(at);
      this.line(x, MARGIN.top, x, this.height - MARGIN.bottom, this.ink["ink-soft"]);
      tip.style.left = (x > this.width / 2 ? x - tip.offsetWidth - 10 : x + 10) + "px";
    };
    // A share of the width is kept and not a time: the tip stays under the pointer as time goes by.
    const point = (share) => {
      this.pointed = share >= 0 && share <= 1 ? share : null;
      this.paint();
    };
    this.canvas.addEventListener("pointermove", (event) => point((event.offsetX - MARGIN.left) / wide()));
    this.canvas.addEventListener("pointerleave", () => point(-1));
  }
}

/** A round number at or above the value: 1, 2 or 5 with zeros. */
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/**
 * The same figures as a table, behind a button in the panel's head; `rows()` gives lists of text, newest
 * first.
 */
export function tableOf(box, caption, heads, rows) {
  const panel = box.closest(".panel");
  const body = make("tbody");
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const table = make(
    "table",
    {},
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, head),
    body,
  );
  const region = make(
    "div",
    { class: "figures-table", tabindex: "0", role: "region", "aria-label": caption },
    table,
  );
  const button = make("button", { type: "button", class: "small plain", "aria-expanded": "false" }, "Table");
  button.setAttribute("aria-label", `${panel.querySelector("h2").textContent} as a table`);
  region.hidden = true;
  const fill = () => {
    if (region.hidden) return;
    body.replaceChildren(
      ...rows().map((cells) => make("tr", {}, ...cells.map((text) => make("td", {}, text)))),
    );
  };
  button.addEventListener("click", () => {
    region.hidden = !region.hidden;
    button.setAttribute("aria-expanded", String(!region.hidden));
    fill();
  });
  panel.querySelector("header").append(button);
  panel.append(region);
  return fill;
}
