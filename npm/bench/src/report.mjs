// How the figures look: a table for people, JSON for programs, in the form of the project's other benches.
// The ratio here is to the fastest rival, since the question is how far ahead of all peers the pool is.

import { isOurs, isRival } from './peers.mjs';
import { bestFirst } from './statistics.mjs';

/** One group's rows in aligned columns, best first; ours has an arrow. Who could not be measured stands at the foot. */
export function table(group, rows, absent) {
  const sorted = bestFirst(rows);
  const best = sorted.find((row) => isRival(row.peer));
  const names = (sorted[0]?.beside ?? []).map(([name]) => name.padStart(10)).join('');
  const heads = ['median', 'min', 'max'].map((head) => head.padStart(11)).join('');
  const rounds = sorted[0]?.rounds ?? 0;
  const lines = [
    `${group.name}: ${group.question}`,
    `  ${''.padEnd(22)}${heads}  spread   ratio${names}   ${group.unit}, ${group.better} is better, ${rounds} rounds`,
  ];
  for (const row of sorted) {
    const figures = [row.median, row.min, row.max].map((figure) => shown(figure).padStart(11)).join('');
    const spread = `${Math.round((100 * (row.max - row.min)) / row.median)}%`.padStart(8);
    const ratio = (best ? (row.median / best.median).toFixed(2) : '-').padStart(8);
    const beside = row.beside.map(([, figure]) => shown(figure).padStart(10)).join('');
    lines.push(`${isOurs(row.peer) ? '>' : ' '} ${row.peer.padEnd(22)}${figures}${spread}${ratio}${beside}`);
  }
  for (const { peer, reason } of absent) {
    lines.push(`  ${peer.padEnd(22)} not measured: ${reason}`);
  }
  return `${lines.join('\n')}\n`;
}

/** All rows as a JSON array of flat objects. */
export function json(rows) {
  const flat = rows.map(({ beside, ...row }) => ({
    ...row,
    median: rounded(row.median),
    min: rounded(row.min),
    max: rounded(row.max),
    ...Object.fromEntries(beside.map(([name, figure]) => [name, rounded(figure)])),
  }));
  return `${JSON.stringify(flat, null, 2)}\n`;
}

export function listing(groups) {
  const lines = groups.map(({ name, question, peers }) => [name.padEnd(20), question, peers.join(', ')]);
  return lines.map(([name, question, peers]) => `${name} ${question}\n${' '.repeat(21)}${peers}\n`).join('');
}

/** Two decimals, unless the figure is so large that they would mean nothing. */
function shown(figure) {
  return figure < 10_000 ? figure.toFixed(2) : figure.toFixed(0);
}

function rounded(figure) {
  return Math.round(figure * 1000) / 1000;
}
