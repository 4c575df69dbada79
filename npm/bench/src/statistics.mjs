// What is kept of many rounds: the median, and how far the rounds lie apart.
// The same rules as in the other benches of this project, so that figures can stand side by side.

/** The middle of the samples; of an even number of them, the mean of the two in the middle. */
export function median(samples) {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** One row of a group from the rounds of one peer, each `{ main, beside }`. */
export function rowOf(group, peer, samples) {
  const main = samples.map((sample) => sample.main);
  const names = Object.keys(samples[0].beside);
  const beside = names.map((name) => [name, median(samples.map((sample) => sample.beside[name]))]);
  return {
    group: group.name,
    peer,
    unit: group.unit,
    better: group.better,
    median: median(main),
    min: Math.min(...main),
    max: Math.max(...main),
    rounds: samples.length,
    beside,
  };
}

export function bestFirst(rows) {
  return [...rows].sort((a, b) => (a.better === 'lower' ? a.median - b.median : b.median - a.median));
}
