// Following a task over a network that breaks: every event once, in its order, and one end.
//
// A proxy cuts connections in the middle of events. Who takes partial results for the whole must not get one of them
// twice, nor miss one because a socket was closed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connect, ConnectionError, DaemonError, type TaskEvent } from 'millpond/client';
import { Daemon } from './daemon.ts';
import { Proxy } from './proxy.ts';

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start({ web: ['heartbeat = "50ms"'] });
});
after(() => daemon.stop());

test('a stream begins with the task, tells all it says, and ends once', async () => {
  const ticket = await connect(daemon.url).submit({ handler: 'speak', args: { steps: 3 } });
  const events = await all(ticket.stream());
  assert.deepEqual(events.map((event) => event.event), ['task', 'log', 'partial', 'partial', 'partial', 'ended']);
  assert.deepEqual(steps(events), [1, 2, 3]);
  const end = events.at(-1);
  assert.ok(end?.event === 'ended');
  assert.deepEqual(end.data.result, { said: 3 });
});

test('a stream may begin in the middle', async () => {
  const ticket = await connect(daemon.url).submit({ handler: 'speak', args: { steps: 3 } });
  await ticket.wait();
  assert.deepEqual(steps(await all(ticket.stream({ from: 2 }))), [2, 3]);
});

test('a connection that breaks again and again loses no event and doubles none', async () => {
  const proxy = await Proxy.before(daemon.port);
  try {
    const ticket = await connect(proxy.url).submit({ handler: 'speak', args: { steps: 60, pause_ms: 5 } });
    proxy.cutAfterBytes = 1_500;
    const events = await all(ticket.stream());
    assert.deepEqual(steps(events), Array.from({ length: 60 }, (_, index) => index + 1));
    assert.equal(events.filter((event) => event.event === 'task').length, 1);
    assert.ok(proxy.connections > 3, `it was connected ${proxy.connections} times`);
  } finally {
    await proxy.stop();
  }
});

test('a connection that brings nothing any more is given up after so many tries', async () => {
  const proxy = await Proxy.before(daemon.port);
  try {
    const client = connect({ url: proxy.url, retry: { tries: 3 } });
    const ticket = await client.submit({ handler: 'speak', args: { steps: 0 } });
    proxy.cutAfterBytes = 10;
    const before = proxy.connections;
    await assert.rejects(all(ticket.stream()), (error: ConnectionError) => error.code === 'unreachable');
    assert.ok(proxy.connections - before <= 12, `it was connected ${proxy.connections - before} times`);
    await connect(daemon.url).cancel(ticket.id);
  } finally {
    await proxy.stop();
  }
});

test('signs of life keep a silent stream, and silence breaks one', async () => {
  const ticket = await connect(daemon.url).submit({ handler: 'speak', args: { steps: 2, pause_ms: 400 } });
  assert.deepEqual(steps(await all(ticket.stream({ silenceMs: 200 }))), [1, 2]);
});

test('whoever stops reading leaves the task alone', async () => {
  const client = connect(daemon.url);
  const ticket = await client.submit({ handler: 'speak', args: { steps: 5, pause_ms: 20 } });
  for await (const event of ticket.stream()) if (event.event === 'partial') break;
  assert.deepEqual(await ticket.result(), { said: 5 });
});

test('an aborted signal ends a stream with its reason', async () => {
  const client = connect(daemon.url);
  const ticket = await client.submit({ handler: 'speak', args: { steps: 0 } });
  const controller = new AbortController();
  const reason = new Error('enough');
  await assert.rejects(async () => {
    for await (const event of ticket.stream({ signal: controller.signal })) {
      if (event.event === 'log') controller.abort(reason);
    }
  }, (error) => error === reason);
  await ticket.cancel();
});

test('there is nothing to follow of a task that nobody knows', async () => {
  const stream = connect(daemon.url).stream('nobody');
  await assert.rejects(all(stream), (error: DaemonError) => error.code === 'not-found');
});

async function all(stream: AsyncIterable<TaskEvent>): Promise<TaskEvent[]> {
  const events: TaskEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

function steps(events: TaskEvent[]): number[] {
  return events.flatMap((event) => (event.event === 'partial' ? [event.data.partial.step as number] : []));
}
