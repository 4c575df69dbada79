// What a program asks a daemon for, against the real one: calls, tickets, waits, cancelling, batches, looking around.
//
// If these promises break, `docs/http.md` and this client have parted ways.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connect, ConnectionError, DaemonError, TaskError, type Client, type TaskRequest } from 'millpond/client';
import { Daemon } from './daemon.ts';

let daemon: Daemon;
let client: Client;

before(async () => {
  daemon = await Daemon.start({ web: ['request_timeout = "400ms"'] });
  client = connect(daemon.url);
});
after(() => daemon.stop());

test('a call answers with the result of its task', async () => {
  const args = { text: 'hi', list: [1, null, 'ü'] };
  assert.deepEqual(await client.call('echo', args), args);
});

test('a call to a handler that nobody has is refused with the code and number of the table', async () => {
  await assert.rejects(client.call('ehco'), (error: DaemonError) => {
    assert.ok(error instanceof DaemonError && !(error instanceof TaskError));
    assert.deepEqual([error.code, error.number, error.status], ['unknown-handler', -1, 422]);
    assert.match(error.message, /did you mean echo/);
    assert.match(error.requestId ?? '', /./);
    return true;
  });
});

test('a task that fails throws a TaskError with the words of its handler', async () => {
  await assert.rejects(client.call('speak', { fail: 'not today' }), (error: TaskError) => {
    assert.ok(error instanceof TaskError);
    assert.deepEqual([error.code, error.number, error.message], ['handler-error', -109, 'not today']);
    return true;
  });
});

test('a call that takes longer than a request may is waited for all the same', async () => {
  assert.deepEqual(await client.call('sleep', { ms: 900 }), { ms: 900 });
});

test('an aborted call throws the reason of its signal and takes the task back', async () => {
  const controller = new AbortController();
  const reason = new Error('changed my mind');
  const call = client.call('sleep', { ms: 60_000 }, { signal: controller.signal, idempotency_key: 'abort-1' });
  await eventually(async () => {
    const { tasks } = await client.list({ handler: 'sleep', stage: 'running' });
    return tasks.length === 1;
  });
  controller.abort(reason);
  await assert.rejects(call, (error) => error === reason);
  await assert.rejects(client.call('echo', {}, { signal: controller.signal }), (error) => error === reason);
});

test('a ticket leads to the task, its end and its result', async () => {
  const ticket = await client.submit<{ said: number }>({ handler: 'speak', args: { steps: 2 }, task_id: 'my-first' });
  assert.equal(ticket.id, 'my-first');
  assert.equal(ticket.task?.handler, 'speak');
  assert.equal((await ticket.wait()).stage, 'ended');
  assert.deepEqual(await ticket.result(), { said: 2 });
  assert.equal((await client.ticket('my-first').get()).status, 0);
  assert.match(await client.why('my-first'), /./);
});

test('an id that looks like a number is not the number', async () => {
  await client.submit({ handler: 'echo', args: { is: 'text' }, task_id: '17' });
  await client.submit({ handler: 'echo', args: { is: 'number' }, task_id: 17 });
  assert.deepEqual(await client.result('17'), { is: 'text' });
  assert.deepEqual(await client.result(17), { is: 'number' });
  assert.throws(() => client.get(-1), /task id: expected a text or a whole number from 0, got -1/);
});

test('waiting gives up after its time, and the task goes on', async () => {
  const ticket = await client.submit({ handler: 'sleep', args: { ms: 60_000 } });
  await assert.rejects(ticket.wait({ timeoutMs: 60 }), (error: ConnectionError) => error.code === 'wait-timeout');
  assert.notEqual((await ticket.get()).stage, 'ended');
  await ticket.cancel();
  await assert.rejects(ticket.result(), (error: TaskError) => error.code === 'cancelled' && error.number === -101);
  await assert.rejects(ticket.cancel(), (error: DaemonError) => error.code === 'already-ended');
});

test('a task can be asked for once more, and its outcome taken', async () => {
  const first = await client.submit({ handler: 'echo', args: { n: 1 } });
  await first.wait();
  const second = await client.retry(first.id);
  assert.notEqual(second.id, first.id);
  assert.deepEqual(await second.result(), { n: 1 });
  assert.deepEqual((await client.take(first.id)).result, { n: 1 });
  await assert.rejects(first.get(), (error: DaemonError) => error.code === 'result-gone' && error.status === 410);
});

test('the same key runs once', async () => {
  const request: TaskRequest = { handler: 'echo', args: { order: 1 }, idempotency_key: 'order-1' };
  const [one, two] = await Promise.all([client.submit(request), client.submit(request)]);
  assert.equal(one.id, two.id);
  const other = client.submit({ ...request, args: { order: 2 } });
  await assert.rejects(other, (error: DaemonError) => error.code === 'key-reused');
});

test('a batch is answered in its order, each for itself', async () => {
  const requests: TaskRequest[] = [
    { handler: 'echo', args: { n: 0 } },
    { handler: 'ehco' },
    { handler: 'speak', args: { steps: 1, fail: 'no' } },
  ];
  const [taken, refused, failed] = await client.submitBatch(requests, { until: 'ended' });
  assert.ok(taken?.accepted && taken.outcome?.status === 0);
  assert.deepEqual(taken.outcome.result, { n: 0 });
  assert.ok(refused && !refused.accepted && refused.error.code === 'unknown-handler');
  assert.ok(failed?.accepted && failed.outcome?.error === 'handler-error');
  const [accepted] = await client.submitBatch([{ handler: 'echo', args: { n: 3 } }]);
  assert.ok(accepted?.accepted && accepted.outcome === undefined);
  assert.deepEqual(await client.result(accepted.task_id), { n: 3 });
});

test('any number of requests may come from a generator while answers come back', async () => {
  const total = 3_000;
  let made = 0;
  async function* requests(): AsyncGenerator<TaskRequest> {
    for (; made < total; made += 1) yield { handler: 'echo', args: { n: made, text: 'x'.repeat(made % 300) } };
  }
  let seen = 0;
  let madeAtFirst = 0;
  for await (const answer of client.bulk(requests(), { until: 'ended' })) {
    if (seen === 0) madeAtFirst = made;
    assert.ok(answer.accepted && answer.outcome?.result.n === seen);
    seen += 1;
  }
  assert.equal(seen, total);
  assert.ok(madeAtFirst < total, `the first answer came when ${madeAtFirst} of ${total} requests were made`);
});

test('looking around: handlers, workers, stats, metrics, version, lists', async () => {
  assert.ok((await client.handlers()).some((handler) => handler.name === 'speak'));
  assert.equal((await client.workers()).workers.length, 2);
  assert.equal((await client.stats()).is_draining, false);
  assert.match(await client.metrics(), /^# (HELP|TYPE) /m);
  assert.equal((await client.version()).api, 'v1');
  await client.ready();
  const first = await client.list({ handler: 'echo', limit: 2 });
  assert.equal(first.tasks.length, 2);
  const second = await client.list({ handler: 'echo', limit: 2, cursor: first.next });
  assert.notEqual(second.tasks[0]?.task_id, first.tasks[0]?.task_id);
});

async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + 20_000;
  while (!(await isSo())) {
    if (Date.now() > until) throw new Error('waited 20 s in vain');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
