// The process in which one peer is measured in one group, so that no peer's heap, timers or threads disturb another.
// It is told a job, opens the pool, and then runs one round for each message until it is ended.
//
// Not here: when a round is run (`conduct.mjs`), what is done in it (`loads.mjs`).

import { latency, makeTask, rate, size, start } from './loads.mjs';

process.once('message', async (job) => {
  try {
    await serve(job);
  } catch (error) {
    answer({ error: described(error) });
  }
});

async function serve(job) {
  const importPeer = () => import(`../peers/${job.module}.mjs`);
  if (job.load === 'start' || job.load === 'size') {
    answer(await (job.load === 'start' ? start : size)(importPeer, job));
    return;
  }
  const { open } = await importPeer();
  const call = await open(job);
  const task = makeTask(job);
  const load = job.load === 'rate' ? rate : latency;
  process.on('message', async () => {
    try {
      answer(await load(call, task, job));
    } catch (error) {
      answer({ error: described(error) });
    }
  });
  answer({ ready: true });
}

function answer(message) {
  // The conductor may be gone; then there is nobody to tell, and 'disconnect' ends this process.
  if (process.connected) {
    process.send(message);
  }
}

process.on('disconnect', () => process.exit(0));

function described(error) {
  return error instanceof Error ? error.message : String(error);
}
