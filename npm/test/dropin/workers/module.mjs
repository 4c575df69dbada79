// A worker script that is an ES module, with the worker's half of the package alone.

import { worker } from 'millpond/worker';

worker({ add: (a, b) => a + b });
worker({ multiply: (a, b) => a * b });
