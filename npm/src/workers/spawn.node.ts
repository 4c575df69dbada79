// How workers are started in Node: threads, child processes, and web workers where the runtime has them.
//
// 'auto' and every word that is not known mean threads, as in workerpool. Options are guarded just before use. A child
// gets --inspect with a port of its own when the parent is being debugged, and the parent's heap limit.

import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker as Thread } from 'node:worker_threads';
import { defaultWorkerPath, defaultWorkerSource } from '../embedded.node.ts';
import { FORK_OPTION_NAMES, guardOptions, THREAD_OPTION_NAMES } from './option-guard.ts';
import { spawnWeb } from './spawn-web.ts';
import type { RawWorker, SpawnOptions } from './spawn.ts';

/** The kind of worker that a `workerType` means here. */
export function workerKind(workerType: string): 'thread' | 'process' | 'web' {
  return workerType === 'process' || workerType === 'web' ? workerType : 'thread';
}

/** The script of a pool that was given none; '' if its file is not there, and its text must do. */
export function defaultScript(): string {
  const path = defaultWorkerPath();
  return path !== undefined && existsSync(path) ? path : '';
}

export function spawnWorker(script: string, options: SpawnOptions): RawWorker {
  const kind = workerKind(options.workerType);
  if (kind === 'web') return spawnWeb(script, options);
  return kind === 'process' ? spawnProcess(script, options) : spawnThread(script, options);
}

function spawnThread(script: string, options: SpawnOptions): RawWorker {
  guardOptions(options.workerThreadOpts, THREAD_OPTION_NAMES, 'workerThreadOpts');
  const settings = {
    stdout: options.emitStdStreams,
    stderr: options.emitStdStreams,
    ...options.workerThreadOpts,
  };
  const isUrl = script.startsWith('file:') || script.startsWith('data:');
  // A bundler may have left the file of the default worker behind: then it is started from the text.
  const thread = (script === ''
    ? new Thread(defaultWorkerSource(), { ...settings, eval: true })
    : new Thread(isUrl ? new URL(script) : script, settings)) as Thread & RawWorker;
  thread.isWorkerThread = true;
  thread.send = thread.postMessage as RawWorker['send'];
  thread.kill = () => {
    void thread.terminate();
    return true;
  };
  (thread as { disconnect?: () => void }).disconnect = () => void thread.terminate();
  if (options.emitStdStreams) passStreams(thread);
  return thread;
}

function spawnProcess(script: string, options: SpawnOptions): RawWorker {
  if (script === '') {
    throw new Error("workerType 'process': expected the file of the default worker, found none; give a script");
  }
  guardOptions(options.forkOpts, FORK_OPTION_NAMES, 'forkOpts');
  const forkOptions: Record<string, any> = {
    ...options.forkOpts,
    execArgv: [...(options.forkOpts?.execArgv ?? []), ...debugFlags(options.debugPort)],
  };
  if (options.emitStdStreams) forkOptions.stdio = 'pipe';
  const path = script.startsWith('file:') ? fileURLToPath(script) : script;
  const child = fork(path, [...(options.forkArgs ?? [])], forkOptions) as unknown as RawWorker;
  const send = child.send;
  // A process cannot be handed anything over: the list is left out, the values are copied.
  child.send = (message) => send.call(child, message);
  child.isChildProcess = true;
  if (options.emitStdStreams) passStreams(child);
  return child;
}

function passStreams(worker: any): void {
  for (const name of ['stdout', 'stderr']) {
    worker[name]?.on('data', (data: unknown) => worker.emit(name, data));
  }
}

function debugFlags(port: number | undefined): string[] {
  const inspected = process.execArgv.some((flag) => flag.includes('--inspect'));
  const breaks = process.execArgv.some((flag) => flag.includes('--debug-brk'));
  const flags = process.execArgv.filter((flag) => flag.includes('--max-old-space-size'));
  if (inspected) flags.unshift(`--inspect=${port}`, ...(breaks ? ['--debug-brk'] : []));
  return flags;
}
