// The page's half: one task for each row of the picture, drawn in whichever order the rows come back.
// The rows are buffers that change hands, so nothing is copied.

import { pool } from '/millpond/index.js';

const canvas = document.querySelector('canvas');
const context = canvas.getContext('2d');
const workers = pool(new URL('worker.js', import.meta.url).href, { workerOpts: { type: 'module' } });

const started = performance.now();
const rows = Array.from({ length: canvas.height }, (_, y) => y);
await Promise.all(rows.map(async (y) => {
  const pixels = await workers.exec('row', [y, canvas.width, canvas.height]);
  context.putImageData(new ImageData(new Uint8ClampedArray(pixels), canvas.width, 1), 0, y);
}));
await workers.terminate();

const how = crossOriginIsolated ? 'through shared memory' : 'by messages';
document.querySelector('p').textContent = `${rows.length} rows ${how} in ${Math.round(performance.now() - started)} ms`;
