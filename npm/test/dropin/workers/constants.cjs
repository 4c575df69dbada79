// A worker that registers a whole module: constants beside functions, and one function that cannot be changed.

const workerpool = require('millpond/workerpool');

workerpool.worker({
  version: '1.2.3',
  twice: (value) => value * 2,
  frozen: Object.freeze(() => 'frozen'),
  late(port) {
    const { worker } = this;
    setImmediate(() => {
      worker.addAbortListener(() => Promise.resolve());
      port.postMessage('added');
      port.close();
    });
    return 'over';
  },
});
