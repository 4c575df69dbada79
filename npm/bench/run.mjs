// How fast is millpond next to the other worker pools of npm, on this machine, in this hour?
//
// One command answers: `node npm/bench/run.mjs --quick`. Every round of a group runs each peer once, each in a process
// of its own; the table shows medians over the rounds and the ratio to the fastest peer. Every result is checked.
//
// Not here: what is measured (`src/groups.mjs`, `src/loads.mjs`), how the peers are called (`peers/`).

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { HELP, parse } from './src/arguments.mjs';
import { conduct } from './src/conduct.mjs';
import { chosenGroups, groups } from './src/groups.mjs';
import { json, listing, table } from './src/report.mjs';
import { stepsPerMillisecond } from './workers/grind.mjs';

try {
  await main();
} catch (error) {
  process.stderr.write(`bench: ${error.message}\n`);
  process.exitCode = 1;
}

async function main() {
  const asked = parse(process.argv.slice(2));
  if (asked.wish !== 'measure') {
    process.stdout.write(asked.wish === 'help' ? HELP : listing(groups));
    return;
  }
  const chosen = chosenGroups(asked.words);
  const tell = asked.json === true ? process.stderr : process.stdout;
  tell.write(`${conditions(asked.plan)}\n`);
  const plan = { ...asked.plan, steps: stepsPerMillisecond() };
  const rows = [];
  for (const group of chosen) {
    const measured = await conduct(group, plan, progress);
    progress('');
    tell.write(`\n${table(group, measured.rows, measured.absent)}`);
    rows.push(...measured.rows);
  }
  if (asked.json === true) {
    process.stdout.write(json(rows));
  } else if (asked.json) {
    writeFileSync(asked.json, json(rows));
  }
}

/** One line that is written over, and nothing where nobody watches. */
function progress(text) {
  if (process.stderr.isTTY) {
    process.stderr.write(`\r\x1b[K${text}`);
  }
}

/** What a quoted number must be quoted with: commit, machine, load, and the versions of all that took part. */
function conditions(plan) {
  const [load] = loadavg();
  const versions = ['workerpool', 'piscina', 'poolifier', 'tinypool'].map((name) => `${name} ${versionOf(name)}`);
  return [
    `commit ${commit()}, ${cpus()[0]?.model ?? process.arch}, ${availableParallelism()} cores, load ${load.toFixed(2)}`,
    `node ${process.versions.node}, ${versions.join(', ')}`,
    `at most ${plan.rounds} rounds of ${plan.roundMs} ms`,
  ].join('\n');
}

function commit() {
  try {
    const options = { cwd: import.meta.dirname, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
    return execFileSync('git', ['describe', '--always', '--dirty'], options).trim();
  } catch {
    return 'unknown';
  }
}

function versionOf(name) {
  try {
    return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
  } catch {
    throw new Error(`${name} is not installed; run npm ci in npm/bench first`);
  }
}
