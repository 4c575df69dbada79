// What the module `policy.wasm` gives: its functions by name, with the types of their numbers.
//
// One table for both uses: TypeScript checks the calls by it, and `load.ts` checks a module by it before the first
// call. Times are nanoseconds; `low` and `high` are the halves of a number of 64 bits. crates/wasm-policy says what
// each does.

type Give = (...numbers: number[]) => void;
type Ask = (...numbers: number[]) => number;

export interface PolicyExports {
  memory: WebAssembly.Memory;
  version: Ask;
  slate_at: Ask;
  workers_add: Ask;
  workers_remove: Give;
  workers_came: Give;
  workers_gone: Give;
  workers_state: Give;
  workers_load: Give;
  workers_completed: Give;
  workers_run_time: Give;
  workers_utilisation: Give;
  choose_use: Ask;
  choose: (now: number, expected: number) => number;
  choose_reason: Ask;
  scale_configure: Ask;
  scale_decide: Ask;
  scale_reason: Ask;
  affinity_configure: Ask;
  affinity_add: Ask;
  affinity_remove: Ask;
  affinity_hash: Ask;
  affinity_key: Give;
  affinity_key_high: Ask;
  affinity_preference: Ask;
  affinity_route: Ask;
  affinity_was_hit: Ask;
  affinity_counts: Give;
  histogram_new: Ask;
  histogram_record: Give;
  histogram_record_exact: Give;
  histogram_read: Ask;
  histogram_cumulative: Ask;
}

/** The functions that a module must have. */
export const FUNCTIONS: readonly Exclude<keyof PolicyExports, 'memory'>[] = [
  'version', 'slate_at', 'workers_add', 'workers_remove', 'workers_came', 'workers_gone', 'workers_state',
  'workers_load', 'workers_completed', 'workers_run_time', 'workers_utilisation', 'choose_use', 'choose',
  'choose_reason', 'scale_configure', 'scale_decide', 'scale_reason', 'affinity_configure', 'affinity_add',
  'affinity_remove', 'affinity_hash', 'affinity_key', 'affinity_key_high', 'affinity_preference', 'affinity_route',
  'affinity_was_hit', 'affinity_counts', 'histogram_new', 'histogram_record', 'histogram_record_exact',
  'histogram_read', 'histogram_cumulative',
];

/** The release of the functions that this package speaks. */
export const VERSION = 1;
