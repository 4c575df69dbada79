// Where this code runs: in Node, in its main thread or not, and on how many CPUs.
//
// A thread is not the main one, and neither is a process that was forked with a channel to its parent: in both, a
// script that serves as pool and worker at once must take the worker's branch.

import { cpus as listCpus } from 'node:os';
import { isMainThread as isFirstThread } from 'node:worker_threads';

export const platform: 'node' | 'browser' = 'node';

export const isMainThread: boolean = isFirstThread && !process.connected;

export const cpus: number = listCpus().length;
