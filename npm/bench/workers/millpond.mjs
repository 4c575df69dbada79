// millpond's worker: methods are registered under their names.
// A buffer goes back by transfer only if the pool was asked to (`bumpMoved`).

import { worker, Transfer } from 'millpond';
import { methods } from './methods.mjs';

worker({
  ...methods,
  bumpMoved(bytes) {
    methods.bump(bytes);
    return new Transfer(bytes, [bytes.buffer]);
  },
});
