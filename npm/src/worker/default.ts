// The worker of a pool that was given no script: it knows `run` and `methods`, and nothing else.
//
// Built into one file without imports, which Node loads from the package and browsers from a Blob.

import { worker } from './register.ts';

worker();
