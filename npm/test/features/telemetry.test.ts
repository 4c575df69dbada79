// A trace must be one unbroken thread from the caller through the pool into the worker, and must never cost a task.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Telemetry, formatTraceparent, isTraceparent, parseTraceparent } from '../../src/telemetry.ts';
import type { SpanRecord, TelemetrySettings } from '../../src/telemetry.ts';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function telemetryWith(settings: Partial<TelemetrySettings>) {
  const warnings: string[] = [];
  const all: TelemetrySettings = { tracer: undefined, api: undefined, onSpan: undefined, ...settings };
  return { telemetry: new Telemetry(all, (message) => warnings.push(message)), warnings };
}

/** A tracer that writes down what is done to it. */
function recordingTracer() {
  const log: unknown[][] = [];
  const tracer = {
    startSpan(name: string, options?: object, context?: unknown) {
      log.push(['start', name, options, context]);
      return {
        spanContext: () => ({ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }),
        setAttribute: (key: string, value: unknown) => log.push(['attribute', key, value]),
        addEvent: (event: string) => log.push(['event', event]),
        recordException: (error: unknown) => log.push(['exception', error]),
        setStatus: (status: object) => log.push(['status', status]),
        end: () => log.push(['end']),
      };
    },
  };
  return { tracer, log };
}

test('a traceparent is read and written as W3C says, and what names no trace is refused', () => {
  const context = parseTraceparent(PARENT);
  assert.deepEqual(context, { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 });
  assert.equal(formatTraceparent(context!), PARENT);
  for (const wrong of [
    '', 'x', PARENT.toUpperCase(), `${PARENT}-x`, PARENT.replace('00-', 'ff-'),
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`, 3, null,
  ]) assert.equal(isTraceparent(wrong), false, String(wrong));
});

test('onSpan gets one finished record per task, child of the given parent', () => {
  const spans: SpanRecord[] = [];
  const { telemetry } = telemetryWith({ onSpan: (span) => spans.push(span) });
  const span = telemetry.start({ method: 'add', priority: 2, affinity: 'k', traceparent: PARENT })!;
  assert.match(span.traceparent, /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
  assert.notEqual(span.traceparent, PARENT);
  span.event('started');
  span.attribute('millpond.worker', 3);
  assert.equal(spans.length, 0);
  span.succeed();
  span.fail(new Error('too late'));
  assert.equal(spans.length, 1);
  const [record] = spans;
  assert.equal(record.name, 'exec add');
  assert.equal(record.parentSpanId, 'b7ad6b7169203331');
  assert.equal(record.status, 'ok');
  assert.deepEqual(record.attributes, {
    'millpond.method': 'add', 'millpond.priority': 2, 'millpond.affinity': 'k', 'millpond.worker': 3,
  });
  assert.deepEqual(record.events.map((event) => event.name), ['started']);
  assert.ok(record.endTime >= record.startTime);
});

test('a tracer of OpenTelemetry gets start, status, exception and end; its own context travels on', () => {
  const { tracer, log } = recordingTracer();
  const { telemetry } = telemetryWith({ tracer });
  const span = telemetry.start({ method: 'add' })!;
  assert.equal(span.traceparent, `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`);
  const error = new Error('broken');
  span.fail(error);
  assert.deepEqual(log, [
    ['start', 'exec add', { attributes: { 'millpond.method': 'add' } }, undefined],
    ['exception', error],
    ['status', { code: 2, message: 'broken' }],
    ['end'],
  ]);
});

test('a remote parent becomes the parent with the api, and a link without it', () => {
  const remote = { ...parseTraceparent(PARENT), isRemote: true };
  const bare = recordingTracer();
  telemetryWith({ tracer: bare.tracer }).telemetry.start({ method: 'add', traceparent: PARENT });
  assert.deepEqual((bare.log[0][2] as { links: unknown }).links, [{ context: remote }]);
  const full = recordingTracer();
  const api = {
    trace: { setSpanContext: (context: unknown, span: object) => ({ context, span }) },
    context: { active: () => 'active' },
  };
  telemetryWith({ tracer: full.tracer, api }).telemetry.start({ method: 'add', traceparent: PARENT });
  assert.deepEqual(full.log[0][3], { context: 'active', span: remote });
});

test('a tracer or callback that throws is warned of once and never reaches the task', () => {
  const broken = telemetryWith({ tracer: { startSpan: () => { throw new Error('no exporter'); } } });
  assert.equal(broken.telemetry.start({ method: 'add' }), undefined);
  assert.equal(broken.telemetry.start({ method: 'add' }), undefined);
  assert.equal(broken.warnings.length, 1);
  assert.match(broken.warnings[0], /tasks go on without it: Error: no exporter$/);
  const heard = telemetryWith({ onSpan: () => { throw new Error('mine'); } });
  heard.telemetry.start({ method: 'add' })!.succeed();
  assert.equal(heard.warnings.length, 1);
});
