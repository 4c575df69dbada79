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
  workers_len: Ask;
  workers_add: Ask;
  workers_remove: Give;
  workers_came: Give;
  workers_gone: Give;
  workers_state: Give;
  workers_load: Give;
  workers_completed: Give;
  workers_run_time: Give;
  workers_utilisation: Give;
  workers_weight: Give;
  workers_idle_since: Give;
  workers_queued: Give;
  workers_unqueued: Give;
  workers_started: Give;
  workers_finished: Give;
  workers_row: Ask;
  choose_use: Ask;
  choose: (now: number, expected: number) => number;
  choose_and_queue: (now: number, expected: number) => number;
  choose_reason: Ask;
  choose_reset: Give;
  steal_configure: Ask;
  steal_decide: Ask;
  steal_take: Ask;
  steal_reason: Ask;
  steal_came_back_empty: Give;
  scale_configure: Ask;
  scale_decide: Ask;
  scale_sample: Ask;
  scale_reason: Ask;
  admit_configure: Ask;
  admit_decide: Ask;
  admit_wait: Ask;
  affinity_configure: Ask;
  affinity_add: Ask;
  affinity_remove: Ask;
  affinity_hash: Ask;
  affinity_key: Give;
  affinity_mix: Ask;
  affinity_key_high: Ask;
  affinity_owner: Ask;
  affinity_preference: Ask;
  affinity_route: Ask;
  affinity_was_hit: Ask;
  affinity_bind: Give;
  affinity_forget: Ask;
  affinity_counts: Give;
  histogram_new: Ask;
  histogram_drop: Give;
  histogram_record: Give;
  histogram_record_exact: Give;
  histogram_merge: Ask;
  histogram_clear: Give;
  histogram_read: Ask;
  histogram_quantile: Ask;
  histogram_cumulative: Ask;
  histogram_bucket: Ask;
}

/** The functions that a module must have. */
export const FUNCTIONS: readonly Exclude<keyof PolicyExports, 'memory'>[] = [
  'version', 'slate_at', 'workers_len', 'workers_add', 'workers_remove', 'workers_came', 'workers_gone',
  'workers_state', 'workers_load',
  'workers_completed', 'workers_run_time', 'workers_utilisation', 'workers_weight', 'workers_idle_since',
  'workers_queued', 'workers_unqueued', 'workers_started', 'workers_finished', 'workers_row', 'choose_use', 'choose',
  'choose_and_queue', 'choose_reason', 'choose_reset',
  'steal_configure', 'steal_decide', 'steal_take', 'steal_reason', 'steal_came_back_empty', 'scale_configure',
  'scale_decide', 'scale_sample', 'scale_reason', 'admit_configure', 'admit_decide', 'admit_wait',
  'affinity_configure', 'affinity_add', 'affinity_remove', 'affinity_hash', 'affinity_key', 'affinity_mix',
  'affinity_key_high', 'affinity_owner', 'affinity_preference', 'affinity_route', 'affinity_was_hit',
  'affinity_bind', 'affinity_forget', 'affinity_counts', 'histogram_new', 'histogram_drop', 'histogram_record',
  'histogram_record_exact', 'histogram_merge', 'histogram_clear', 'histogram_read', 'histogram_quantile',
  'histogram_cumulative', 'histogram_bucket',
];

/** The release of the functions that this package speaks. */
export const VERSION = 1;
