// The form of the figures is a promise to the tools that read them: the fields are those of the other benches.
// The command line is one too, and is refused with what was expected.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from '../src/arguments.mjs';
import { chosenGroups, groups } from '../src/groups.mjs';
import { peers } from '../src/peers.mjs';
import { json, table } from '../src/report.mjs';
import { median, rowOf } from '../src/statistics.mjs';

const group = { name: 'tiny-1', question: 'what does it cost?', unit: 'tasks/s', better: 'higher' };
const rows = [
  rowOf(group, 'millpond', [10, 30, 20].map((main) => ({ main, beside: { cpu_us: main / 10 } }))),
  rowOf(group, '~floor', [90, 70, 80].map((main) => ({ main, beside: { cpu_us: main / 10 } }))),
  rowOf(group, 'slow', [4, 5, 6].map((main) => ({ main, beside: { cpu_us: main / 10 } }))),
];

test('the json is an array of rows with exactly the promised fields and what stands beside them', () => {
  const parsed = JSON.parse(json(rows));
  const figures = { median: 20, min: 10, max: 30, rounds: 3, cpu_us: 2 };
  assert.deepEqual(parsed[0], { group: 'tiny-1', peer: 'millpond', unit: 'tasks/s', better: 'higher', ...figures });
  assert.equal(parsed.length, 3);
});

test('the table compares with the best row that is neither ours nor a floor', () => {
  const lines = table(group, rows, [{ peer: 'far', reason: 'no answer within 15 s' }]).trimEnd().split('\n');
  assert.equal(lines[0], 'tiny-1: what does it cost?');
  assert.match(lines[1], /tasks\/s, higher is better, 3 rounds$/);
  assert.match(lines[2], /^ {2}~floor .* 16\.00 /);
  assert.match(lines[3], /^> millpond .* 4\.00 /);
  assert.match(lines[4], /^ {2}slow .* 40% {4}1\.00 /);
  assert.match(lines[5], /^ {2}far +not measured: no answer within 15 s$/);
});

test('the median of an even number of rounds lies between the two in the middle', () => {
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.equal(median([9, 1, 5]), 5);
});

test('a prefix chooses every group that begins with it and an equals sign that one alone', () => {
  assert.deepEqual(chosenGroups(['tiny']).map(({ name }) => name), ['tiny-1', 'tiny-2']);
  assert.deepEqual(chosenGroups(['=start']).map(({ name }) => name), ['start']);
  assert.equal(chosenGroups([]).length, groups.length);
  assert.throws(() => chosenGroups(['tinny']), /^Error: tinny: no group begins with that; there are tiny-1, /);
});

test('every group names peers that there are', () => {
  for (const { name, peers: names } of groups) {
    assert.deepEqual(names.filter((peer) => !(peer in peers)), [], name);
  }
});

test('a bad option is answered with what was expected', () => {
  assert.throws(() => parse(['--fast']), /^Error: --fast: no such option; --help lists them$/);
  assert.throws(() => parse(['--rounds', '0']), /expected a whole number from 1 to 1000, got "0"$/);
  assert.throws(() => parse(['--rounds']), /^Error: --rounds: expected a number of rounds, got nothing$/);
  assert.throws(() => parse(['--quick=yes']), /^Error: --quick: expected no value, got "yes"$/);
});

test('options and groups may come in any order', () => {
  const asked = parse(['tiny', '--json=a.json', '--rounds', '3', '--quick', 'start']);
  assert.deepEqual([asked.words, asked.json, asked.plan.rounds], [['tiny', 'start'], 'a.json', 3]);
  assert.equal(parse(['--json', 'tiny']).json, true);
});
