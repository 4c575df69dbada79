// What the shared link needs of a browser; `platform.node.ts` answers the same for Node.
//
// A browser has no native string copies for shared memory (TextDecoder refuses it), cannot read a port without a turn
// of the event loop, and has no setImmediate: a message to oneself is the fastest turn there is.

/** A port for what does not fit into the ring. */
export interface DataPort {
  postMessage(message: unknown, transfer?: readonly Transferable[]): void;
  close(): void;
}

export interface Channel {
  readonly near: DataPort;
  /** Goes to the other thread. */
  readonly far: Transferable;
}

export interface NativeText {
  utf8Write(text: string, at: number, bytes: number): number;
  ucs2Write(text: string, at: number, bytes: number): number;
  latin1Slice(from: number, to: number): string;
  ucs2Slice(from: number, to: number): string;
}

export const processors: number = globalThis.navigator?.hardwareConcurrency ?? 1;

const waiting: (() => void)[] = [];
let turner: MessagePort | undefined;

/** Calls back in a later turn of the event loop. */
export const nextTurn: (callback: () => void) => void = (callback) => {
  if (turner === undefined) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => waiting.shift()?.();
    turner = port2;
  }
  waiting.push(callback);
  turner.postMessage(0);
};

/** A browser cannot take a message out of a port at once. */
export const pullMessage: ((port: DataPort) => { message: unknown } | undefined) | undefined = undefined;

export function openChannel(): Channel {
  const { port1, port2 } = new MessageChannel();
  return { near: port1 as DataPort, far: port2 };
}

/** Hears what arrives on a port. */
export function listen(port: DataPort, hear: (message: unknown) => void): void {
  (port as unknown as MessagePort).onmessage = (event) => hear(event.data);
}

/** A browser does not tell; a proxy of a plain object travels as what it shows. */
export const isProxy: (value: object) => boolean = () => false;

export const bufferPrototype: object | undefined = undefined;

export function nativeText(_memory: SharedArrayBuffer): NativeText | undefined {
  return undefined;
}
