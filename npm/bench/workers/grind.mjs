// Work for the processor with a result that can be checked: a small generator of numbers, stepped many times.
// It allocates nothing and calls nothing, so the time it takes is the same in every worker of every peer.

/** The state after `steps` steps of a 32-bit xorshift that began at `seed`. */
export function grind(seed, steps) {
  let state = seed | 1;
  for (let step = 0; step < steps; step += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return state >>> 0;
}

/** How many steps take about a millisecond on this machine: the fastest of several tries, since others only slow it. */
export function stepsPerMillisecond() {
  const steps = 400_000;
  let fastest = Infinity;
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const started = performance.now();
    grind(attempt, steps);
    fastest = Math.min(fastest, performance.now() - started);
  }
  return Math.max(1, Math.round(steps / fastest));
}
