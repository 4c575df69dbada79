// The worker's half: computes one row of the picture and hands its buffer over.
// It imports only what a worker needs.

import { Transfer, worker } from '/millpond/worker.js';

worker({
  row(y, width, height) {
    const pixels = new Uint8ClampedArray(width * 4);
    for (let x = 0; x < width; x += 1) {
      const steps = escapes((x / width) * 3 - 2, (y / height) * 2 - 1);
      pixels.set([steps, steps * 2, steps * 4, 255], x * 4);
    }
    return new Transfer(pixels.buffer, [pixels.buffer]);
  },
});

function escapes(real, imaginary) {
  let [a, b, steps] = [0, 0, 0];
  while (a * a + b * b < 4 && steps < 255) {
    [a, b] = [a * a - b * b + real, 2 * a * b + imaginary];
    steps += 1;
  }
  return steps;
}
