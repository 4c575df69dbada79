// Counts primes on all cores with workerpool's own API: only the name in `require` is another.
// Run: node drop-in.cjs

const { join } = require('node:path');
const workerpool = require('millpond/workerpool');

const LIMIT = process.env.MILLPOND_EXAMPLE_QUICK ? 200_000 : 20_000_000;
const PIECE = LIMIT / 100;

async function main() {
  const pool = workerpool.pool(join(__dirname, 'drop-in-worker.cjs'), { minWorkers: 'max' });
  const proxy = await pool.proxy();
  const pieces = Array.from({ length: LIMIT / PIECE }, (_, index) => index * PIECE);
  const counts = await Promise.all(pieces.map((from) => proxy.countPrimes(from, from + PIECE)));
  console.log(`${counts.reduce((sum, count) => sum + count, 0)} primes below ${LIMIT}`);

  // A function can be sent as it is; a task that takes too long is ended, and its worker replaced.
  console.log(await pool.exec((name) => `hello, ${name}`, ['worker']));
  await pool.exec(() => { for (;;); }).timeout(100).catch((error) => {
    console.log(error instanceof workerpool.Promise.TimeoutError ? 'ended after 100 ms' : error);
  });
  await pool.terminate();
}

main();
