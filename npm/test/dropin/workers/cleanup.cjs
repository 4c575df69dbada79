// A worker that has something to clean up before it ends, and tells through the port it was handed.

const { worker } = require('millpond/workerpool');

let port;

worker({
  open: (kind, given) => {
    port = given;
    port.kind = kind;
    return new Promise((resolve) => setTimeout(resolve, 20, 'opened'));
  },
}, {
  onTerminate: (code) => {
    const told = () => port.postMessage(code);
    if (port.kind === 'later') return new Promise((resolve) => setTimeout(() => resolve(told()), 20));
    if (port.kind === 'never') return new Promise(() => {});
    return told();
  },
});
