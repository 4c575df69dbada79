// The codec's one promise: what comes out is what structured clone would have made, or the value is refused and goes by
// message. A value that arrived changed would be a fault that no user could find.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Decoder, Encoder, NOT_PLAIN, TOO_LONG } from '../../src/links/codec.ts';
import { NameReader, NameWriter } from '../../src/links/names.ts';
import { Text } from '../../src/links/text.ts';

const WORDS = 32_768;
const NAMES_WORDS = 256;

function makeCodec(native = true): { encoder: Encoder; decoder: Decoder } {
  const memory = new SharedArrayBuffer(WORDS * 4);
  const text = native ? new Text(memory) : new Text(memory, null);
  const encoder = new Encoder(text, new NameWriter(text, 0, NAMES_WORDS));
  return { encoder, decoder: new Decoder(text, new NameReader(text, 0, NAMES_WORDS)) };
}

const { encoder, decoder } = makeCodec();

/** What comes out at the other end, or the refusal. */
function through(value: unknown, end = WORDS): { value: unknown } | number {
  const written = encoder.write(value, NAMES_WORDS, end);
  return written < 0 ? written : { value: decoder.read(NAMES_WORDS) };
}

function assertTravels(value: unknown): void {
  assert.deepEqual(through(value), { value: structuredClone(value) });
  assert.deepStrictEqual((through(value) as { value: unknown }).value, structuredClone(value));
}

/** A generator of whole numbers that a seed repeats. */
function dice(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

const EDGES = [
  0, -0, 1, -1, 0x7f_ffff, -0x7f_ffff, 0x80_0000, -0x80_0000, 2 ** 31 - 1, -(2 ** 31), 2 ** 31, 2 ** 53, -(2 ** 53),
  0.1, -0.1, NaN, Infinity, -Infinity, Number.MIN_VALUE, Number.MAX_VALUE, true, false, null, undefined,
  0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), '', 'a', 'ä', '€', '😀', '\ud800', 'x\udc00y', '\0', 'a'.repeat(23),
  'a'.repeat(24), 'a'.repeat(25), 'ä'.repeat(24), 'ä'.repeat(26), `${'a'.repeat(40)}ü`, '😀'.repeat(100), '\uffff'.repeat(9),
];

test('numbers, strings and other simple values arrive as they were, at every edge', () => {
  for (const value of EDGES) {
    assertTravels(value);
    assertTravels([value, value]);
    assertTravels({ value });
  }
});

test('dates, buffers and views arrive with their kind', () => {
  const bytes = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
  const values = [
    new Date(0), new Date(1.5e12), bytes.buffer, bytes, new Uint8ClampedArray(bytes), new Int8Array(bytes),
    new Int16Array(bytes), new Uint16Array(bytes), new Int32Array(bytes), new Uint32Array(bytes),
    new Float32Array([1.5, NaN]), new Float64Array([1e300, -0]), new BigInt64Array([-1n]), new BigUint64Array([2n ** 64n - 1n]),
    new DataView(bytes.slice().buffer), Object.create(null), [[]], {}, [{}],
  ];
  for (const value of values) {
    const arrived = through(value) as { value: object };
    assert.deepStrictEqual(arrived.value, structuredClone(value));
    assert.equal(Object.getPrototypeOf(arrived.value), Object.getPrototypeOf(structuredClone(value)));
  }
});

test('a date that is none arrives as one that is none', () => {
  assert.ok(Number.isNaN((through(new Date(NaN)) as { value: Date }).value.getTime()));
});

test('strings arrive as they were where there are no native copies', () => {
  const codec = makeCodec(false);
  for (const value of EDGES.filter((edge) => typeof edge === 'string')) {
    assert.ok(codec.encoder.write(value, NAMES_WORDS, WORDS) > 0);
    assert.equal(codec.decoder.read(NAMES_WORDS), value);
  }
  const long = 'ab\ud800'.repeat(5000);
  assert.ok(codec.encoder.write([long, 'x'.repeat(20_000)], NAMES_WORDS, WORDS) > 0);
  assert.deepEqual(codec.decoder.read(NAMES_WORDS), [long, 'x'.repeat(20_000)]);
});

test('a part of a Node slab arrives as plain bytes of its own', () => {
  const arrived = (through(Buffer.from('mill')) as { value: Uint8Array }).value;
  assert.deepStrictEqual(arrived, new Uint8Array([109, 105, 108, 108]));
  assert.equal(arrived.buffer.byteLength, 4);
});

test('what structured clone would make differently, or refuse, is refused', () => {
  const shared = {};
  const cycle: unknown[] = [];
  cycle.push(cycle);
  const buffer = new ArrayBuffer(8);
  const named = Object.assign([1, 2], { index: 3 });
  const deep = Array.from({ length: 40 }).reduce((inner) => [inner], 1 as unknown);
  class Point {
    x = 1;
  }
  const refused: unknown[] = [
    [shared, shared], cycle, new Point(), new Map(), new Set(), new Error('e'), /r/, () => 1, Symbol('s'), [, 1], named,
    'ab'.match(/b/), Object.defineProperty({}, '__proto__', { value: 1, enumerable: true }), new Proxy({}, {}), new Proxy([], {}),
    new Uint8Array(buffer, 4), [new Uint8Array(buffer), new Int8Array(buffer)], [buffer, new Uint8Array(buffer)],
    new Uint8Array(new SharedArrayBuffer(8)), new SharedArrayBuffer(8), 2n ** 64n, Object(1), Object('s'), deep,
    new Array(5000).fill(0), new ArrayBuffer(8, { maxByteLength: 16 } as never), Object.create({ inherited: 1 }), Object.create(Date.prototype), Object.create(ArrayBuffer.prototype), Object.create(Uint8Array.prototype),
    (function (..._args: unknown[]) { return arguments; }).constructor, new Date(0).constructor, structuredClone(buffer, { transfer: [buffer] }) && buffer,
  ];
  for (const [index, value] of refused.entries()) {
    assert.equal(through(value), NOT_PLAIN, `value ${index} of the list`);
  }
  assertTravels({ still: 'works' });
});

test('a value that does not fit is refused as too long, wherever the room ends', () => {
  const value = { text: 'a'.repeat(60), wide: 'ä'.repeat(30), list: [1, 2.5, 3n, new Date(5), new Uint8Array(9)], big: 1e9 };
  const written = encoder.write(value, NAMES_WORDS, WORDS);
  for (let end = NAMES_WORDS; end < written; end++) assert.equal(through(value, end), TOO_LONG, `room up to ${end}`);
  // The native copy of a string wants a word more than it uses, so the exact fit is allowed to be refused.
  assert.deepStrictEqual(through(value, written + 2), { value: structuredClone(value) });
});

test('nothing is written behind the room that was given', () => {
  const memory = new SharedArrayBuffer(4096 * 4);
  const text = new Text(memory);
  const writer = new Encoder(text, new NameWriter(text, 0, 64));
  for (let room = 1; room < 300; room++) {
    text.words.fill(0x5a5a5a5a, 64);
    for (const value of ['a'.repeat(200), 'ä'.repeat(200), new Uint8Array(500), [1.5, 2.5, 3.5], 'x'.repeat(199) + 'é']) {
      writer.write(value, 64, 64 + room);
      assert.ok(text.words.subarray(64 + room).every((word) => word === 0x5a5a5a5a), `${room} words, ${typeof value}`);
    }
  }
});

test('more keys than the table of names holds travel all the same', () => {
  const { encoder: writer, decoder: reader } = makeCodec();
  for (let round = 0; round < 3; round++) {
    for (let index = 0; index < 500; index++) {
      const value = { [`key${index}`]: index, [`ä${index}`]: 1, ['long'.repeat(30)]: 2 };
      assert.ok(writer.write(value, NAMES_WORDS, WORDS) > 0);
      assert.deepStrictEqual(reader.read(NAMES_WORDS), value);
    }
  }
});

test('a getter that throws throws what it threw, and the encoder works on', () => {
  const trap = { get field(): never { throw new RangeError('mine'); } };
  assert.throws(() => through([trap]), new RangeError('mine'));
  assertTravels([{}, {}]);
});

function randomValue(roll: (below: number) => number, depth: number): unknown {
  const kind = roll(depth > 0 ? 14 : 9);
  switch (kind) {
    case 0: case 1: return EDGES[roll(EDGES.length)];
    case 2: return roll(2 ** 31) - 2 ** 30;
    case 3: return roll(2 ** 31) / (1 + roll(1000));
    case 4: return String.fromCharCode(...Array.from({ length: roll(60) }, () => roll(128)));
    case 5: return String.fromCharCode(...Array.from({ length: roll(60) }, () => roll(65_536)));
    case 6: return new Date(roll(2 ** 31));
    case 7: return new Uint8Array(1 + roll(40)).map(() => roll(256));
    case 8: return BigInt(roll(2 ** 31)) * BigInt(roll(2 ** 31)) - 5n;
    case 9: case 10: return Array.from({ length: roll(6) }, () => randomValue(roll, depth - 1));
    case 13: return roll(3) === 0 ? new Map([[1, randomValue(roll, depth - 1)]]) : [EDGES];
    default: {
      const entries = Array.from({ length: roll(6) }, () => [`k${roll(200)}`, randomValue(roll, depth - 1)]);
      return Object.fromEntries(entries);
    }
  }
}

test('random values equal their structured clone, or are refused', () => {
  const seed = Number(process.env.MILLPOND_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const roll = dice(seed);
  let travelled = 0;
  for (let round = 0; round < 20_000; round++) {
    const value = randomValue(roll, 4);
    const arrived = through(value);
    if (typeof arrived === 'number') continue;
    assert.deepStrictEqual(arrived.value, structuredClone(value), `seed ${seed}, round ${round}`);
    travelled++;
  }
  assert.ok(travelled > 10_000, `only ${travelled} of 20000 travelled`);
});

test('what is far too long is refused at a glance, and leaves the memory as it was', () => {
  const memory = new SharedArrayBuffer(WORDS * 4);
  const text = new Text(memory);
  const writer = new Encoder(text, new NameWriter(text, 0, NAMES_WORDS));
  const room = NAMES_WORDS + 100;
  for (const value of ['x'.repeat(400), 'ä'.repeat(1000), new Uint8Array(400).fill(1), new Float64Array(50).fill(1)]) {
    assert.equal(writer.write(value, NAMES_WORDS, room), TOO_LONG);
    assert.equal(writer.writeCall(undefined, [1, value], NAMES_WORDS, room), TOO_LONG);
  }
  assert.ok(new Int32Array(memory).every((word) => word === 0), 'nothing was written');
  assert.ok(writer.write('x'.repeat(390), NAMES_WORDS, room) > 0);
});
