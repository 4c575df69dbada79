// Values in shared memory: what is small and plain is written word by word, everything else is refused.
//
// A refusal is no error: the caller sends the value by postMessage instead. So the rule is *exactly what structured
// clone would make of it, or refused*. Refused are references that meet twice (clone keeps them one object, cycles
// included), class instances and everything with a prototype of its own, holes and named properties of arrays,
// `__proto__` as a key, views of a part of a buffer, resizable and shared buffers, large bigints, boxed values,
// functions, symbols, what is deeper or larger than the limits. Two liberties: a Buffer that is a part of Node's
// slab travels without the rest of the slab, and an object that has got a getter may be asked twice if it is refused
// half-way.
//
// Every value begins with a word, its kind in the lowest 8 bits and a small number in the others:
//
//   UNDEFINED NULL TRUE FALSE           that is all
//   SMALL    number of 24 bits          INTEGER  one word more          DOUBLE, DATE, BIGINT  8 aligned bytes more
//   ASCII    length, then bytes         WIDE     length, then two bytes a character
//   ARRAY    length, then values        OBJECT   count, then (name or UNNAMED and a string, value) each
//   BUFFER   0, bytes, data             VIEW     kind of view, bytes, data
//
// Not here: where in memory (`shared-link.ts`), strings (`text.ts`), names (`names.ts`).

import { UNNAMED } from './names.ts';
import type { NameReader, NameWriter } from './names.ts';
import { bufferPrototype, isProxy } from './platform.node.ts';
import type { Text } from './text.ts';

/** It does not fit into the room that was given; with more room it might. */
export const TOO_LONG = -1;
/** It cannot travel this way at all. */
export const NOT_PLAIN = -2;

const DEPTH_MAX = 32;
const OBJECTS_MAX = 512;
const ARRAY_LENGTH_MAX = 2048;
const STRING_LENGTH_MAX = 1 << 20;
/** Up to so many objects a list is searched; beyond, a set. */
const LIST_MAX = 16;
/** Parameters of a call whose length is looked at before anything is written. */
const GLANCES = 4;

const UNDEFINED = 0;
const NULL = 1;
const TRUE = 2;
const FALSE = 3;
const SMALL = 4;
const INTEGER = 5;
const DOUBLE = 6;
const ASCII = 7;
const WIDE = 8;
const ARRAY = 9;
const OBJECT = 10;
const BIGINT = 11;
const DATE = 12;
const BUFFER = 13;
const VIEW = 14;

const SMALL_MAX = 0x7f_ffff;

type View = ArrayBufferView<ArrayBuffer>;
const VIEWS: readonly (new (buffer: ArrayBuffer) => View)[] = [
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array,
  Float64Array, BigInt64Array, BigUint64Array, DataView,
];
const KIND_OF_VIEW = new Map<object, number>(VIEWS.map((constructor, kind) => [constructor.prototype, kind]));
if (bufferPrototype !== undefined) KIND_OF_VIEW.set(bufferPrototype, 1);

const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;
const datePrototype = Date.prototype;
const bufferOnlyPrototype = ArrayBuffer.prototype;

/** Thrown inside the encoder only, and caught there. */
const tooLong = { refusal: TOO_LONG };
const notPlain = { refusal: NOT_PLAIN };

/** Asks something that only real dates and buffers answer; an object that merely has their prototype is not plain. */
function branded(ask: () => number): number {
  try {
    return ask();
  } catch {
    throw notPlain;
  }
}

/**
 * How many words a value takes at least, as far as that can be told at a glance. A refusal by exception costs as much
 * as a small task, and that a value is far too long is its usual reason.
 */
function leastWords(value: unknown): number {
  if (typeof value === 'string') return value.length >> 2;
  return ArrayBuffer.isView(value) ? value.byteLength >> 2 : 0;
}

export class Encoder {
  private readonly text: Text;
  private readonly words: Int32Array;
  private readonly doubles: Float64Array;
  private readonly longs: BigInt64Array;
  private readonly names: NameWriter;
  private at = 0;
  private end = 0;
  private depth = 0;
  /** The objects of this value so far, as many as `seenCount`; beyond `LIST_MAX` they are in the set. */
  private readonly seen: (object | undefined)[] = new Array<object | undefined>(LIST_MAX).fill(undefined);
  private seenCount = 0;
  private seenMore: Set<object> | undefined;

  constructor(text: Text, names: NameWriter) {
    this.text = text;
    this.words = text.words;
    this.doubles = new Float64Array(text.words.buffer);
    this.longs = new BigInt64Array(text.words.buffer);
    this.names = names;
  }

  /** Writes a value from word `at` to at most word `end`: the word behind it, or TOO_LONG or NOT_PLAIN. */
  write(value: unknown, at: number, end: number): number {
    if (leastWords(value) >= end - at) return TOO_LONG;
    this.begin(at, end);
    try {
      this.put(value);
    } catch (thrown) {
      return this.refuse(thrown);
    }
    return this.finish();
  }

  /**
   * Writes a method's parameters: a count and as many values. Names of properties and holes of this one array do not
   * matter, since it is spread into arguments. `method` goes first if the table of names has no room for it.
   */
  writeCall(method: string | undefined, params: readonly unknown[], at: number, end: number): number {
    const length = params.length;
    for (let index = 0; index < length && index < GLANCES; index++) {
      if (leastWords(params[index]) >= end - at) return TOO_LONG;
    }
    this.begin(at, end);
    try {
      if (method !== undefined) this.putString(method);
      if (length > ARRAY_LENGTH_MAX) throw notPlain;
      this.see(params);
      this.word(length);
      for (let index = 0; index < length; index++) this.put(params[index]);
    } catch (thrown) {
      return this.refuse(thrown);
    }
    return this.finish();
  }

  private begin(at: number, end: number): void {
    this.at = at;
    this.end = end;
    this.depth = 0;
  }

  private finish(): number {
    this.forget();
    return this.at;
  }

  private refuse(thrown: unknown): number {
    this.forget();
    if (thrown === tooLong || thrown === notPlain) return (thrown as typeof tooLong).refusal;
    // A getter's own error: what structured clone would throw as well.
    throw thrown;
  }

  private forget(): void {
    while (this.seenCount > 0) this.seen[--this.seenCount] = undefined;
    this.seenMore = undefined;
  }

  private word(word: number): void {
    if (this.at >= this.end) throw tooLong;
    this.words[this.at++] = word;
  }

  private put(value: unknown): void {
    switch (typeof value) {
      case 'number': return this.putNumber(value);
      case 'string': return this.putString(value);
      case 'boolean': return this.word(value ? TRUE : FALSE);
      case 'undefined': return this.word(UNDEFINED);
      case 'object': return value === null ? this.word(NULL) : this.putObject(value);
      case 'bigint': return this.putBigint(value);
      default: throw notPlain;
    }
  }

  private putNumber(value: number): void {
    if ((value | 0) === value && (value !== 0 || 1 / value > 0)) {
      if (value >= -SMALL_MAX && value <= SMALL_MAX) return this.word(SMALL | (value << 8));
      this.word(INTEGER);
      return this.word(value);
    }
    this.word(DOUBLE);
    this.doubles[this.eight()] = value;
  }

  /** Eight aligned bytes, in units of eight. */
  private eight(): number {
    const at = (this.at + 1) >> 1;
    this.at = (at + 1) << 1;
    if (this.at > this.end) throw tooLong;
    return at;
  }

  private putString(value: string): void {
    const length = value.length;
    const room = (this.end - this.at - 1) * 4;
    if (length > STRING_LENGTH_MAX) throw notPlain;
    if (length + 4 > room) throw tooLong;
    const from = (this.at + 1) * 4;
    if (this.text.writeAscii(value, from) === length) {
      this.words[this.at] = ASCII | (length << 8);
      this.at += 1 + ((length + 3) >> 2);
      return;
    }
    if (length * 2 > room) throw tooLong;
    this.text.writeWide(value, from);
    this.words[this.at] = WIDE | (length << 8);
    this.at += 1 + ((length + 1) >> 1);
  }

  private putBigint(value: bigint): void {
    if (BigInt.asIntN(64, value) !== value) throw notPlain;
    this.word(BIGINT);
    this.longs[this.eight()] = value;
  }

  private putObject(value: object): void {
    if (isProxy(value)) throw notPlain;
    this.see(value);
    const prototype = Object.getPrototypeOf(value) as object | null;
    if (prototype === objectPrototype || prototype === null) return this.putRecord(value as Record<string, unknown>);
    if (prototype === arrayPrototype && Array.isArray(value)) return this.putArray(value);
    if (prototype === datePrototype) return this.putDate(value as Date);
    if (prototype === bufferOnlyPrototype) return this.putBuffer(value as ArrayBuffer);
    const kind = prototype === null ? undefined : KIND_OF_VIEW.get(prototype);
    if (kind === undefined || !ArrayBuffer.isView(value)) throw notPlain;
    this.putView(kind, value);
  }

  private see(value: object): void {
    if (this.seenMore !== undefined) {
      if (this.seenMore.has(value) || this.seenMore.size >= OBJECTS_MAX) throw notPlain;
      this.seenMore.add(value);
      return;
    }
    const { seen, seenCount } = this;
    for (let index = 0; index < seenCount; index++) if (seen[index] === value) throw notPlain;
    if (seenCount < LIST_MAX) {
      seen[seenCount] = value;
      this.seenCount = seenCount + 1;
    } else {
      this.seenMore = new Set(seen as object[]).add(value);
    }
  }

  private putRecord(record: Record<string, unknown>): void {
    if (++this.depth > DEPTH_MAX) throw notPlain;
    const keys = Object.keys(record);
    this.word(OBJECT | (keys.length << 8));
    if (keys.length > ARRAY_LENGTH_MAX) throw notPlain;
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index];
      if (key === '__proto__') throw notPlain;
      const number = this.names.ofKey(key);
      this.word(number);
      if (number === UNNAMED) this.putString(key);
      this.put(record[key]);
    }
    this.depth--;
  }

  private putArray(array: unknown[]): void {
    const length = array.length;
    // Neither holes nor named properties: both would change the count.
    if (length > ARRAY_LENGTH_MAX || ++this.depth > DEPTH_MAX || Object.keys(array).length !== length) throw notPlain;
    this.word(ARRAY | (length << 8));
    for (let index = 0; index < length; index++) this.put(array[index]);
    this.depth--;
  }

  private putDate(date: Date): void {
    this.word(DATE);
    this.doubles[this.eight()] = branded(() => datePrototype.getTime.call(date));
  }

  private putBuffer(buffer: ArrayBuffer): void {
    // An empty one may be a detached one, which clone refuses.
    if (branded(() => buffer.byteLength) === 0 || (buffer as { resizable?: boolean }).resizable) throw notPlain;
    this.word(BUFFER);
    this.putBytes(new Uint8Array(buffer));
  }

  private putView(kind: number, view: ArrayBufferView): void {
    const buffer = view.buffer;
    const isSlab = bufferPrototype !== undefined && Object.getPrototypeOf(view) === bufferPrototype;
    const isWhole = view.byteOffset === 0 && view.byteLength === buffer.byteLength;
    if (!(isWhole || isSlab) || Object.getPrototypeOf(buffer) !== bufferOnlyPrototype) throw notPlain;
    if ((buffer as { resizable?: boolean }).resizable || buffer.byteLength === 0) throw notPlain;
    this.see(buffer);
    this.word(VIEW | (kind << 8));
    this.putBytes(new Uint8Array(buffer, view.byteOffset, view.byteLength));
  }

  private putBytes(bytes: Uint8Array): void {
    const length = bytes.length;
    if (length > (this.end - this.at - 1) * 4) throw tooLong;
    this.words[this.at] = length;
    this.text.bytes.set(bytes, (this.at + 1) * 4);
    this.at += 1 + ((length + 3) >> 2);
  }
}

export class Decoder {
  private readonly text: Text;
  private readonly words: Int32Array;
  private readonly doubles: Float64Array;
  private readonly longs: BigInt64Array;
  private readonly names: NameReader;
  private at = 0;

  constructor(text: Text, names: NameReader) {
    this.text = text;
    this.words = text.words;
    this.doubles = new Float64Array(text.words.buffer);
    this.longs = new BigInt64Array(text.words.buffer);
    this.names = names;
  }

  /** The value that was written at a word. */
  read(at: number): unknown {
    this.at = at;
    return this.get();
  }

  /** What `writeCall` wrote; `method` if it went first. */
  readCall(at: number, hasMethod: boolean): { method: string | undefined; params: unknown[] } {
    this.at = at;
    const method = hasMethod ? (this.get() as string) : undefined;
    return { method, params: this.getAll(this.words[this.at++]) };
  }

  /** As `readCall`, for a method that has a name. */
  readParams(at: number): unknown[] {
    this.at = at;
    return this.getAll(this.words[this.at++]);
  }

  private get(): unknown {
    const word = this.words[this.at++];
    switch (word & 0xff) {
      case UNDEFINED: return undefined;
      case NULL: return null;
      case TRUE: return true;
      case FALSE: return false;
      case SMALL: return word >> 8;
      case INTEGER: return this.words[this.at++];
      case DOUBLE: return this.doubles[this.eight()];
      case ASCII: return this.getAscii(word >>> 8);
      case WIDE: return this.getWide(word >>> 8);
      case ARRAY: return this.getAll(word >>> 8);
      case OBJECT: return this.getRecord(word >>> 8);
      case BIGINT: return this.longs[this.eight()];
      case DATE: return new Date(this.doubles[this.eight()]);
      case BUFFER: return this.getBytes();
      case VIEW: return new VIEWS[word >>> 8](this.getBytes());
      default: throw new Error(`shared link: expected a kind of value from 0 to ${VIEW}, got ${word & 0xff}`);
    }
  }

  private eight(): number {
    const at = (this.at + 1) >> 1;
    this.at = (at + 1) << 1;
    return at;
  }

  private getAscii(length: number): string {
    const from = this.at * 4;
    this.at += (length + 3) >> 2;
    return this.text.readAscii(from, length);
  }

  private getWide(length: number): string {
    const from = this.at * 4;
    this.at += (length + 1) >> 1;
    return this.text.readWide(from, length);
  }

  private getAll(length: number): unknown[] {
    // Most calls have one or two parameters, and an array written out is made at once.
    if (length === 1) return [this.get()];
    if (length === 2) return [this.get(), this.get()];
    const array: unknown[] = [];
    for (let index = 0; index < length; index++) array.push(this.get());
    return array;
  }

  private getRecord(count: number): Record<string, unknown> {
    const record: Record<string, unknown> = {};
    for (let index = 0; index < count; index++) {
      const number = this.words[this.at++];
      const key = number === UNNAMED ? (this.get() as string) : this.names.name(number);
      record[key] = this.get();
    }
    return record;
  }

  private getBytes(): ArrayBuffer {
    const length = this.words[this.at];
    const from = (this.at + 1) * 4;
    this.at += 1 + ((length + 3) >> 2);
    const copy = new Uint8Array(length);
    copy.set(this.text.bytes.subarray(from, from + length));
    return copy.buffer;
  }
}
