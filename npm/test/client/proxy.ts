// A man in the middle for tests: passes bytes on, and breaks connections when it is told to.
//
// It counts connections and can cut each of them after so many bytes of the answer, which is how a network breaks: in
// the middle of anything.

import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class Proxy {
  connections = 0;
  /** Each connection is cut after this many bytes that came through from the moment this was set; undefined: never. */
  cutAfterBytes: number | undefined;
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  private constructor(port: number) {
    this.#server = createServer((client) => this.#pass(client, port));
  }

  static async before(port: number): Promise<Proxy> {
    const proxy = new Proxy(port);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #pass(client: Socket, port: number): void {
    this.connections += 1;
    const daemon = connect(port, '127.0.0.1');
    let bytes = 0;
    const cut = (): void => {
      client.destroy();
      daemon.destroy();
      this.#open.delete(client);
    };
    this.#open.add(client);
    for (const socket of [client, daemon]) socket.on('error', cut).on('close', cut);
    client.on('data', (chunk) => daemon.write(chunk));
    daemon.on('data', (chunk) => {
      const limit = this.cutAfterBytes;
      const room = limit === undefined ? chunk.length : Math.max(limit - bytes, 0);
      bytes += limit === undefined ? 0 : chunk.length;
      if (room >= chunk.length) client.write(chunk);
      else client.write(chunk.subarray(0, room), cut);
    });
  }

  async stop(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
