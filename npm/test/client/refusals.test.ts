// What a client does when the daemon is full, gone, strange or strict: waits, tries again where it may, and says so.
//
// The wrong kind of insistence runs a task twice. So each test counts what arrived.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { connect, ConnectionError, DaemonError, type TaskRequest } from 'millpond/client';
import { Daemon } from './daemon.ts';

type Answer = (request: IncomingMessage, response: ServerResponse, number: number) => void;

/** A door that answers as the test says, and counts. */
async function fakeDoor(answer: Answer, use: (url: string, count: () => number) => Promise<void>): Promise<void> {
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    request.resume().on('end', () => answer(request, response, count));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => count);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

function refuse(response: ServerResponse, status: number, code: string, more: object = {}): void {
  response.writeHead(status, { 'content-type': 'application/problem+json', 'retry-after': '1' });
  const type = `urn:millpond:error:${code}`;
  response.end(JSON.stringify({ type, title: code, detail: code, status, code, ...more }));
}

const done = (response: ServerResponse): unknown =>
  response.end(JSON.stringify({ task_id: 't1', status: 0, result: 'here', attempts: 1, waited_us: 1, ran_us: 1 }));

test('a full daemon is asked again after the time it names, and then answers', async () => {
  const answer: Answer = (_, response, number) =>
    number < 4 ? refuse(response, 503, 'queue-full', { retry_after_ms: 20 }) : done(response);
  await fakeDoor(answer, async (url, count) => {
    assert.equal(await connect(url).call('echo'), 'here');
    assert.equal(count(), 4);
  });
});

test('a daemon that stays full is given up within the limits, with its own words', async () => {
  const answer: Answer = (_, response) => refuse(response, 503, 'queue-full', { retry_after_ms: 10 });
  await fakeDoor(answer, async (url, count) => {
    const full = (error: DaemonError): boolean => error.code === 'queue-full' && error.retryAfterMs === 10;
    await assert.rejects(connect({ url, retry: { tries: 3 } }).call('echo'), full);
    assert.equal(count(), 3);
    await assert.rejects(connect({ url, retry: false }).call('echo'), full);
    assert.equal(count(), 4);
  });
});

test('a wait longer than the limit is not begun', async () => {
  const answer: Answer = (_, response) => refuse(response, 503, 'connection-queue-full');
  await fakeDoor(answer, async (url, count) => {
    const client = connect({ url, retry: { withinMs: 500 } });
    await assert.rejects(client.call('echo'), (error: DaemonError) => error.retryAfterMs === 1000);
    assert.equal(count(), 1);
  });
});

test('what may have run is sent once, unless a key says that twice is the same', async () => {
  const answer: Answer = (_, response, number) =>
    number % 2 === 1 ? refuse(response, 503, 'daemon-died', { retry_after_ms: 1 }) : done(response);
  await fakeDoor(answer, async (url, count) => {
    await assert.rejects(connect(url).call('echo'), (error: DaemonError) => error.code === 'daemon-died');
    assert.equal(count(), 1);
    assert.equal(await connect(url).call('echo', {}, { idempotency_key: 'k' }), 'here');
    assert.equal(count(), 2);
  });
});

test('a broken connection repeats a question, and never a task without a key', async () => {
  const answer: Answer = (request, response, number) => {
    if (number % 2 === 1) request.socket.destroy();
    else if (request.method === 'GET') response.end('{"name":"millpond","version":"1","api":"v1"}');
    else done(response);
  };
  await fakeDoor(answer, async (url, count) => {
    const client = connect(url);
    assert.equal((await client.version()).api, 'v1');
    assert.equal(count(), 2);
    await assert.rejects(client.call('echo'), (error: ConnectionError) => error.code === 'unreachable');
    assert.equal(count(), 3);
    assert.equal(await client.call('echo', {}, { idempotency_key: 'k' }), 'here');
    assert.equal(count(), 4);
  });
});

test('a batch that breaks off says how much was answered, and is sent on if every line has a key', async () => {
  const answer: Answer = (_, response, number) => {
    if (number > 2) return void response.end('{"line":1,"task_id":"t2"}\n{"line":2,"task_id":"t3"}\n');
    response.write('{"line":1,"task_id":"t1"}\n', () => setTimeout(() => response.destroy(), 50));
  };
  const requests = (key: boolean): TaskRequest[] =>
    [1, 2, 3].map((n) => ({ handler: 'echo', ...(key ? { idempotency_key: `k${n}` } : {}) }));
  await fakeDoor(answer, async (url) => {
    const broken = connect(url).submitBatch(requests(false));
    await assert.rejects(broken, /batch: expected 3 answers, got 1 before the connection broke/);
    const answers = await connect(url).submitBatch(requests(true));
    assert.deepEqual(answers.map((given) => given.accepted && given.task_id), ['t1', 't2', 't3']);
  });
});

test('an answer that is none of a daemon is called so', async () => {
  const answer: Answer = (_, response, number) => {
    response.statusCode = number === 1 ? 502 : 200;
    response.end('<html>');
  };
  await fakeDoor(answer, async (url) => {
    const strange = (error: ConnectionError): boolean => {
      assert.match(error.message, /<html>/);
      return error.code === 'unexpected-answer';
    };
    await assert.rejects(connect(url).call('echo'), strange);
    await assert.rejects(connect(url).version(), strange);
  });
});

test('an answer or a line longer than the limit is not read', async () => {
  const answer: Answer = (_, response) => void response.end('x'.repeat(10_000));
  await fakeDoor(answer, async (url) => {
    const client = connect({ url, answerBytesMax: 2_000, lineBytesMax: 2_000 });
    const tooLarge = (error: ConnectionError): boolean => error.code === 'answer-too-large';
    await assert.rejects(client.metrics(), tooLarge);
    await assert.rejects(client.stream('t1').next(), tooLarge);
  });
});

test('an answer that does not come is waited for so long and no longer', async () => {
  await fakeDoor(() => undefined, async (url) => {
    const client = connect({ url, requestTimeoutMs: 50 });
    await assert.rejects(client.version(), (error: ConnectionError) => error.code === 'timed-out');
  });
});

test('nobody at the address is an error that says where and why', async () => {
  const client = connect({ url: 'http://127.0.0.1:9', retry: { tries: 2 } });
  await assert.rejects(client.version(), /127\.0\.0\.1:9: no answer: .*; is the daemon running\?/);
});

test('a token opens the door, and without it the door says which kind of no', async () => {
  const daemon = await Daemon.start({ token: 'a-good-secret-of-some-length-0123456789' });
  try {
    const client = connect({ url: daemon.url, token: 'a-good-secret-of-some-length-0123456789' });
    assert.deepEqual(await client.call('echo', { n: 1 }), { n: 1 });
    await assert.rejects(connect(daemon.url).stats(), (error: DaemonError) => error.code === 'unauthorized');
  } finally {
    await daemon.stop();
  }
});

test('a daemon that starts late is waited for by what may be asked twice', async () => {
  const daemon = await Daemon.start();
  try {
    await daemon.kill();
    const answer = connect(daemon.url).call('echo', { n: 2 }, { idempotency_key: 'late' });
    await daemon.run();
    assert.deepEqual(await answer, { n: 2 });
  } finally {
    await daemon.stop();
  }
});

test('options that cannot be meant are refused at once', () => {
  const wrong: [object | string, RegExp][] = [
    ['nonsense', /url: expected an address like .*, got "nonsense"/],
    ['ftp://x', /url: expected http or https, got "ftp:"/],
    ['http://me:secret@x', /url: expected no user in it; use token, got "x"/],
    [{ token: 'a b' }, /^TypeError: token: expected 1 to 4096 printable characters and no space, got something else$/],
    [{ retry: { tries: 0 } }, /retry\.tries: expected a whole number from 1 to 100, got 0/],
    [{ urll: 'x' }, /options: expected only url, .*, got "urll"/],
    [{ fetch: 3 }, /fetch: expected a function, got 3/],
  ];
  for (const [options, text] of wrong) assert.throws(() => connect(options as object), text);
});
