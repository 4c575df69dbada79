// How a script becomes a worker: worker() opens the channel, adds methods and says that it is ready.
//
// It may be called late, after something asynchronous: the pool sends nothing before it has heard 'ready'. The word
// before it, 'here', tells a millpond pool that this side can do more than messages; other pools ignore it.

import type { WorkerRegisterOptions } from '../pool-options.ts';
import { CLEANUP, TERMINATE } from '../links/link.ts';
import { WorkerMessageLink } from './message-link.ts';
import { workerChannel } from './port.node.ts';
import type { WorkerChannel } from './port.node.ts';
import { Runner } from './runner.ts';
import { joinSharedLink } from './shared-link.ts';

export const PROTOCOL_VERSION = 1;

let runner: Runner | null = null;

/** Makes this script a worker, with the given methods. */
export function worker(
  methods?: Record<string, (...args: any[]) => any> | null, options?: WorkerRegisterOptions | null,
): void {
  const channel = workerChannel();
  const first = runner === null;
  const active = (runner ??= new Runner((code) => channel.exit(code)));
  if (methods) active.add(methods);
  if (options) {
    active.onTerminate = options.onTerminate;
    if (options.abortListenerTimeout) active.abortListenerTimeoutMs = options.abortListenerTimeout;
  }
  if (first) {
    active.link = new WorkerMessageLink(channel, active.run);
    channel.open((message) => onMessage(active, channel, message));
    channel.post({ millpond: 'here', version: PROTOCOL_VERSION });
  }
  channel.post('ready');
}

/** Sends an event to the caller of the task that is running; without one it goes nowhere. */
export function workerEmit(payload: unknown): void {
  runner?.emit(payload);
}

/** The trace context of the task that is running. */
export function traceparent(): string | undefined {
  return runner?.traceparent;
}

function onMessage(active: Runner, channel: WorkerChannel, message: any): void {
  if (message === TERMINATE) return active.terminate(0);
  if (typeof message !== 'object' || message === null) return;
  if (message.method === CLEANUP) return active.cleanUp(message.id);
  if (message.millpond === 'hello') return join(active, channel, message.link);
  if (message.millpond === 'heap') return channel.post({ millpond: 'heap', used: channel.heapUsed() });
  active.link?.receive?.(message);
}

/** From here on tasks come through shared memory; the pool has posted none before. */
function join(active: Runner, channel: WorkerChannel, invitation: unknown): void {
  active.link = joinSharedLink(invitation, channel, active.run);
}
