// A value with the list of what is handed over instead of copied, as a worker returns or emits it.
//
// A class of its own, and workerpool's name for it: `instanceof` is how a returned Transfer is told from data that
// happens to have the same two fields.

export class Transfer {
  message: unknown;
  transfer: Transferable[];

  constructor(message: unknown, transfer: Transferable[]) {
    this.message = message;
    this.transfer = transfer;
  }
}
