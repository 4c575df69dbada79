// Which link a worker gets: rings in shared memory where both sides can, plain messages everywhere else.
//
// The choice is made when the worker has registered, because only then it is known whether its script speaks our
// protocol or still workerpool's. `transport: 'shared'` makes the fallback an error instead of a silent one.

import type { Link, LinkEvents, LinkPort } from './link.ts';
import { MessageLink } from './message-link.ts';
import { openSharedLink, sharedLinkPossible } from './shared-link.ts';

export type Transport = 'auto' | 'messages' | 'shared';

/** Opens the way to a worker; `canShare`: its script has said that it can do more than messages. */
export function openLink(events: LinkEvents, port: LinkPort, canShare: boolean, transport: Transport): Link {
  if (transport === 'messages') return new MessageLink(port, events);
  const obstacle = obstacleOf(port, canShare);
  if (obstacle === null) {
    try {
      return openSharedLink(port, events);
    } catch (error) {
      if (transport === 'shared') throw error;
    }
  } else if (transport === 'shared') {
    throw new Error(`transport "shared": ${obstacle}; use "auto" to fall back to messages`);
  }
  return new MessageLink(port, events);
}

/** Throws where it is certain before there is a worker that memory cannot be shared with it. */
export function checkTransport(kind: LinkPort['kind'], hasWasm: boolean): void {
  const obstacle = hasWasm ? obstacleOf({ kind }, true) : 'expected WebAssembly, got useWasm: false';
  if (obstacle !== null) throw new Error(`transport "shared": ${obstacle}; use "auto" to fall back to messages`);
}

function obstacleOf(port: Pick<LinkPort, 'kind'>, canShare: boolean): string | null {
  if (port.kind === 'process') return 'expected a thread or a web worker, got a child process';
  if (!canShare) return "expected a worker script that calls millpond's worker(), got another one";
  return sharedLinkPossible() ? null : 'memory cannot be shared here (in browsers it needs COOP and COEP headers)';
}
