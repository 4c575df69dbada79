// Which --inspect port a child process gets when its parent is being debugged.
//
// Two processes cannot listen on one port, so every live process worker has a number of its own. Workerpool's rule: the
// first free one from `debugPortStart` on.

const PORT_MAX = 65535;
const taken = new Set<number>();

export function takeDebugPort(start: number): number {
  let port = start;
  while (taken.has(port)) port += 1;
  if (port >= PORT_MAX) throw new Error(`WorkerPool debug port limit reached: ${port}>= ${PORT_MAX}`);
  taken.add(port);
  return port;
}

export function releaseDebugPort(port: number | undefined): void {
  if (port !== undefined) taken.delete(port);
}
