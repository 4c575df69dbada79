// A bench that does not look at the answers measures how fast a pool loses them.
// So a wrong answer must end a round, and every peer must answer every task of every group.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conduct } from '../src/conduct.mjs';
import { groups } from '../src/groups.mjs';
import { latency, makeTask, rate } from '../src/loads.mjs';
import { methods } from '../workers/methods.mjs';

const short = { rounds: 1, roundMs: 20, warmUpMs: 0, groupMsMax: 30_000, peers: [], steps: 1000 };

test('a wrong sum ends the round with an error that names the task', async () => {
  const liar = () => {
    let calls = 0;
    return async (a, b) => ((calls += 1) === 50 ? a + b + 1 : a + b);
  };
  const task = makeTask({ method: 'add' });
  await assert.rejects(rate(liar(), task, { inFlight: 10, roundMs: 1000 }), /client 9, task 4: a wrong answer: 14$/);
  await assert.rejects(latency(liar(), task, { roundMs: 1000 }), /task 49: a wrong answer: 51$/);
});

test('a string or a buffer that comes back changed is a wrong answer', async () => {
  const swapped = async (text) => text.replace('m', 'n');
  const untouched = async (bytes) => bytes.slice();
  const load = { inFlight: 2, roundMs: 1000 };
  await assert.rejects(rate(swapped, makeTask({ method: 'echo', bytes: 64 }), load), /a wrong answer/);
  await assert.rejects(rate(untouched, makeTask({ method: 'bump' }), load), /a wrong answer/);
  await assert.rejects(rate(async (bytes) => bytes, makeTask({ method: 'bumpMoved' }), load), /a wrong answer/);
});

test('right answers are counted and the round ends', async () => {
  const right = async (a) => methods.bump(a.slice());
  const { main, beside } = await rate(right, makeTask({ method: 'bump' }), { inFlight: 4, roundMs: 20 });
  assert.ok(main > 0 && beside.cpu_us > 0);
});

for (const group of groups) {
  test(`every peer of ${group.name} answers every task`, { timeout: 120_000 }, async () => {
    const { rows, absent } = await conduct(group, short, () => {});
    assert.deepEqual(absent, []);
    assert.deepEqual(rows.map(({ peer }) => peer).sort(), [...group.peers].sort());
    assert.ok(rows.every(({ median }) => median > 0));
  });
}
