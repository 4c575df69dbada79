// A worker that uses no library but speaks workerpool's messages, as scripts do that still import workerpool.

const { parentPort } = require('node:worker_threads');

parentPort.on('message', (message) => {
  if (message === '__workerpool-terminate__') return process.exit(0);
  if (message.method === 'add') {
    const [a, b] = message.params;
    parentPort.postMessage({ id: message.id, isEvent: true, payload: 'adding' });
    return parentPort.postMessage({ id: message.id, result: a + b, error: null });
  }
  parentPort.postMessage({ id: message.id, result: null, error: { message: `Unknown method "${message.method}"` } });
});
parentPort.postMessage('ready');
