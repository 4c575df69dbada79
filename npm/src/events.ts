// What a pool tells to those who listen: the names of its events, what each carries, and who hears them.
//
// Not Node's EventEmitter, because browsers have none and because a listener that throws must not stop the pool in
// the middle of a decision: its error is thrown again in a microtask, where the platform reports it as uncaught.
// Listeners are few and events are rare, so a plain array per name is enough; their number has a limit.

/** A worker count that changed, and why. */
export interface ScalingEvent {
  readonly type: 'scale-up' | 'scale-down';
  /** How many workers were added (0 for scale-down). */
  readonly added: number;
  /** How many workers were removed (0 for scale-up). */
  readonly removed: number;
  /** How many there are now. */
  readonly totalWorkers: number;
  readonly reason: string;
}

export interface WorkerEvent {
  readonly workerId: number;
  readonly totalWorkers: number;
}

export interface WorkerExitEvent extends WorkerEvent {
  /** Why it went: 'crashed', 'terminated', 'scaled-down', 'recycled: ...'. */
  readonly reason: string;
}

export interface BackPressureEvent {
  readonly policy: string;
  readonly queueSize: number;
  readonly maxQueueSize: number;
}

export interface DrainEvent {
  readonly queueSize: number;
  readonly maxQueueSize: number;
}

export interface DropEvent {
  readonly policy: string;
  readonly method: string;
  readonly metadata: unknown;
  readonly queueSize: number;
  readonly maxQueueSize: number;
}

export interface WarningEvent {
  readonly code: string;
  readonly message: string;
}

/** Every event of a pool with what its listeners are given. */
export interface PoolEventMap {
  'scale-up': ScalingEvent;
  'scale-down': ScalingEvent;
  'worker-created': WorkerEvent;
  'worker-exited': WorkerExitEvent;
  'back-pressure': BackPressureEvent;
  drain: DrainEvent;
  'task-dropped': DropEvent;
  warning: WarningEvent;
}

export const EVENT_NAMES: readonly (keyof PoolEventMap)[] = [
  'scale-up', 'scale-down', 'worker-created', 'worker-exited', 'back-pressure', 'drain', 'task-dropped', 'warning',
];

/** How many listeners one event may have: more is a leak, not a wish. */
export const LISTENERS_MAX = 1000;

export type Listener<Payload> = (event: Payload) => void;

interface Entry {
  readonly listener: Listener<never>;
  readonly once: boolean;
}

export class Emitter<Events extends object> {
  private readonly lists = new Map<keyof Events, Entry[]>();
  private readonly names: readonly (keyof Events)[];

  constructor(names: readonly (keyof Events)[]) {
    this.names = names;
  }

  on<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): this {
    return this.add(name, listener, false);
  }

  once<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): this {
    return this.add(name, listener, true);
  }

  /** Takes the listener away once, however it was added; one that is not there is no error. */
  off<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): this {
    const list = this.lists.get(name);
    const at = list ? list.findIndex((entry) => entry.listener === (listener as Listener<never>)) : -1;
    // A new array, so that an emit that is under way still goes through the one it started with.
    if (list && at >= 0) this.lists.set(name, list.filter((_, index) => index !== at));
    return this;
  }

  listenerCount(name: keyof Events): number {
    return this.lists.get(name)?.length ?? 0;
  }

  /** Whether anybody would hear it: the caller may then spare itself the making of the payload. */
  hears(name: keyof Events): boolean {
    return this.listenerCount(name) > 0;
  }

  /** Calls all listeners in the order they came. Returns whether there was one. */
  emit<Name extends keyof Events>(name: Name, payload: Events[Name]): boolean {
    const list = this.lists.get(name);
    if (!list || list.length === 0) return false;
    for (const entry of list) {
      if (entry.once) this.off(name, entry.listener as Listener<Events[Name]>);
      try {
        (entry.listener as Listener<Events[Name]>)(payload);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return true;
  }

  private add<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>, once: boolean): this {
    if (!this.names.includes(name)) {
      throw new TypeError(`event: expected one of ${this.names.join(', ')}, got ${JSON.stringify(name)}`);
    }
    if (typeof listener !== 'function') {
      throw new TypeError(`listener of ${JSON.stringify(name)}: expected a function, got ${typeof listener}`);
    }
    const list = this.lists.get(name) ?? [];
    if (list.length >= LISTENERS_MAX) {
      throw new RangeError(
        `event ${JSON.stringify(name)}: ${list.length} of ${LISTENERS_MAX} listeners are there; `
        + 'take some away with off()',
      );
    }
    this.lists.set(name, [...list, { listener: listener as Listener<never>, once }]);
    return this;
  }
}

/** The emitter of a pool. */
export class PoolEvents extends Emitter<PoolEventMap> {
  constructor() {
    super(EVENT_NAMES);
  }
}
