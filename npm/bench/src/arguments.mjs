// What the user asked for: options and group prefixes, checked before anything runs.
// The words are those of the project's other benches, as far as they mean the same here.

export const HELP = `\
Compares millpond with workerpool, piscina, poolifier and tinypool, side by side in one interleaved run.

Usage: node npm/bench/run.mjs [OPTIONS] [GROUP-PREFIX...]

A prefix chooses every group whose name begins with it; \`=NAME\` chooses the group NAME alone.
Without a prefix every group is run.

Options:
  --quick        shorter rounds, and less than 4 minutes in all on a machine that is not busy
  --rounds N     measure N rounds, however long it takes (default: up to 9 within 40 s a group)
  --peers LIST   only rows that begin with one of these, with commas between
  --json         print the figures as a JSON array, and the tables on standard error
  --json=PATH    write the JSON array to a file beside the tables
  --list         name the groups and their peers, and stop
  --help         print this, and stop

Rows: \`millpond\` is ours; \`~\` marks a floor that does less than a pool does. The ratio is to the best row that is
neither: 8.00 does eight times as much, or where lower is better takes eight times as long.
\`cpu_us\` is the processor time of all threads for one task.

Examples:
  node npm/bench/run.mjs --quick                        every question, in less than 4 minutes
  node npm/bench/run.mjs --quick tiny one-at-a-time     what a pool costs, and how fast it answers
  node npm/bench/run.mjs --peers millpond,~ tiny-1      ours beside the floors
`;

const QUICK = { rounds: 7, roundMs: 120, warmUpMs: 400, groupMsMax: 14_000 };
const FULL = { rounds: 9, roundMs: 250, warmUpMs: 800, groupMsMax: 32_000 };

/** `{ wish: 'help' | 'list' }` or `{ wish: 'measure', words, plan, json }`, where json is a path, true or false. */
export function parse(argv) {
  let [wish, quick, json, rounds] = ['measure', false, false, undefined];
  const [words, peers] = [[], []];
  const rest = [...argv];
  while (rest.length > 0) {
    const word = rest.shift();
    const cut = word.startsWith('--') ? word.indexOf('=') : -1;
    const name = cut < 0 ? word : word.slice(0, cut);
    const attached = cut < 0 ? undefined : word.slice(cut + 1);
    const value = (what) => {
      const given = attached ?? rest.shift();
      if (given === undefined || given === '') {
        throw new Error(`${name}: expected ${what}, got nothing`);
      }
      return given;
    };
    if (attached !== undefined && ['--help', '--list', '--quick'].includes(name)) {
      throw new Error(`${name}: expected no value, got "${attached}"`);
    }
    if (name === '--help' || name === '-h') {
      return { wish: 'help' };
    } else if (name === '--list') {
      wish = 'list';
    } else if (name === '--quick') {
      quick = true;
    } else if (name === '--rounds') {
      rounds = roundCount(value('a number of rounds'));
    } else if (name === '--peers') {
      peers.push(...value('names of rows').split(','));
    } else if (name === '--json') {
      json = attached === undefined ? true : value('a path');
    } else if (name.startsWith('-')) {
      throw new Error(`${name}: no such option; --help lists them`);
    } else {
      words.push(word);
    }
  }
  const plan = { ...(quick ? QUICK : FULL), peers };
  return { wish, words, json, plan: rounds ? { ...plan, rounds, groupMsMax: Infinity } : plan };
}

function roundCount(text) {
  const rounds = Number(text);
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > 1000) {
    throw new Error(`--rounds: expected a whole number from 1 to 1000, got "${text}"`);
  }
  return rounds;
}
