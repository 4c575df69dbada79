// One span per task, for OpenTelemetry or for anybody: the pool depends on neither.
//
// With a `tracer` (from @opentelemetry/api) spans are started and ended on it; with `onSpan` a finished span is handed
// over as a plain record. Both together work too. The span's own context is what travels with the task as a W3C
// traceparent, so that spans made in the worker become its children. The tracer is the user's code: if it throws, the
// task goes on without a span and the pool warns once.
//
// Not here: how the traceparent reaches the worker (the link), and when a task starts and ends (the pool).

/** The part of a span of @opentelemetry/api that is used. */
export interface SpanLike {
  spanContext(): { traceId: string; spanId: string; traceFlags: number };
  setAttribute(key: string, value: string | number | boolean): unknown;
  addEvent?(name: string): unknown;
  recordException?(error: unknown): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  end(): unknown;
}

export interface TracerLike {
  startSpan(name: string, options?: object, context?: unknown): SpanLike;
}

/** The module @opentelemetry/api itself: needed only to make a remote traceparent the parent and not just a link. */
export interface ApiLike {
  trace: { setSpanContext(context: unknown, spanContext: object): unknown };
  context: { active(): unknown };
}

/** A finished span as `onSpan` gets it. Times are milliseconds since 1970. */
export interface SpanRecord {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly traceparent: string;
  readonly startTime: number;
  readonly endTime: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly events: readonly { readonly name: string; readonly time: number }[];
  readonly status: 'ok' | 'error';
  readonly error: unknown;
}

export interface TelemetrySettings {
  tracer: TracerLike | undefined;
  api: ApiLike | undefined;
  onSpan: ((span: SpanRecord) => void) | undefined;
}

/** What is known of a task when its span begins. */
export interface SpanStart {
  readonly method: string;
  readonly priority?: number;
  readonly affinity?: string;
  readonly traceparent?: string;
}

interface TraceContext {
  traceId: string;
  spanId: string;
  traceFlags: number;
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const STATUS_OK = 1;
const STATUS_ERROR = 2;
/** Events of one span: 'started' and a few more; a task that is moved often must not grow it without end. */
const EVENTS_MAX = 32;

/** Whether it is a traceparent that names a trace: the version ff and all-zero ids are forbidden by W3C. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && parseTraceparent(value) !== undefined;
}

export function parseTraceparent(value: string): TraceContext | undefined {
  const parts = TRACEPARENT.exec(value);
  if (!parts || value.startsWith('ff') || /^0+$/.test(parts[1]) || /^0+$/.test(parts[2])) return undefined;
  return { traceId: parts[1], spanId: parts[2], traceFlags: Number.parseInt(parts[3], 16) };
}

export function formatTraceparent(context: TraceContext): string {
  return `00-${context.traceId}-${context.spanId}-${(context.traceFlags & 0xff).toString(16).padStart(2, '0')}`;
}

export class Telemetry {
  private readonly settings: TelemetrySettings;
  private readonly warn: (message: string) => void;
  private hasWarned = false;

  constructor(settings: TelemetrySettings, warn: (message: string) => void) {
    this.settings = settings;
    this.warn = warn;
  }

  /** Begins the span of a task; undefined if the tracer failed. */
  start(task: SpanStart): TaskSpan | undefined {
    return this.guard(() => {
      const parent = task.traceparent === undefined ? undefined : parseTraceparent(task.traceparent);
      const name = `exec ${task.method}`;
      const attributes: Record<string, string | number | boolean> = { 'millpond.method': task.method };
      if (task.priority) attributes['millpond.priority'] = task.priority;
      if (task.affinity !== undefined) attributes['millpond.affinity'] = task.affinity;
      const span = this.settings.tracer && this.startSpan(this.settings.tracer, name, attributes, parent);
      const own = span?.spanContext() ?? {
        traceId: parent?.traceId ?? randomHex(16),
        spanId: randomHex(8),
        traceFlags: parent?.traceFlags ?? 1,
      };
      return new TaskSpan(this, name, own, parent?.spanId, attributes, span);
    });
  }

  private startSpan(
    tracer: TracerLike, name: string, attributes: object, parent: TraceContext | undefined,
  ): SpanLike {
    const { api } = this.settings;
    if (!parent) return tracer.startSpan(name, { attributes });
    const remote = { ...parent, isRemote: true };
    if (api) return tracer.startSpan(name, { attributes }, api.trace.setSpanContext(api.context.active(), remote));
    return tracer.startSpan(name, { attributes, links: [{ context: remote }] });
  }

  /** Hands the finished record to `onSpan`. */
  finish(record: () => SpanRecord): void {
    const { onSpan } = this.settings;
    if (onSpan) this.guard(() => onSpan(record()));
  }

  guard<Value>(act: () => Value): Value | undefined {
    try {
      return act();
    } catch (error) {
      if (!this.hasWarned) {
        this.hasWarned = true;
        this.warn(`telemetry: the tracer or onSpan threw, tasks go on without it: ${String(error)}`);
      }
      return undefined;
    }
  }
}

export class TaskSpan {
  /** What the worker is told: the parent of whatever it traces itself. */
  readonly traceparent: string;
  private readonly startTime = Date.now();
  private readonly events: { name: string; time: number }[] = [];
  private isEnded = false;

  constructor(
    private readonly telemetry: Telemetry,
    private readonly name: string,
    private readonly context: TraceContext,
    private readonly parentSpanId: string | undefined,
    private readonly attributes: Record<string, string | number | boolean>,
    private readonly span: SpanLike | undefined,
  ) {
    this.traceparent = formatTraceparent(context);
  }

  event(name: string): void {
    if (this.isEnded || this.events.length >= EVENTS_MAX) return;
    this.events.push({ name, time: Date.now() });
    this.telemetry.guard(() => this.span?.addEvent?.(name));
  }

  attribute(key: string, value: string | number | boolean): void {
    if (this.isEnded) return;
    this.attributes[key] = value;
    this.telemetry.guard(() => this.span?.setAttribute(key, value));
  }

  /** The task ended well. Only the first end counts. */
  succeed(): void {
    this.end('ok', undefined);
  }

  /** The task failed, was cancelled, timed out or was dropped. */
  fail(error: unknown): void {
    this.end('error', error);
  }

  private end(status: 'ok' | 'error', error: unknown): void {
    if (this.isEnded) return;
    this.isEnded = true;
    const { span } = this;
    if (span) {
      this.telemetry.guard(() => {
        if (status === 'error') span.recordException?.(error);
        const message = status === 'error' ? messageOf(error) : undefined;
        span.setStatus(status === 'ok' ? { code: STATUS_OK } : { code: STATUS_ERROR, message });
        span.end();
      });
    }
    this.telemetry.finish(() => ({
      name: this.name,
      traceId: this.context.traceId,
      spanId: this.context.spanId,
      parentSpanId: this.parentSpanId,
      traceparent: this.traceparent,
      startTime: this.startTime,
      endTime: Date.now(),
      attributes: this.attributes,
      events: this.events,
      status,
      error,
    }));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  let text = '';
  for (const byte of random) text += byte.toString(16).padStart(2, '0');
  return text;
}
