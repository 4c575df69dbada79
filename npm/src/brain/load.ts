// The brain: one instance of the policy module, which decides for one pool.
//
// It is made from bytes or a compiled module that the platform layer hands over; nothing is fetched here. An instance
// has a memory of its own, so no SharedArrayBuffer is needed and a trap in one instance harms no other. Making one
// takes well under a millisecond once the module is compiled.
//
// Not here: stealing and admission, whose few rules are TypeScript's (`../stealing.ts`, `../admission.ts`).

import { Affinity } from './affinity.ts';
import { Chooser } from './choose.ts';
import { FUNCTIONS, VERSION } from './exports.ts';
import type { PolicyExports } from './exports.ts';
import { Histogram } from './histogram.ts';
import { Scaling } from './scale.ts';
import { Slate } from './slate.ts';
import { wholeWeights } from './weights.ts';
import { Workers } from './workers.ts';

export { BadSetting } from './setting.ts';
export { BrainFull } from './full.ts';

export type UnavailableCode = 'ERR_WASM_MISSING' | 'ERR_WASM_FORBIDDEN' | 'ERR_WASM_MODULE';

/** There is no brain to be had here: no WebAssembly, or it is forbidden, or the module is not ours. */
export class BrainUnavailable extends Error {
  override readonly name = 'BrainUnavailable';

  constructor(readonly code: UnavailableCode, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

export class Brain {
  readonly workers: Workers;
  readonly chooser: Chooser;
  readonly scaling: Scaling;
  readonly affinity: Affinity;
  /** For tests and for those who know the module: the bytes that both sides write on. */
  readonly slate: Slate;

  constructor(readonly exports: PolicyExports) {
    this.slate = new Slate(exports);
    this.workers = new Workers(exports);
    this.chooser = new Chooser(exports, this.slate);
    this.scaling = new Scaling(exports, this.slate);
    this.affinity = new Affinity(exports, this.slate);
  }

  /** A new histogram of times, which lives as long as the brain. There may be 256. */
  histogram(): Histogram {
    return new Histogram(this.exports, this.slate);
  }

  /** Small whole weights in the proportions of the given ones: `[0.5, 1, 1.5]` becomes `[1, 2, 3]`. */
  wholeWeights(weights: readonly number[]): number[] {
    return wholeWeights(weights);
  }

  /** What the instance takes of memory, in bytes. */
  get memoryBytes(): number {
    return this.exports.memory.buffer.byteLength;
  }
}

/**
 * Makes a brain, synchronously.
 *
 * @throws BrainUnavailable if there is no WebAssembly, if it may not be used here, or if this is no module of ours.
 */
export function loadBrain(wasm: BufferSource | WebAssembly.Module): Brain {
  if (typeof WebAssembly !== 'object') {
    throw new BrainUnavailable('ERR_WASM_MISSING', 'WebAssembly is missing here: use the pool without its brain');
  }
  let instance: WebAssembly.Instance;
  try {
    const module = wasm instanceof WebAssembly.Module ? wasm : new WebAssembly.Module(wasm);
    instance = new WebAssembly.Instance(module);
  } catch (error) {
    throw unavailable(error);
  }
  return new Brain(checked(instance.exports));
}

function unavailable(error: unknown): BrainUnavailable {
  const text = error instanceof Error ? error.message : String(error);
  // A page whose policy forbids compiling throws its own error; everything else is about the bytes.
  const isForbidden = /Content.Security.Policy|disallowed|blocked/i.test(text);
  const isModule = error instanceof WebAssembly.CompileError && !isForbidden;
  if (isModule || error instanceof WebAssembly.LinkError || error instanceof TypeError) {
    const message = `policy.wasm: expected the module of this release, got ${text}`;
    return new BrainUnavailable('ERR_WASM_MODULE', message, { cause: error });
  }
  const remedy = "allow 'wasm-unsafe-eval' in script-src, or use the pool without its brain";
  const message = `WebAssembly may not be used here (${text}): ${remedy}`;
  return new BrainUnavailable('ERR_WASM_FORBIDDEN', message, { cause: error });
}

function checked(exports: WebAssembly.Exports): PolicyExports {
  const missing = FUNCTIONS.find((name) => typeof exports[name] !== 'function');
  if (missing !== undefined || !(exports.memory instanceof WebAssembly.Memory)) {
    const text = `policy.wasm: expected the function ${missing ?? 'memory'}, got a module without it`;
    throw new BrainUnavailable('ERR_WASM_MODULE', `${text}; use the file of this release`);
  }
  const policy = exports as unknown as PolicyExports;
  const version = policy.version();
  if (version !== VERSION) {
    const text = `policy.wasm: expected version ${VERSION} of its functions, got ${version}`;
    throw new BrainUnavailable('ERR_WASM_MODULE', `${text}; use the file of this release`);
  }
  return policy;
}
