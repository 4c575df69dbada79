// Which options may reach the constructors of workers, and why others may not.
//
// A worker starts a program, so an option that slips in from a polluted Object.prototype (`env`, `execArgv`) would run
// somebody else's code. Unknown names are refused, and known names that are only inherited as well. Checked when a
// worker is made, not when the pool is, as in workerpool; names and texts are workerpool's.

export const WORKER_OPTION_NAMES: readonly string[] = ['credentials', 'name', 'type'];

export const FORK_OPTION_NAMES: readonly string[] = [
  'cwd', 'detached', 'env', 'execPath', 'execArgv', 'gid', 'serialization', 'signal', 'killSignal', 'silent', 'stdio',
  'uid', 'windowsVerbatimArguments', 'timeout',
];

export const THREAD_OPTION_NAMES: readonly string[] = [
  'argv', 'env', 'eval', 'execArgv', 'stdin', 'stdout', 'stderr', 'workerData', 'trackUnmanagedFds', 'transferList',
  'resourceLimits', 'name',
];

export function guardOptions(options: object | null | undefined, allowed: readonly string[], name: string): void {
  if (!options) return;
  const given = Object.keys(options);
  const unknown = given.find((key) => !allowed.includes(key));
  if (unknown !== undefined) throw new Error(`Object "${name}" contains an unknown option "${unknown}"`);
  const base = Object.prototype as unknown as Record<string, unknown>;
  const inherited = allowed.find((key) => base[key] && !given.includes(key));
  if (inherited !== undefined) {
    throw new Error(
      `Object "${name}" contains an inherited option "${inherited}" which is not defined in the object itself but `
      + 'in its prototype. Only plain objects are allowed. Please remove the option from the prototype or override '
      + 'it with a value "undefined".',
    );
  }
}
