// How fair a comparison is: rounds that alternate between the peers, each peer in a process of its own.
//
// Each round runs every peer once, in an order that moves on by one from round to round, so that a noisy moment hurts
// all alike. Where a figure must not depend on the past (memory, start), every measurement has a fresh process;
// otherwise a process lives as long as its group, is warmed up first, and rests while others run.
// A wrong answer ends the bench. A peer that cannot start or does not answer in time is named, and left out.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { isOurs, peers } from './peers.mjs';
import { bestFirst, rowOf } from './statistics.mjs';

const CHILD = fileURLToPath(new URL('child.mjs', import.meta.url));
const ANSWER_MS_MAX = 15_000;
/** Fewer rounds than this have no middle; but a group that is late by so much more stops after any. */
const ROUNDS_MIN = 3;
const LATE = 1.3;

/** A round that gave something wrong, as opposed to nothing: never to be left out of a table. */
class WrongAnswer extends Error {}

/** Runs a group; gives its rows, best first, and who could not be measured and why. */
export async function conduct(group, plan, progress) {
  const team = new Map();
  const absent = [];
  const begun = performance.now();
  const drop = (peer, error) => {
    team.get(peer)?.samples.splice(0);
    team.get(peer)?.end();
    team.delete(peer);
    if (isOurs(peer) || error instanceof WrongAnswer) {
      throw new Error(`${group.name}: ${peer}: ${error.message}`);
    }
    absent.push({ peer, reason: error.message });
  };
  const each = async (order, step, act) => {
    for (const peer of order) {
      progress(`${group.name}: ${step}: ${peer}`);
      try {
        await act(peer);
      } catch (error) {
        drop(peer, error);
      }
    }
  };
  try {
    const wanted = (peer) => plan.peers.length === 0 || plan.peers.some((word) => peer.startsWith(word));
    const contestant = group.load === 'size' ? sized : group.load === 'start' ? started : kept;
    const join = async (peer) => team.set(peer, await contestant(group, peer, plan));
    const measure = async (peer) => team.get(peer).samples.push(await team.get(peer).round());
    await each(group.peers.filter(wanted), 'warming up', join);
    for (let turn = 0; turn < Math.min(plan.rounds, group.roundsMax ?? Infinity); turn += 1) {
      const late = (performance.now() - begun) / plan.groupMsMax;
      if (late > 1 && (turn >= ROUNDS_MIN || (turn > 0 && late > LATE))) {
        break;
      }
      const present = [...team.keys()];
      const order = present.map((_, step) => present[(turn + step) % present.length]);
      await each(order, `round ${turn + 1}`, measure);
    }
    const rows = [...team].filter(([, { samples }]) => samples.length > 0);
    return { rows: bestFirst(rows.map(([peer, { samples }]) => rowOf(group, peer, samples))), absent };
  } finally {
    team.forEach(({ end }) => end());
  }
}

function jobOf(group, peer, plan, workers) {
  const { load, method, inFlight, pauseMs, bytes } = group;
  const roundMs = plan.roundMs;
  const { module } = peers[peer];
  const tuning = peers[peer].tuning({ workers, inFlight });
  return { module, load, method, inFlight, pauseMs, bytes, roundMs, workers, tuning, steps: plan.steps };
}

/** A peer whose process is kept through the group, and warmed up. */
async function kept(group, peer, plan) {
  const child = spawn();
  try {
    await child.ask(jobOf(group, peer, plan, group.workers));
    for (const begun = performance.now(); performance.now() - begun < plan.warmUpMs;) {
      await child.ask({});
    }
  } catch (error) {
    child.end();
    throw error;
  }
  return { samples: [], round: () => child.ask({}), end: child.end };
}

/** A peer that gets a fresh process for every round. */
async function started(group, peer, plan) {
  return { samples: [], round: () => once(jobOf(group, peer, plan, group.workers)), end: () => {} };
}

/** Three fresh processes a round: without workers, with few, with many. */
async function sized(group, peer, plan) {
  const round = async () => {
    const [none, few, many] = [
      await once(jobOf(group, peer, plan, 0)),
      await once(jobOf(group, peer, plan, group.workersFew)),
      await once(jobOf(group, peer, plan, group.workersMany)),
    ].map(({ main }) => main);
    return { main: (many - few) / (group.workersMany - group.workersFew), beside: { first_mb: few - none } };
  };
  return { samples: [], round, end: () => {} };
}

async function once(job) {
  const child = spawn();
  try {
    return await child.ask(job);
  } finally {
    child.end();
  }
}

/** A process, as a function that asks it something and waits for the answer at most so long. */
function spawn() {
  const child = fork(CHILD, [], {
    execArgv: ['--expose-gc'], serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let settle = () => {};
  let said = '';
  child.stderr.on('data', (chunk) => {
    said = (said + chunk).slice(-2000);
  });
  child.on('message', (message) => settle(message));
  child.on('exit', (code, signal) => settle({ gone: `its process ended with ${signal ?? code}: ${lastLine(said)}` }));
  const ask = (message) => new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle({ gone: `no answer within ${ANSWER_MS_MAX / 1000} s` }), ANSWER_MS_MAX);
    settle = (answer) => {
      clearTimeout(timer);
      settle = () => {};
      if (answer.gone) {
        reject(new Error(answer.gone));
      } else if (answer.error) {
        reject(answer.error.includes('a wrong answer') ? new WrongAnswer(answer.error) : new Error(answer.error));
      } else {
        resolve(answer);
      }
    };
    child.send(message, (error) => error && settle({ gone: error.message }));
  });
  return { ask, end: () => child.kill('SIGKILL') };
}

function lastLine(text) {
  return text.trim().split('\n').findLast((line) => /error/i.test(line)) ?? 'it said nothing';
}
