// The strategies choose as tests/vectors/choose-*.json says, through the module; and swapping them loses nothing.
//
// The Rust tests read the same files, so a strategy that decides otherwise in WebAssembly fails here.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STRATEGIES } from '../../src/brain/choose.ts';
import { halves, newBrain, paint, refusal, vectors, vectorText } from './vectors.ts';
import type { VectorWorker } from './vectors.ts';

const FILES: Readonly<Record<string, string>> = { 'least-elu': 'least-utilised' };

for (const [number, name] of STRATEGIES.entries()) {
  test(`${name} chooses as the vectors say`, () => {
    const file = `choose-${FILES[name] ?? name}`;
    const { steps } = vectors(file);
    // A seed may be larger than JavaScript's numbers, and is not in quotes.
    const seed = /"seed": (\d+)/.exec(vectorText(file))?.[1] ?? '0';
    const brain = newBrain();
    brain.exports.choose_use(number, ...halves(seed), 0);
    let [now, choices, story] = [0, 0, ''];
    let crew: VectorWorker[] = [];
    for (const [index, step] of steps.entries()) {
      if (step.case !== undefined) story = step.case;
      else if (step.reset) {
        // Who forgets everything is as one that has just been made, and is told of nobody.
        paint(brain, []);
        brain.exports.choose_use(number, ...halves(seed), now);
        paint(brain, crew);
      }
      else if (step.added !== undefined) brain.exports.workers_came(step.added, now);
      else if (step.removed !== undefined) brain.exports.workers_gone(step.removed, now);
      else {
        crew = step.workers ?? crew;
        if (step.workers) paint(brain, crew);
        now = Number(step.now_ns ?? now);
        const worker = brain.exports.choose(now, Number(step.task?.expected_ns ?? 0));
        const got = worker < 0 ? null : { worker, reason: brain.chooser.reason() };
        assert.deepEqual(got, step.expect, `${file}, step ${index}: ${story}`);
        choices += 1;
      }
    }
    assert.ok(choices >= 10, `only ${choices} choices`);
  });
}

test('an unknown strategy is refused with those that are known and the one that was meant', () => {
  const { chooser } = newBrain();
  assert.equal(
    refusal(() => chooser.use('leest-bussy', 0)),
    `strategy: expected one of ${STRATEGIES.join(', ')}, got "leest-bussy"; did you mean "least-busy"?`,
  );
  assert.equal(chooser.strategy, 'round-robin', 'the old one goes on');
  chooser.use('least-utilised', 0);
  assert.equal(chooser.strategy, 'least-elu', 'by the name that Rust has for it');
  assert.match(refusal(() => chooser.use('x'.repeat(100_000), 0)), /got "x{64}"$/);
  assert.match(refusal(() => chooser.use('random', 0, -1)), /strategy\.seed: expected 0 to/);
  assert.match(refusal(() => chooser.use(7 as unknown as string, 0)), /got 7$/);
});

test('a swapped strategy knows all workers, and each choice is made by one of the two', () => {
  const brain = newBrain();
  for (const id of [3, 5, 9]) brain.workers.add(id, 0, 'ready');
  assert.deepEqual([brain.chooser.choose(0), brain.chooser.choose(0)], [3, 5]);
  brain.chooser.use('least-busy', 1);
  assert.equal(brain.chooser.reason(), '', 'the new one has chosen nobody yet');
  brain.workers.setLoad(3, 1, 0);
  brain.workers.setLoad(5, 1, 2);
  assert.equal(brain.chooser.choose(2), 9);
  assert.equal(brain.chooser.reason(), 'it has the fewest tasks running and waiting: 0');
});

test('two brains know nothing of each other', () => {
  const [one, other] = [newBrain(), newBrain()];
  one.workers.add(1, 0, 'ready');
  assert.equal(one.chooser.choose(0), 1);
  assert.equal(other.chooser.choose(0), -1);
});
