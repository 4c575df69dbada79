// `millpond/client`: hands tasks to a running `millpond serve` and reads what becomes of them, in Node and in browsers.
//
// It shares no code with the pool of this package: whoever only talks to a daemon loads no workers and no WASM.

export { connect, type Client, type SignalOption, type WaitOptions } from './client.ts';
export type { BatchOptions } from './bulk.ts';
export { TASK_CODES, type TaskCode } from './codes.ts';
export { ClientError, ConnectionError, DaemonError, TaskError } from './errors.ts';
export type { FollowOptions } from './follow.ts';
export { DEFAULT_URL, type ConnectOptions } from './settings.ts';
export type * from './shapes.ts';
export type { Ticket } from './ticket.ts';
