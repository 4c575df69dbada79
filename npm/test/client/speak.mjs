// A handler for the tests of streams: says as many things as it is asked to, then answers or fails.
//
// With `"steps": 0` it says one thing and waits for ever, so that a test can cancel it without a race. With
// `"pause_ms"` it takes that long between two words, so that a connection can be broken in the middle.

import { createInterface } from 'node:readline';

const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const { args } = JSON.parse(line);
  const steps = args.steps ?? 3;
  write({ log: 'the first word' });
  for (let step = 1; step <= steps; step += 1) {
    write({ partial: { step, of: steps } });
    if (args.pause_ms) await new Promise((resolve) => setTimeout(resolve, args.pause_ms));
  }
  if (steps === 0) continue;
  if (args.fail !== undefined) write({ error: String(args.fail) });
  else write({ result: { said: steps } });
}
