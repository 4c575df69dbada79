// What the shared link needs of Node: ports that can be read without a turn of the event loop, strings copied by native
// code, a turn of the event loop, and the number of processors. `platform.browser.ts` answers the same for browsers.
//
// Buffer's `utf8Write`, `latin1Slice` and their kin work on shared memory and are several times faster than a loop;
// they are as old as Buffer but not documented, so each is looked for and a loop takes its place where it is missing.

import { availableParallelism } from 'node:os';
import { types } from 'node:util';
import { MessageChannel as NodeChannel, receiveMessageOnPort } from 'node:worker_threads';
import type { Channel, DataPort, NativeText } from './platform.browser.ts';

export const processors = availableParallelism();

/** Calls back in a later turn of the event loop, after timers and messages have had theirs. */
export const nextTurn: (callback: () => void) => void = (callback) => {
  setImmediate(callback);
};

/** Takes the next message out of a port at once; undefined where that cannot be done. */
export const pullMessage: ((port: DataPort) => { message: unknown } | undefined) | undefined =
  typeof receiveMessageOnPort === 'function' ? (port) => receiveMessageOnPort(port as never) : undefined;

export function openChannel(): Channel {
  const { port1, port2 } = new NodeChannel();
  return { near: port1 as unknown as DataPort, far: port2 as unknown as Transferable };
}

/** Hears what arrives on a port, without keeping the process alive for it. */
export function listen(port: DataPort, hear: (message: unknown) => void): void {
  const node = port as unknown as { on(event: 'message', hear: (message: unknown) => void): void; unref(): void };
  node.on('message', hear);
  node.unref();
}

/** Whether structured clone would refuse this object for being a proxy. */
export const isProxy: (value: object) => boolean = types.isProxy;

/** The prototype of Node's own kind of byte array, which arrives as the plain kind. */
export const bufferPrototype: object | undefined = Buffer.prototype;

interface NativeBuffer {
  utf8Write?(text: string, at: number, bytes: number): number;
  ucs2Write?(text: string, at: number, bytes: number): number;
  latin1Slice?(from: number, to: number): string;
  ucs2Slice?(from: number, to: number): string;
}

/** Native copies of strings into and out of a memory, or undefined. */
export function nativeText(memory: SharedArrayBuffer): NativeText | undefined {
  const buffer = Buffer.from(memory) as unknown as NativeBuffer;
  if (!buffer.utf8Write || !buffer.ucs2Write || !buffer.latin1Slice || !buffer.ucs2Slice) return undefined;
  return buffer as NativeText;
}
