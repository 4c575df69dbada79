// The brain has a limit for everything it keeps; what goes beyond one is refused with this error.
//
// Limits: 4096 workers, 256 histograms, 65 536 bytes of a key, and 64 MB of memory, which is what a large table of
// sticky keys or a ring with many points may reach.

export class BrainFull extends RangeError {
  override readonly name = 'BrainFull';
}

export const MEMORY_REMEDY = 'the 64 MB of a brain do not suffice';
