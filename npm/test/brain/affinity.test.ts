// Keys find the workers that tests/vectors/affinity-*.json says, through the module, and stay there as long as they
// should.
//
// A hash that differs by a bit between Rust and JavaScript would send a key to two workers, so hashes are compared
// whole.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AffinitySettings } from '../../src/brain/affinity.ts';
import { BrainFull } from '../../src/brain/load.ts';
import { newBrain, refusal, vectors } from './vectors.ts';

test('texts and bytes have the hashes that the vectors say', () => {
  const { affinity, exports } = newBrain();
  const { texts, bytes } = vectors('affinity-hash');
  for (const { text, hash } of texts) assert.equal(affinity.hash(text), BigInt(hash), text);
  for (const { hex, hash } of bytes) {
    const raw = Buffer.from(hex, 'hex');
    const at = exports.slate_at(raw.length) >>> 0;
    new Uint8Array(exports.memory.buffer, at, raw.length).set(raw);
    const low = exports.affinity_hash(raw.length) >>> 0;
    assert.equal(BigInt(exports.affinity_key_high() >>> 0) << 32n | BigInt(low), BigInt(hash), hex);
  }
  assert.equal(affinity.hash(42), affinity.hash('42'), 'a number is its digits');
  assert.equal(affinity.hash(42n), 42n, 'a bigint is the hash');
});

function settings(set: Record<string, number> = {}): AffinitySettings {
  const named = {
    virtual_nodes: 'virtualNodes', probes: 'probes', sticky_keys_max: 'stickyKeysMax', sticky_for_ms: 'stickyForMs',
  };
  return Object.fromEntries(Object.entries(set).map(([name, value]) => [named[name as keyof typeof named], value]));
}

test('every key has the owner and the followers that the vectors say', () => {
  let steppedThrough = 0;
  for (const { name, method, settings: set, workers, weights, steps } of vectors('affinity-owner').cases) {
    // Weights are for Rust alone: a pool of JavaScript's has workers of one kind.
    if (weights !== undefined) continue;
    const { affinity, exports } = newBrain();
    affinity.configure({ ...settings(set), method });
    // Numbers from 2^31 on are for Rust alone; the module takes them, and answers with them as 32 bits with a sign.
    for (const worker of workers) assert.equal(exports.affinity_add(worker), 1, name);
    for (const { key, owner, preference } of steps) {
      assert.equal(affinity.owner(BigInt(key)), owner ?? -1, `${name}, key ${key}`);
      assert.equal(affinity.route(BigInt(key), 0), (owner ?? -1) | 0, `${name}, key ${key}`);
      assert.deepEqual(affinity.preference(BigInt(key), 4), preference, `${name}, key ${key}`);
      steppedThrough += 1;
    }
  }
  assert.ok(steppedThrough >= 30, `only ${steppedThrough} keys`);
});

test('settings and methods that cannot be are refused as the vectors say', () => {
  const { affinity } = newBrain();
  const { settings: refused, names } = vectors('affinity-owner');
  for (const { set, error } of refused) assert.equal(refusal(() => affinity.configure(settings(set))), error);
  for (const { name, error } of names) {
    if (error === undefined) affinity.configure({ method: name });
    else assert.equal(refusal(() => affinity.configure({ method: name })), error);
  }
});

test('sticky keys stay and move as the vectors say', () => {
  for (const { name, keys_max: stickyKeysMax, workers, steps, ...rest } of vectors('affinity-sticky').cases) {
    const stickyForMs = rest.sticky_for_ms;
    const { affinity } = newBrain();
    affinity.configure({ stickyForMs, stickyKeysMax });
    for (const worker of workers) affinity.add(worker);
    for (const step of steps) {
      const place = `${name}, at ${step.now_ms} ms`;
      if (step.add !== undefined) affinity.add(step.add);
      if (step.remove !== undefined) assert.equal(affinity.remove(step.remove, step.now_ms), step.moved ?? 0, place);
      if (step.route !== undefined) {
        const worker = affinity.route(BigInt(step.route), step.now_ms);
        assert.deepEqual(worker < 0 ? null : { worker, hit: affinity.hit }, step.expect, place);
      }
      if (step.counts) {
        const { hit_rate: rate, ...counts } = step.counts;
        assert.deepEqual(affinity.counts(), { ...counts, hitRate: rate / 10_000 }, place);
      }
    }
  }
});

test('a worker that leaves the picture owns no keys', () => {
  const { affinity, workers } = newBrain();
  affinity.configure({ stickyForMs: 1000 });
  for (const id of [1, 2]) {
    workers.add(id, 0, 'ready');
    affinity.add(id);
  }
  const first = affinity.route('user:42', 0);
  assert.deepEqual([affinity.route('user:42', 1), affinity.hit], [first, true]);
  workers.remove(first, 2);
  assert.deepEqual([affinity.route('user:42', 3), affinity.hit], [3 - first, false]);
});

test('keys, tables and rings have a limit', () => {
  const { affinity, ...brain } = newBrain();
  affinity.add(1);
  assert.equal(affinity.owner('ü'.repeat(32_768)), 1, '65536 bytes');
  assert.match(refusal(() => affinity.owner('ü'.repeat(32_769))), /affinity key: expected at most 65536 bytes/);
  assert.throws(() => affinity.configure({ stickyForMs: 1, stickyKeysMax: 16_000_000 }), BrainFull);
  assert.equal(affinity.owner('user:42'), 1, 'what is refused changes nothing');
  affinity.configure({ method: 'ring', virtualNodes: 10_000 });
  assert.throws(() => { for (let id = 0; id < 4096; id += 1) affinity.add(id); }, BrainFull);
  assert.ok(affinity.owner('user:42') >= 0, 'those that are there go on');
  assert.ok(brain.exports.memory.buffer.byteLength <= 64 << 20);
});
