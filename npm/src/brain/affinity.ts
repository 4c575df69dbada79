// Which worker a key belongs to, so that tasks with the same key find what the last one left in the caches.
//
// A key is a text, which is hashed over its UTF-8; a number counts as the text of its digits; a bigint is taken as the
// hash itself. When workers come or go only their own keys move, and with `stickyForMs` a key that is in use stays
// where it is.

import type { PolicyExports } from './exports.ts';
import { BrainFull, MEMORY_REMEDY } from './full.ts';
import { longer, place, whole } from './setting.ts';
import type { Slate } from './slate.ts';

export const METHODS = ['rendezvous', 'ring'] as const;
export type AffinityMethod = (typeof METHODS)[number];
export type AffinityKey = string | number | bigint;

export interface AffinitySettings {
  /** How owners are found. Default `rendezvous`; a ring is faster from some dozens of workers on. */
  method?: AffinityMethod;
  /** Points of each worker on the ring, 1 to 10 000. Default 150. */
  virtualNodes?: number;
  /** Places on the ring at which a key looks, 1 to 16. Default 3. */
  probes?: number;
  /** For how long a key stays with the worker that had it last. Default: it belongs to its owner alone. */
  stickyForMs?: number | null;
  /** For how many keys that is remembered, 1 to 16 777 216; a million need 50 MB. Default 4096. */
  stickyKeysMax?: number;
}

export interface AffinityCounts {
  hits: number;
  misses: number;
  moved: number;
  evicted: number;
  /** From 0 to 1. */
  hitRate: number;
}

const KEY_BYTES_MAX = 65_536;
const PREFERENCE_MAX = 64;
const ID_MAX = 0x7fff_ffff;

export class Affinity {
  constructor(private readonly exports: PolicyExports, private readonly slate: Slate) {}

  /** Begins anew, without workers and keys. @throws BadSetting, or BrainFull; then everything stays as it was. */
  configure(settings: AffinitySettings): void {
    const { method = 'rendezvous', virtualNodes = 150, probes = 3 } = settings;
    const { stickyForMs = null, stickyKeysMax = 4096 } = settings;
    const number = place('affinity.method', METHODS, method);
    whole('affinity.virtual_nodes', virtualNodes, 1, 10_000);
    whole('affinity.probes', probes, 1, 16);
    whole('affinity.sticky_keys_max', stickyKeysMax, 1, 16_777_216);
    const life = stickyForMs === null ? -1 : longer('affinity.sticky_for', stickyForMs, 'none, or more than 0 s');
    if (this.exports.affinity_configure(number, virtualNodes, probes, life, stickyKeysMax) < 0) {
      throw new BrainFull(`affinity.sticky_keys_max: ${MEMORY_REMEDY} for ${stickyKeysMax} keys; choose fewer`);
    }
  }

  /** Adds a worker; false if it is there already. All own as many keys. */
  add(id: number): boolean {
    whole('worker id', id, 0, ID_MAX);
    const added = this.exports.affinity_add(id);
    if (added < 0) throw new BrainFull(`worker ${id}: ${MEMORY_REMEDY} for its points; choose fewer virtual_nodes`);
    return added === 1;
  }

  /** Takes a worker away, and says how many sticky keys were with it; -1 if it was not there. */
  remove(id: number, now: number): number {
    return this.exports.affinity_remove(id, now * 1e6);
  }

  /** The worker that a key belongs to, or -1. */
  owner(key: AffinityKey): number {
    return this.preference(key, 1)[0] ?? -1;
  }

  /** Those to whom the key would belong: the owner first, then who would follow if that one went. At most 64. */
  preference(key: AffinityKey, most: number): number[] {
    this.say(key);
    const count = this.exports.affinity_preference(Math.min(most, PREFERENCE_MAX));
    return Array.from({ length: count }, (_, at) => this.slate.whole(at));
  }

  /** The worker for a key: where it has been lately, if keys are sticky, or else its owner; -1 if there is nobody. */
  route(key: AffinityKey, now: number): number {
    this.say(key);
    return this.exports.affinity_route(now * 1e6);
  }

  /** Whether the last route was to where the key had been. */
  get hit(): boolean {
    return this.exports.affinity_was_hit() === 1;
  }

  /** The number that stands for a key. */
  hash(key: AffinityKey): bigint {
    const low = this.say(key) >>> 0;
    return BigInt(this.exports.affinity_key_high() >>> 0) << 32n | BigInt(low);
  }

  counts(): AffinityCounts {
    this.exports.affinity_counts();
    const [hits, misses, moved, evicted] = [0, 1, 2, 3].map((at) => this.slate.whole(at));
    // To four digits, as Rust says it.
    const hitRate = Math.floor((hits * 10_000) / (hits + misses || 1)) / 10_000;
    return { hits, misses, moved, evicted, hitRate };
  }

  /** Tells the module which key the next call is about; answers with its low half. */
  private say(key: AffinityKey): number {
    if (typeof key === 'bigint') {
      const low = Number(key & 0xffff_ffffn);
      this.exports.affinity_key(low, Number(key >> 32n & 0xffff_ffffn));
      return low;
    }
    const length = this.slate.writeText(String(key));
    if (length < 0) throw new BrainFull(`affinity key: expected at most ${KEY_BYTES_MAX} bytes of UTF-8, got more`);
    return this.exports.affinity_hash(length);
  }
}
