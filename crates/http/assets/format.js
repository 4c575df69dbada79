// Figures as people read them: short, with a unit, and never wider than a few characters.
// Pure functions, so that the tests can hold them against a table without a browser.

const THIN = "\u202f";

function short(value) {
  if (value >= 100) return String(Math.round(value));
  if (value >= 10) return value.toFixed(1).replace(/\.0$/, "");
  return value.toFixed(2).replace(/\.?0+$/, "");
}

/** 950, 1.2k, 34k, 5.1M. */
export function count(value) {
  if (value < 1000) return String(Math.round(value));
  if (value < 999_500) return short(value / 1e3) + "k";
  if (value < 999_500_000) return short(value / 1e6) + "M";
  return short(value / 1e9) + "G";
}

/** A rate may be below one a second, where a whole number would say nothing. */
export function rate(value) {
  return value > 0 && value < 10 ? short(value) : count(value);
}

/** 10 000 for whoever wants it exactly. */
export function exact(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** From microseconds: 340 µs, 3.4 ms, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(microseconds) {
  if (!(microseconds >= 0)) return "–";
  if (microseconds < 999.5) return short(microseconds) + THIN + "µs";
  if (microseconds < 999_500) return short(microseconds / 1e3) + THIN + "ms";
  const seconds = microseconds / 1e6;
  if (seconds < 59.95) return short(seconds) + THIN + "s";
  const whole = Math.round(seconds);
  const pair = (large, small, name, of) => {
    const rest = Math.floor((whole % large) / small);
    return Math.floor(whole / large) + THIN + name + (rest ? " " + rest + THIN + of : "");
  };
  if (whole < 3600) return pair(60, 1, "min", "s");
  if (whole < 86_400) return pair(3600, 60, "h", "min");
  return pair(86_400, 3600, "d", "h");
}

/** For ages in a list, where fractions of a second would only flicker. */
export function age(microseconds) {
  return microseconds < 1e6 ? "now" : duration(Math.floor(microseconds / 1e6) * 1e6);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return short(value) + THIN + units[unit];
}

export function percent(share) {
  const value = share * 100;
  return (value > 0 && value < 1 ? value.toFixed(1) : String(Math.round(value))) + THIN + "%";
}

export function clock(milliseconds) {
  return new Date(milliseconds).toTimeString().slice(0, 8);
}

/** How a task stands, in one word, and which sign goes with it. */
export function standing(task) {
  if (task.stage !== "ended") {
    const done = task.stage === "running" && task.progress !== undefined ? " " + percent(task.progress) : "";
    return { sign: task.stage, text: task.stage + done };
  }
  if (task.status === 0) return { sign: "done", text: "done" };
  return { sign: task.error === "cancelled" ? "cancelled" : "failed", text: task.error ?? "failed" };
}
