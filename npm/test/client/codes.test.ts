// The table of error codes is the daemon's: this one must not drift from the page that is made from it.
//
// A code with another number here would send a program down the wrong branch.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { TASK_CODES } from 'millpond/client';
import { endsTask, neverRan } from '../../src/client/codes.ts';

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| (-?\d+) \| `([a-z-]+)` \| (\d+) \| ([a-z ]+) \|/gm)];

test('names and numbers are those of docs/errors.md, all of them', () => {
  assert.ok(rows.length > 20);
  assert.deepEqual(TASK_CODES, Object.fromEntries(rows.map(([, number, name]) => [name, Number(number)])));
});

test('nothing is repeated that the table says cannot help', () => {
  for (const [, , name, status, retry] of rows) {
    if (retry === 'no') assert.equal(neverRan(Number(status), name as string), false, name);
  }
  assert.equal(neverRan(503, 'queue-full'), true);
  assert.equal(neverRan(503, 'daemon-died'), false);
  assert.equal(endsTask('handler-error'), true);
  assert.equal(endsTask('queue-full'), false);
});
