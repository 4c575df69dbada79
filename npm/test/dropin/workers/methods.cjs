// A worker script as a user writes it, with one method for each thing that can happen to a task.
//
// CommonJS on purpose: most scripts that were written for workerpool are, and they must work with one changed name.

const workerpool = require('millpond/workerpool');

let calls = 0;

workerpool.worker({
  add: (a, b) => a + b,
  echo: (value) => value,
  sleep: (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value)),
  block: (ms) => {
    const until = Date.now() + ms;
    while (Date.now() < until);
    return ms;
  },
  count: () => ++calls,
  pid: () => process.pid,
  env: (name) => process.env[name],
  args: () => process.argv.slice(2),
  forever: () => {
    workerpool.workerEmit('running');
    for (;;);
  },
  never: () => {
    workerpool.workerEmit('running');
    return new Promise(() => {});
  },
  exit: (code) => process.exit(code),
  crashSoon: () => {
    setTimeout(() => {
      throw new Error('thrown in a timer');
    });
    return new Promise(() => {});
  },
  fail: (message, fields) => {
    throw Object.assign(new TypeError(message), fields);
  },
  failLater: async (message) => {
    throw new RangeError(message);
  },
  failWith: (kind) => {
    const cycle = { message: 'in a circle' };
    cycle.self = cycle;
    const json = { toJSON: () => ({ message: 'as json', code: 4 }) };
    const thrown = { text: 'plain text', nothing: undefined, nil: null, number: 7, cycle, json };
    throw thrown[kind];
  },
  unclonable: () => () => {},
  unclonableLater: async () => () => {},
  emit: (payloads) => {
    for (const payload of payloads) workerpool.workerEmit(payload);
    return payloads.length;
  },
  emitBuffer(size) {
    const bytes = new Uint8Array(size);
    workerpool.workerEmit(new workerpool.Transfer(bytes, [bytes.buffer]));
    return bytes.byteLength;
  },
  emitByThis(payload) {
    this.worker.emit(payload);
    return true;
  },
  print: (out, err) => {
    console.log(out);
    console.error(err);
    return new Promise((resolve) => setTimeout(resolve, 50, 'printed'));
  },
  bytesOf: (array) => array.byteLength,
  give: (size) => {
    const bytes = new Uint8Array(size).fill(7);
    return new workerpool.Transfer(bytes, [bytes.buffer]);
  },
  giveLater: async (size) => {
    const bytes = new Uint8Array(size).fill(8);
    return new workerpool.Transfer(bytes, [bytes.buffer]);
  },
  abortable(how) {
    return new Promise((resolve) => {
      this.worker.addAbortListener(() => {
        workerpool.workerEmit({ aborted: how });
        if (how === 'resolves') return resolve('late');
        if (how === 'rejects') return Promise.reject(new Error('cannot clean up'));
        if (how === 'throws') throw new Error('cannot even begin');
        if (how === 'hangs') return new Promise(() => {});
        return Promise.resolve();
      });
    });
  },
  isMainThread: () => workerpool.isMainThread,
}, { abortListenerTimeout: 200 });
