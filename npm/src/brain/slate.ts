// The slate: bytes in the module's memory that both sides write on, for keys and for rows of numbers.
//
// Views on a memory go blank when it grows, which a call may do. So they are made anew whenever they are found blank,
// which is a look at their length and costs nothing.

import type { PolicyExports } from './exports.ts';

const HALF = 0x1_0000_0000;

export class Slate {
  private at = 0;
  private room = 0;
  private bytes = new Uint8Array(0);
  private view = new DataView(new ArrayBuffer(0));
  private readonly encoder = new TextEncoder();

  constructor(private readonly exports: PolicyExports) {
    this.reserve(0);
  }

  /** Writes a text as UTF-8 and answers with its length in bytes; -1 if it is longer than the slate may be. */
  writeText(text: string): number {
    // A letter of JavaScript's takes at most three bytes.
    if (text.length * 3 > this.room && !this.reserve(text.length * 3) && !this.reserve(exactBytes(text))) return -1;
    this.refresh();
    return this.encoder.encodeInto(text, this.bytes).written;
  }

  writeFloats(numbers: readonly number[]): void {
    this.refresh();
    for (let at = 0; at < numbers.length; at += 1) this.view.setFloat64(at * 8, numbers[at], true);
  }

  /** Writes whole numbers of 64 bits; they must be below 2^53. */
  writeWholes(numbers: readonly number[]): void {
    this.refresh();
    for (let at = 0; at < numbers.length; at += 1) {
      this.view.setUint32(at * 8, numbers[at] % HALF, true);
      this.view.setUint32(at * 8 + 4, Math.floor(numbers[at] / HALF), true);
    }
  }

  float(at: number): number {
    this.refresh();
    return this.view.getFloat64(at * 8, true);
  }

  /** The whole number of 64 bits at a place, counted in numbers; above 2^53 it is rounded. */
  whole(at: number): number {
    this.refresh();
    return this.view.getUint32(at * 8 + 4, true) * HALF + this.view.getUint32(at * 8, true);
  }

  /** The same without rounding, for those that must know. */
  exact(at: number): bigint {
    this.refresh();
    return this.view.getBigUint64(at * 8, true);
  }

  private reserve(bytes: number): boolean {
    const at = this.exports.slate_at(bytes) >>> 0;
    if (at === 0) return false;
    this.at = at;
    this.room = Math.max(this.room, bytes, 4096);
    this.look();
    return true;
  }

  private refresh(): void {
    if (this.bytes.length === 0) this.look();
  }

  private look(): void {
    this.bytes = new Uint8Array(this.exports.memory.buffer, this.at, this.room);
    this.view = new DataView(this.exports.memory.buffer, this.at, this.room);
  }
}

/** How long a text is in UTF-8; found out only for those that may be too long. */
function exactBytes(text: string): number {
  let bytes = 0;
  for (const letter of text) {
    const code = letter.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x1_0000 ? 3 : 4;
  }
  return bytes;
}
