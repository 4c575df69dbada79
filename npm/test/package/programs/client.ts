// The types of the client, as a program that talks to a daemon sees them. It is compiled and not run.
// Events are told apart by their names, and answers of a batch by whether they were accepted.

import { connect, ConnectionError, DaemonError, TaskError, type Client, type Ticket } from 'millpond/client';

export async function main(): Promise<void> {
  const client: Client = connect({ url: 'http://127.0.0.1:7117', token: 'secret', retry: { tries: 2 } });
  const words = await client.call<{ count: number }>('count_words', { text: 'two words' }, { timeout_ms: 100 });
  const count: number = words.count;
  const ticket: Ticket<{ count: number }> = await client.submit({ handler: 'count_words', args: {}, priority: 'high' });
  for await (const event of ticket.stream<{ word: string }>({ from: 2 })) {
    if (event.event === 'partial') event.data.partial.word.toUpperCase();
    else if (event.event === 'progress') event.data.progress.toFixed(count);
    else if (event.event === 'ended') event.data.result?.count.toFixed();
  }
  const answers = await client.submitBatch([{ handler: 'echo' }, { opcode: 3, args: {} }], { until: 'ended' });
  for (const answer of answers) {
    if (answer.accepted) void answer.outcome?.status.toFixed();
    else void answer.error.code.length;
  }
  try {
    await client.result(17, { timeoutMs: 10, signal: new AbortController().signal });
  } catch (error) {
    if (error instanceof TaskError) void error.task?.attempts;
    else if (error instanceof DaemonError) void [error.code, error.retryAfterMs, error.status.toFixed()];
    else if (error instanceof ConnectionError) void error.code;
  }
  const page = await client.list({ stage: 'running', limit: 10 });
  void [page.tasks[0]?.task_id, (await client.stats()).uptime_ms, (await client.handlers())[0]?.summary];
}
