// A worker that registers only after something asynchronous, and listens to its port for itself until then.

const { parentPort } = require('node:worker_threads');
const { worker } = require('millpond/workerpool');

let heard = 0;
if (parentPort) parentPort.on('message', () => (heard += 1));

setTimeout(() => {
  const before = heard;
  worker({ early: () => before });
}, 100);
