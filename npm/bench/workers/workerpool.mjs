// workerpool's worker: methods are registered under their names.
// A buffer goes back by transfer only if the pool was asked to (`bumpMoved`).

import workerpool from 'workerpool';
import { methods } from './methods.mjs';

workerpool.worker({
  ...methods,
  bumpMoved(bytes) {
    methods.bump(bytes);
    return new workerpool.Transfer(bytes, [bytes.buffer]);
  },
});
