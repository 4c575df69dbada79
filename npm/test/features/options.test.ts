// A wrong option must be told at once, in words that lead to the right one: a misspelt limit would silently not hold.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkCallOptions, checkOptions, readOptions } from '../../src/options.ts';
import type { FeatureOptions } from '../../src/options.ts';

const LIMITS = { minWorkers: undefined, maxWorkers: 4, maxQueueSize: Infinity };
const read = (options: unknown) => readOptions(options as FeatureOptions, LIMITS);

const WRONG: readonly [options: unknown, message: RegExp][] = [
  [
    { workerChoiceStrategy: 'least-buzy' },
    /^workerChoiceStrategy: expected one of round-robin, .*, got the string "least-buzy"; did you mean "least-busy"\?$/,
  ],
  [{ workerChoiceStrategy: 7 }, /^workerChoiceStrategy: expected one of .*, got the number 7$/],
  [{ workerChoiceStrategy: { name: 'x' } }, /^workerChoiceStrategy.select: expected a function, got undefined$/],
  [{ scaling: 3 }, /^scaling: expected an object, got the number 3$/],
  [{ scaling: { enabled: 'yes' } }, /^scaling.enabled: expected true or false, got the string "yes"$/],
  [
    { scaling: { scaleUpTreshold: 1 } },
    /^scaling.scaleUpTreshold: expected one of the settings .*did you mean "scaleUpThreshold"\?$/,
  ],
  [
    { scaling: { scaleUpThreshold: 0 } },
    /^scaling.scaleUpThreshold: expected a number from 0.004 to 1000000, got the number 0$/,
  ],
  [
    { scaling: { scaleDownThreshold: 3 } },
    /^scaling.scaleDownThreshold: expected less than scaleUpThreshold \(2\), got the number 3$/,
  ],
  [
    { scaling: { minWorkers: 5 } },
    /^scaling.minWorkers: expected at most scaling.maxWorkers \(4\), got the number 5$/,
  ],
  [
    { scaling: { maxWorkers: 0 } },
    /^scaling.maxWorkers: expected a whole number from 1 .*, got the number 0$/,
  ],
  [
    { scaling: { cooldownPeriod: -1 } },
    /^scaling.cooldownPeriod: expected a number of milliseconds .*, got the number -1$/,
  ],
  [{ scaling: { scaleUpStep: 1.5 } }, /^scaling.scaleUpStep: expected a whole number/],
  [{ scaling: { onScaling: 1 } }, /^scaling.onScaling: expected a function, got the number 1$/],
  [{ scaling: { predictive: { horizont: 1 } } }, /^scaling.predictive.horizont: .*did you mean "horizon"\?$/],
  [
    { scaling: { predictive: { utilisation: 2 } } },
    /^scaling.predictive.utilisation: expected a number from 0.01 to 1, got the number 2$/,
  ],
  [
    { taskStealing: { stealSize: 4 } },
    /^taskStealing.stealSize: expected one of one, half, all, got the number 4$/,
  ],
  [{ taskStealing: { maxStealSize: 0 } }, /^taskStealing.maxStealSize: expected a whole number from 1/],
  [{ backPressure: 'dropoldest' }, /^backPressure.policy: expected one of .*did you mean "drop-oldest"\?$/],
  [
    { backPressure: { policy: 'block', timeout: NaN } },
    /^backPressure.timeout: expected a number of milliseconds .*, got the number NaN$/,
  ],
  [
    { backPressure: { maxQueueSize: Infinity } },
    /^backPressure.maxQueueSize: expected a whole number .*, got the number Infinity$/,
  ],
  [{ backPressure: { methods: { add: 1 } } }, /^backPressure.methods.add: expected a function, got the number 1$/],
  [
    { affinity: { virtualNodes: 0 } },
    /^affinity.virtualNodes: expected a whole number from 1 to 10000, got the number 0$/,
  ],
  [
    { affinity: { method: 'circle' } },
    /^affinity.method: expected one of rendezvous, ring, got the string "circle"$/,
  ],
  [
    { metrics: { histogramBuckets: [] } },
    /^metrics.histogramBuckets: expected an array of 1 to 100, got an array of 0$/,
  ],
  [
    { metrics: { histogramBuckets: [1, 1] } },
    /^metrics.histogramBuckets\[1\]: expected more than the bound before it \(1\), got the number 1$/,
  ],
  [{ telemetry: {} }, /^telemetry: expected an object with a tracer or an onSpan callback, got an object$/],
  [{ telemetry: { tracer: {} } }, /^telemetry.tracer: expected a tracer of @opentelemetry\/api/],
  [{ recycle: { maxTasks: 0 } }, /^recycle.maxTasks: expected a whole number from 1/],
  [{ recycle: { maxAge: 1 } }, /^recycle.maxAge: .*did you mean "maxAgeMs"\?$/],
  [{ useWasm: 1 }, /^useWasm: expected true or false, got the number 1$/],
  [{ transport: 'fast' }, /^transport: expected one of auto, messages, shared, got the string "fast"$/],
];

for (const [options, message] of WRONG) {
  test(`a wrong option is told: ${JSON.stringify(options)}`, () => {
    assert.throws(() => read(options), { name: 'TypeError', message });
    assert.throws(() => {
      checkOptions(options as FeatureOptions);
      // Limits that hang on the pool's own maxWorkers are told when the pool reads them.
      read(options);
    }, TypeError);
  });
}

test('nothing given: what changes behaviour is off, and what is unknown at the top is ignored as in workerpool', () => {
  const settings = read({ somethingElse: 1 });
  assert.equal(settings.strategy, undefined);
  assert.equal(settings.scaling, undefined);
  assert.equal(settings.backPressure, undefined);
  assert.equal(settings.recycle, undefined);
  assert.equal(settings.telemetry, undefined);
  assert.equal(settings.useWasm, true);
  assert.equal(settings.transport, 'auto');
  assert.equal(settings.stealing.enabled, true);
});

test('the whole example of workerpool\'s plan is understood', () => {
  const settings = readOptions({
    workerChoiceStrategy: 'least-busy',
    scaling: { enabled: true, scaleUpThreshold: 2.0, scaleDownIdleTimeout: 30000 },
    taskStealing: { enabled: true, stealSize: 'half' },
    backPressure: { policy: 'reject', maxQueueSize: 10000 },
    affinity: { enabled: true, virtualNodes: 150 },
    useWasm: true,
    metrics: { enabled: true, histogramBuckets: [1, 5, 10, 25, 50, 100, 250, 500, 1000] },
  }, { minWorkers: 2, maxWorkers: 16, maxQueueSize: Infinity });
  assert.deepEqual(settings.scaling && { ...settings.scaling, onScaling: undefined }, {
    scaleUpThreshold: 2, scaleDownThreshold: 0.5, scaleDownIdleTimeout: 30000, scaleUpStep: 1, scaleDownStep: 1,
    cooldownPeriod: 5000, minWorkers: 2, maxWorkers: 16, samples: 2, interval: 1000, predictive: undefined,
    onScaling: undefined,
  });
  assert.equal(settings.backPressure?.policy, 'reject');
  assert.equal(settings.backPressure?.maxQueueSize, 10000);
  assert.deepEqual(settings.affinity, { method: 'ring', virtualNodes: 150, ttl: 60000, maxKeys: 4096 });
});

test('true, false and enabled turn a group on and off; a bare policy name is a back-pressure group', () => {
  assert.equal(read({ scaling: true }).scaling?.maxWorkers, 4);
  assert.equal(read({ scaling: false }).scaling, undefined);
  assert.equal(read({ scaling: { enabled: false, maxWorkers: 9 } }).scaling, undefined);
  assert.equal(read({ affinity: false }).affinity, undefined);
  assert.equal(read({ taskStealing: false }).stealing.enabled, false);
  assert.equal(read({ metrics: false }).metrics, undefined);
  assert.deepEqual(read({ scaling: { predictive: true } }).scaling?.predictive, {
    horizon: 10000, halfLife: 3000, utilisation: 0.8,
  });
  const pressure = readOptions({ backPressure: 'drop-oldest' }, { ...LIMITS, maxQueueSize: 7 }).backPressure;
  assert.equal(pressure?.policy, 'drop-oldest');
  assert.equal(pressure?.maxQueueSize, 7);
});

test('the options of a call are checked, and a key asks for routing', () => {
  let wanted = 0;
  const hooks = { wantAffinity: () => void (wanted += 1) };
  const check = (options: object) => checkCallOptions(options, hooks);
  check({ on: 3, transfer: 4, metadata: 5 });
  check({ priority: -3, timeout: 5, signal: AbortSignal.timeout(1000) });
  check({ traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' });
  assert.equal(wanted, 0);
  check({ affinity: 'user:1' });
  assert.equal(wanted, 1);
  const wrong: readonly [object, RegExp][] = [
    [{ priority: 0.5 }, /^priority: expected a whole number, got the number 0.5$/],
    [{ affinity: 3 }, /^affinity: expected a string, got the number 3$/],
    [{ affinity: 'x'.repeat(1025) }, /^affinity \(1025 characters\): expected .* at most 1024, got .*"x{59}…"$/],
    [{ timeout: -1 }, /^timeout: expected a number of milliseconds from 0 to 2147483647, got the number -1$/],
    [{ timeout: '5' }, /^timeout: .*, got the string "5"$/],
    [{ signal: {} }, /^signal: expected an AbortSignal, got an object$/],
    [{ traceparent: '00-0-0-01' }, /^traceparent: expected a W3C traceparent/],
  ];
  for (const [options, message] of wrong) assert.throws(() => check(options), { name: 'TypeError', message });
});
