// The name under which a task with a trace context travels: [traceparent, method, params].
//
// Wrapped like this, no link needs a place for what few tasks have. In a file of its own, so that the worker's half
// needs nothing of the pool's.

export const TRACED = '__millpond-traced__';
