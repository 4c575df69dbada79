// Partial results as they come: a worker searches, the page or terminal shows, and stops when it has seen enough.
// Run: node stream.mjs

import { pool } from 'millpond';

const workers = pool({ maxWorkers: 1 });

/** Runs in the worker. Functions that are sent have no surroundings: all they need is inside. */
function searchPrimes(from, to) {
  const found = [];
  for (let number = from; number < to; number += 1) {
    let divisor = 2;
    while (divisor * divisor <= number && number % divisor !== 0) divisor += 1;
    if (divisor * divisor <= number) continue;
    found.push(number);
    this.worker.emit(number);
  }
  return found.length;
}

const all = workers.stream(searchPrimes, [1_000, 1_100]);
for (;;) {
  const { done, value } = await all.next();
  if (done) {
    console.log(`${value} primes in all`);
    break;
  }
  console.log(value);
}

// Leaving the loop cancels the task, and nothing more is computed for nobody.
for await (const prime of workers.stream(searchPrimes, [1_000_000, 2_000_000_000])) {
  console.log(`the first from a million on is ${prime}`);
  break;
}
await workers.terminate(true);
