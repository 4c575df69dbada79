// Strings in and out of shared memory: one byte a character if all are ASCII, two if not.
//
// Nothing is lost: lone surrogates are two bytes like any other character. Short strings are copied by a loop, which is
// faster than a call into native code; long ones by Node's native copies where there are any.

import { nativeText } from './platform.node.ts';
import type { NativeText } from './platform.browser.ts';

/** Below this a loop is faster than native code; measured on Node 20. */
const LOOP_WRITE_MAX = 24;
const LOOP_READ_MAX = 8;
/** Characters that `fromCharCode` is given at once. */
const CHUNK = 4096;

/** Views of one memory. A memory that has grown since needs new ones for what lies behind its old end. */
export class Text {
  readonly words: Int32Array;
  readonly bytes: Uint8Array;
  private readonly halves: Uint16Array;
  private readonly native: NativeText | undefined;

  /** `native` null: by loops only. */
  constructor(memory: SharedArrayBuffer, native: NativeText | null | undefined = nativeText(memory)) {
    this.words = new Int32Array(memory);
    this.bytes = new Uint8Array(memory);
    this.halves = new Uint16Array(memory);
    this.native = native ?? undefined;
  }

  /** Writes at a byte, if all of it is ASCII: how many bytes, or -1. There must be room for 4 bytes more than that. */
  writeAscii(text: string, at: number): number {
    const length = text.length;
    if (length > LOOP_WRITE_MAX && this.native !== undefined) {
      // Any other character takes more bytes than one, and four more than the length hold at least one of those.
      return this.native.utf8Write(text, at, length + 4) === length ? length : -1;
    }
    const bytes = this.bytes;
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      if (code > 127) return -1;
      bytes[at + index] = code;
    }
    return length;
  }

  /** Writes two bytes a character at an even byte. There must be room. */
  writeWide(text: string, at: number): void {
    if (this.native !== undefined && text.length > LOOP_WRITE_MAX) {
      this.native.ucs2Write(text, at, text.length * 2);
      return;
    }
    const from = at >> 1;
    for (let index = 0; index < text.length; index++) this.halves[from + index] = text.charCodeAt(index);
  }

  readAscii(at: number, length: number): string {
    if (length <= LOOP_READ_MAX) {
      let text = '';
      for (let index = 0; index < length; index++) text += String.fromCharCode(this.bytes[at + index]);
      return text;
    }
    if (this.native !== undefined) return this.native.latin1Slice(at, at + length);
    return this.join(this.bytes, at, length);
  }

  readWide(at: number, length: number): string {
    if (this.native !== undefined && length > LOOP_READ_MAX) return this.native.ucs2Slice(at, at + length * 2);
    return this.join(this.halves, at >> 1, length);
  }

  private join(codes: Uint8Array | Uint16Array, at: number, length: number): string {
    let text = '';
    for (let from = at; from < at + length; from += CHUNK) {
      const part = codes.subarray(from, Math.min(from + CHUNK, at + length));
      text += String.fromCharCode.apply(null, part as unknown as number[]);
    }
    return text;
  }
}
