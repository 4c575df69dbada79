// Mistakes that the types must find. Each is marked; one that is not found makes its mark an error.
//
// Only what the types can know is here: a method's name is a string, and its arguments are the worker's affair.

import { pool, Transfer, worker } from 'millpond';
import { connect } from 'millpond/client';
import workerpool from 'millpond/workerpool';

// @ts-expect-error no such strategy
pool({ workerChoiceStrategy: 'most-busy' });
// @ts-expect-error a number or 'max'
pool({ minWorkers: 'min' });
// @ts-expect-error no such policy
pool({ backPressure: 'panic' });
// @ts-expect-error an unknown field of a group
pool({ scaling: { scaleUpThresold: 2 } });
// @ts-expect-error no such way to travel
pool({ transport: 'pigeon' });

const workers = pool();
// @ts-expect-error arguments come in an array
workers.exec((a: number) => a, 1);
// @ts-expect-error of the right kind
workers.exec((a: number) => a, ['one']);
// @ts-expect-error a method is a name or a function
workers.exec(42);
// @ts-expect-error priorities are numbers
workers.exec('add', [], { priority: 'high' });
// @ts-expect-error no such event
workers.on('scale-sideways', () => undefined);
// @ts-expect-error what comes back is what the function returns
export const text: Promise<string> = workers.exec(() => 1).then((value) => value);
// @ts-expect-error force is a boolean
workers.terminate('now');

// @ts-expect-error methods are functions
worker({ add: 1 });
// @ts-expect-error a transfer has a list
new Transfer(new ArrayBuffer(1), new ArrayBuffer(1));

const client = connect();
// @ts-expect-error a handler or an opcode
client.submit({ args: {} });
// @ts-expect-error not both
client.submit({ handler: 'echo', opcode: 3 });
// @ts-expect-error arguments are an object
client.call('echo', 'text');
// @ts-expect-error no such option
connect({ adress: 'http://localhost' });

// @ts-expect-error nine names, and this is none of them
workerpool.connect;
