// Tasks for a running daemon: a call, a task that is followed, a batch, and what it says when it says no.
// Run: millpond serve, then: node client.mjs (MILLPOND_URL names another address)

import { connect, DaemonError } from 'millpond/client';

const client = connect({ url: process.env.MILLPOND_URL ?? 'http://127.0.0.1:7117', token: process.env.MILLPOND_TOKEN });

console.log(await client.call('echo', { hello: 'world' }));

const ticket = await client.submit({ handler: 'sleep', args: { ms: 50 }, priority: 'high' });
for await (const { event, data } of ticket.stream()) {
  if (event === 'ended') console.log(`task ${data.task_id} ran for ${Math.round(data.ran_us / 1000)} ms`);
}

const requests = Array.from({ length: 100 }, (_, n) => ({ handler: 'echo', args: { n } }));
const answers = await client.submitBatch(requests, { until: 'ended' });
console.log(`${answers.filter((answer) => answer.accepted && answer.outcome.status === 0).length} of 100 done`);

try {
  await client.call('ehco');
} catch (error) {
  if (!(error instanceof DaemonError)) throw error;
  console.log(`${error.code}: ${error.message}`);
}
