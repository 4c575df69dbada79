// Follows one task: its events in their order, each once, over as many connections as that takes.
//
// Every event has a number. When the connection breaks, the daemon drains, or a stream is silent for longer than its
// sign of life allows, the next connection asks for what comes after the last number seen. A connection that brought
// something starts the count of tries anew, so a long task outlives any number of breaks, and a dead daemon does not.
//
// The daemon waits for its readers: events are read when they are asked for, so a slow consumer slows the task and
// fills no memory here. Leaving the loop closes the connection; the task goes on.

import { pause, Watch, type Door } from './door.ts';
import { ConnectionError } from './errors.ts';
import { EventReader, lines, type ServerEvent } from './lines.ts';
import type { TaskEvent } from './shapes.ts';

const DRAIN_PAUSE_MS = 1_000;
const BREAK_PAUSE_MS = 100;

export interface FollowOptions {
  /** The number of the first event that is wanted. */
  from?: number;
  signal?: AbortSignal;
  /** How long a stream may be silent before it counts as broken; the daemon's heartbeat is 15 s. */
  silenceMs?: number;
}

/** `path` is the address of the task. */
export async function* follow(door: Door, path: string, options: FollowOptions = {}): AsyncGenerator<TaskEvent> {
  const place = { next: options.from ?? 0, isIntroduced: false };
  const { tries } = door.settings.retry;
  let barren = 0;
  for (;;) {
    let wait = BREAK_PAUSE_MS;
    try {
      for await (const event of connection(door, path, place, options)) {
        barren = 0;
        if (event.event === 'drain') {
          wait = DRAIN_PAUSE_MS;
          break;
        }
        yield event;
        if (event.event === 'ended') return;
      }
    } catch (error) {
      const isBreak = error instanceof ConnectionError && ['unreachable', 'timed-out'].includes(error.code);
      if (!isBreak || barren + 1 >= tries) throw error;
    }
    barren += 1;
    if (barren >= tries) throw new ConnectionError('unreachable', `${path}: the stream ended ${tries} times too early`);
    await pause(wait * barren, options.signal);
  }
}

type Heard = TaskEvent | { event: 'drain'; id?: undefined; data: unknown };

/** What one connection brings. */
async function* connection(
  door: Door,
  path: string,
  place: { next: number; isIntroduced: boolean },
  options: FollowOptions,
): AsyncGenerator<Heard> {
  const silenceMs = options.silenceMs ?? 60_000;
  const watch = new Watch(options.signal, silenceMs, path);
  const { lineBytesMax } = door.settings;
  try {
    const { body } = await door.open({ path: `${path}/events?from=${place.next}`, accept: 'text/event-stream' }, watch);
    if (body === null) return;
    const reader = new EventReader(lineBytesMax);
    for await (const line of lines(body, lineBytesMax)) {
      watch.hurry(silenceMs);
      const heard = reader.push(line);
      const event = heard && understood(heard, path);
      if (event === undefined) continue;
      if (event.id !== undefined) place.next = event.id + 1;
      if (event.event === 'task' && place.isIntroduced) continue;
      place.isIntroduced ||= event.event === 'task';
      // However long the consumer takes, it is not the daemon that is silent.
      watch.noMoreHurry();
      yield event;
      watch.hurry(silenceMs);
    }
  } catch (error) {
    throw watch.reasonFor(error);
  } finally {
    watch.end();
  }
}

const KNOWN: ReadonlySet<string> = new Set(['task', 'partial', 'progress', 'log', 'missed', 'ended', 'drain']);

/** An event as the caller gets it. Those of a newer daemon that nobody here knows are left out. */
function understood(heard: ServerEvent, path: string): Heard | undefined {
  if (!KNOWN.has(heard.event)) return undefined;
  try {
    const id = heard.id === undefined || heard.id === '' ? undefined : Number(heard.id);
    return { event: heard.event, id, data: JSON.parse(heard.data) } as Heard;
  } catch (error) {
    const shown = JSON.stringify(heard.data.slice(0, 80));
    const message = `${path}: expected JSON in the event ${heard.event}, got ${shown}`;
    throw new ConnectionError('unexpected-answer', message, { cause: error });
  }
}
