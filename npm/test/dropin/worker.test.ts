// The worker's side: when it registers, what it sends while it runs, what it hands over, and who else can talk to it.

import assert from 'node:assert/strict';
import { Worker } from 'node:worker_threads';
import { open, script, test, TRANSPORTS, until } from './ground.ts';

for (const transport of TRANSPORTS) {
  test(`a worker that registers late gets nothing before, by ${transport}`, async () => {
    const pool = open('late.cjs', { maxWorkers: 1, transport });
    assert.equal(await pool.exec('early'), 0);
    const child = open('late.cjs', { maxWorkers: 1, workerType: 'process', transport });
    assert.equal(await child.exec('early'), 0);
  });

  test(`events reach the listener of their task, in order and before the result, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 2, transport });
    const seen: unknown[][] = [[], []];
    const payloads = [1, 'two', { three: [3] }, null, new Map([[4, 5]]), 'x'.repeat(5000)];
    await Promise.all(seen.map(async (events) => {
      const count = await pool.exec('emit', [payloads], { on: (event) => events.push(event) });
      events.push(count);
    }));
    assert.deepEqual(seen, [[...payloads, 6], [...payloads, 6]]);
    assert.equal(await pool.exec('emit', [payloads]), 6);
  });

  test(`a method may emit through this.worker, by ${transport}`, async () => {
    const events: unknown[] = [];
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    assert.equal(await pool.exec('emitByThis', ['hello'], { on: (event) => events.push(event) }), true);
    assert.deepEqual(events, ['hello']);
  });

  test(`what is transferred leaves its sender, both ways and in events, by ${transport}`, async () => {
    const pool = open('methods.cjs', { maxWorkers: 1, transport });
    const there = new Uint8Array(64);
    assert.equal(await pool.exec('bytesOf', [there], { transfer: [there.buffer] }), 64);
    assert.equal(there.byteLength, 0);
    assert.deepEqual(await pool.exec('give', [3]), new Uint8Array([7, 7, 7]));
    assert.deepEqual(await pool.exec('giveLater', [2]), new Uint8Array([8, 8]));
    const events: Uint8Array[] = [];
    assert.equal(await pool.exec('emitBuffer', [16], { on: (event) => events.push(event) }), 0);
    assert.deepEqual(events, [new Uint8Array(16)]);
  });

  test(`a worker knows that it is not the main thread, by ${transport}`, async () => {
    assert.equal(await open('methods.cjs', { maxWorkers: 1, transport }).exec('isMainThread'), false);
    const child = open('methods.cjs', { maxWorkers: 1, workerType: 'process', transport });
    assert.equal(await child.exec('isMainThread'), false);
  });
}

for (const workerType of ['thread', 'process'] as const) {
  test(`what a ${workerType} prints arrives as events if that is asked for`, async () => {
    const events: any[] = [];
    const pool = open('methods.cjs', { maxWorkers: 1, workerType, emitStdStreams: true });
    assert.equal(await pool.exec('print', ['to out', 'to err'], { on: (event) => events.push(event) }), 'printed');
    assert.deepEqual(events.filter((event) => event.stdout), [{ stdout: 'to out\n' }]);
    assert.deepEqual(events.filter((event) => event.stderr), [{ stderr: 'to err\n' }]);
  });
}

test('a script that still speaks workerpool\'s own messages serves a pool', async () => {
  const events: unknown[] = [];
  const pool = open('wire.cjs', { maxWorkers: 1 });
  assert.equal(await pool.exec('add', [1, 2], { on: (event) => events.push(event) }), 3);
  assert.deepEqual(events, ['adding']);
  await assert.rejects(async () => await pool.exec('nope'), /Unknown method "nope"/);
  await pool.terminate();
  assert.equal(pool.workers.length, 0);
});

test('a script of ours serves whoever speaks workerpool\'s own messages', async () => {
  const worker = new Worker(script('methods.cjs'));
  const heard: any[] = [];
  worker.on('message', (message) => heard.push(message));
  await until('it is ready', () => heard.includes('ready'));
  worker.postMessage({ id: 1, method: 'add', params: [1, 2] });
  worker.postMessage({ id: 2, method: 'sleep', params: [5, 'second'] });
  worker.postMessage({ id: 3, method: 'fail', params: ['third'] });
  await until('all are answered', () => heard.filter((message) => message.id).length === 3);
  const answers = heard.filter((message) => message.id).map(({ id, result, error }) => [id, result, error?.message]);
  assert.deepEqual(answers, [[1, 3, undefined], [2, 'second', undefined], [3, null, 'third']]);
  const gone = new Promise((resolve) => worker.on('exit', resolve));
  worker.postMessage('__workerpool-terminate__');
  assert.equal(await gone, 0);
});

test('worker() in a script that is no worker is an error', async () => {
  const { worker } = await import('millpond/workerpool');
  if (typeof process.send === 'function') return;
  assert.throws(() => worker({}), /^Error: Script must be executed as a worker$/);
});
