// Listeners are the user's code: what they do must not reach the pool that tells them something.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Emitter, LISTENERS_MAX, PoolEvents } from '../../src/events.ts';

test('listeners hear in the order they came, once() only once, off() no more', () => {
  const events = new PoolEvents();
  const heard: string[] = [];
  const first = (): void => void heard.push('first');
  events.on('drain', first).once('drain', () => heard.push('once')).on('drain', () => heard.push('last'));
  const payload = { queueSize: 0, maxQueueSize: 1 };
  assert.equal(events.emit('drain', payload), true);
  events.off('drain', first);
  events.emit('drain', payload);
  assert.deepEqual(heard, ['first', 'once', 'last', 'last']);
  assert.equal(events.emit('scale-up', {} as never), false);
});

test('a listener that takes another away while it hears does not make a third miss the event', () => {
  const events = new PoolEvents();
  const heard: string[] = [];
  const second = (): void => void heard.push('second');
  events.on('warning', () => events.off('warning', second));
  events.on('warning', second).on('warning', () => heard.push('third'));
  events.emit('warning', { code: 'x', message: 'x' });
  assert.deepEqual(heard, ['second', 'third']);
});

test('an error of a listener is thrown later and not into the emitter', (context) => {
  const later: (() => void)[] = [];
  context.mock.method(globalThis, 'queueMicrotask', (act: () => void) => later.push(act));
  const events = new PoolEvents();
  let heard = 0;
  events.on('drain', () => {
    throw new Error('mine');
  });
  events.on('drain', () => (heard += 1));
  events.emit('drain', { queueSize: 0, maxQueueSize: 1 });
  assert.equal(heard, 1);
  assert.equal(later.length, 1);
  assert.throws(() => later[0](), /^Error: mine$/);
});

test('unknown events, listeners that are none, and too many of them are refused in words', () => {
  const events = new PoolEvents();
  assert.throws(() => events.on('scale' as never, () => {}), {
    name: 'TypeError', message: /^event: expected one of scale-up, .*warning, got "scale"$/,
  });
  assert.throws(() => events.on('drain', 3 as never), /listener of "drain": expected a function, got number/);
  const many = new Emitter<{ x: number }>(['x']);
  for (let count = 0; count < LISTENERS_MAX; count++) many.on('x', () => {});
  assert.throws(() => many.on('x', () => {}), /1000 of 1000 listeners are there; take some away with off\(\)/);
});
