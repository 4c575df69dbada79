// Strings that are sent again and again (methods, keys of objects) travel once and then as a number.
//
// The table lies in shared memory, is written by one side and read by the other, and only grows. A number is sent with
// a task that is published after the table was written, so whoever reads the number finds the name, also when the task
// that needed the name first was taken back and never read.
//
//   | bytes of name 0 | its text, padded to words | bytes of name 1 | ...
//
// The table is bounded: what no longer fits travels as a string every time. Keys may fill three quarters only, so that
// objects used as dictionaries do not take the methods' place.

import type { Text } from './text.ts';

/** The longest name that is kept; longer ones are rarely sent often. */
const NAME_LENGTH_MAX = 64;
/** The number of a string that is not in the table. */
export const UNNAMED = -1;

export class NameWriter {
  private readonly numbers = new Map<string, number>();
  private readonly text: Text;
  private at: number;
  private readonly keyEnd: number;
  private readonly end: number;

  /** `at` and `words`: where the table lies, in words. */
  constructor(text: Text, at: number, words: number) {
    this.text = text;
    this.at = at;
    this.end = at + words;
    this.keyEnd = at + Math.floor(words * 0.75);
  }

  ofMethod(name: string): number {
    return this.numbers.get(name) ?? this.add(name, this.end);
  }

  ofKey(name: string): number {
    return this.numbers.get(name) ?? this.add(name, this.keyEnd);
  }

  private add(name: string, end: number): number {
    const room = (end - this.at - 1) * 4;
    if (name.length > NAME_LENGTH_MAX || name.length + 8 > room) return UNNAMED;
    const bytes = this.text.writeAscii(name, (this.at + 1) * 4);
    if (bytes < 0) return UNNAMED;
    this.text.words[this.at] = bytes;
    this.at += 1 + ((bytes + 3) >> 2);
    const number = this.numbers.size;
    this.numbers.set(name, number);
    return number;
  }
}

export class NameReader {
  private readonly names: string[] = [];
  private readonly text: Text;
  private at: number;
  private readonly end: number;

  constructor(text: Text, at: number, words: number) {
    this.text = text;
    this.at = at;
    this.end = at + words;
  }

  /** The name of a number. Throws for a number that was never given out. */
  name(number: number): string {
    while (this.names.length <= number) this.readNext(number);
    return this.names[number];
  }

  private readNext(number: number): void {
    const bytes = this.text.words[this.at];
    const next = this.at + 1 + ((bytes + 3) >> 2);
    if (this.at >= this.end || bytes < 0 || bytes > NAME_LENGTH_MAX || next > this.end) {
      throw new Error(`shared link: expected a name of number ${number}, the table ends at ${this.names.length}`);
    }
    this.names.push(this.text.readAscii((this.at + 1) * 4, bytes));
    this.at = next;
  }
}
