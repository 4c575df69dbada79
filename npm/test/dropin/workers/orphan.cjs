// A child that registers only after its parent is gone, and has something that would keep it alive for ever.

const workerpool = require('millpond/workerpool');

setInterval(() => {}, 1000);
process.once('disconnect', () => workerpool.worker({ add: (a, b) => a + b }));
