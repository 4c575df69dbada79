/* The slots of wpol version 2 and the reaper, with peers that may die before any of their steps and come back.
 *
 * What is checked, of every interleaving:
 *   ownership  While a peer lives, nobody else changes what it fills, runs or holds a ticket for.
 *   once       A task starts once, or again only after its worker died and the policy says so; it ends once.
 *   no loss    A task whose submit returned ends by running, by being cancelled, or because its worker died.
 *   no leak    After everybody has ended or died, two sweeps leave every slot free or queued, and listed as such.
 *   progress   (with -DNP) No run goes on for ever: every call returns, whatever the others do.
 *
 * Each step is one atomic access of the code in ../src/wpol:
 *   step                           function
 *   take_spare                     v2_peer.rs   allocate: `pop_within` on the free ring
 *   look, FREE -> ALLOC            v2_slots.rs  take_free
 *   fill                           v2_peer.rs   fill: the completion word (`waiter`), then the payload (`content`)
 *   ALLOC -> QUEUED                v2_peer.rs   submit_with
 *   put_lane                       v2_peer.rs   submit_with: `push`; v2_reaper.rs list_again
 *   take_lane                      v2_peer.rs   start_some: `pop_batch`
 *   look, QUEUED -> RUNNING        v2_peer.rs   take_queued
 *   give_free                      v2_slots.rs  give_free: the state; then list_free: put_spare
 *   -> DONE or FREE, completed     v2_task.rs   end; v2_slots.rs complete
 *   forget, free_if_alone          v2_slots.rs  forget_submitter, free_if_alone
 *   labels cancel, poll, release   v2_ticket.rs, by the same names; what follows poll is `detach`
 *   attach, leave                  v2_record.rs take_record, free_record; v2_reaper.rs bury
 *   sweep: the role                v2_reaper.rs take_reaper_role, drop_reaper_role
 *   sweep: mark_dead, relist       v2_reaper.rs, by the same names; `scan` looks at one place a step
 *   bring_back, take_from_dead     v2_reaper.rs, by the same names
 *
 * A push or pop is one step here. v2_ring.pml shows that it may be: each takes effect at one swap, or not at all.
 * `lock` stands for the lock that a process holds outside of the region while it lives, which is what the reaper's
 * caller asks about. Not here: sleeping and waking, deadlines, batches of tasks, several lanes, poison, and memory
 * orders; loom and shuttle have models of those.
 *
 * Settings: SLOTS, LANE (its places), SUBMITTERS, WORKERS, REAPERS, LIVES (of submitters and workers), STARTS
 * (calls a worker makes in a life), SWEEPS (of a reaper), DEATHS, REQUEUE (the policy; otherwise a dead worker's
 * task fails), LEAVE (submitters leave in good order), CANCEL (tickets may be cancelled).
 *
 * Mutants, each of which must be found out:
 *   MUTANT_ANY_OWNER      the reaper takes from everybody once somebody died   a live peer loses its slot
 *   MUTANT_NO_EPOCH       a record's word is the same for every owner          one is reaped for another that left
 *   MUTANT_BURY_FIRST     the record is freed before its slots are             a newcomer's slot is taken from it
 *   MUTANT_NO_ROLE        any number of reapers sweep at a time                the same, by the slower reaper
 *   MUTANT_NO_RELIST      lost hints are not looked for                        a slot leaks
 *   MUTANT_LEAVE_RUNNING  tasks of dead workers are not looked for             a task is lost
 *   MUTANT_NO_GENERATION  a slot's word is the same for every task             an old look changes a new task
 *   MUTANT_READ_EARLY     the payload is read before the state                 a worker runs the task before
 *   MUTANT_BLIND_START    QUEUED -> RUNNING without comparing                  a task starts twice
 */

#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef LANE
#define LANE 2
#endif
#ifndef SUBMITTERS
#define SUBMITTERS 1
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef REAPERS
#define REAPERS 1
#endif
#ifndef LIVES
#define LIVES 1
#endif
#ifndef STARTS
#define STARTS 1
#endif
#ifndef SWEEPS
#define SWEEPS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef ATTEMPTS_MAX
#define ATTEMPTS_MAX 1
#endif

/* Twice the slots, rounded up: `v2_geometry.rs`. */
#define SPARE (2 * SLOTS)
#define NONE 255
/* The last record is that of the judge, who sweeps when everybody else is at rest. */
#define RECORDS (SUBMITTERS + WORKERS + REAPERS + 1)
#define PEERS (RECORDS - 1)
#define TASKS (SUBMITTERS * LIVES)

/* ---- the words ---- */

#define FREE 0
#define ALLOC 1
#define QUEUED 2
#define RUNNING 3
#define DONE 4
#define CANCELLED 5
#define FAILED 7
#define WORD(generation, attempts, owner, state) ((generation) * 256 + (attempts) * 64 + (owner) * 8 + (state))
#define STATE(word) ((word) % 8)
#define OWNER(word) (((word) / 8) % 8)
#define ATTEMPTS(word) (((word) / 64) % 4)
#define GENERATION(word) ((word) / 256)
#define IS_FINAL(word) (STATE(word) >= DONE)
#define BECOMES(word, state, owner) WORD(GENERATION(word), ATTEMPTS(word), owner, state)

#ifdef MUTANT_NO_GENERATION
#define TAKEN(word, owner) WORD(0, 0, owner, ALLOC)
#else
#define TAKEN(word, owner) WORD(GENERATION(word) + 1, 0, owner, ALLOC)
#endif

/* A record: an epoch, and nobody's, somebody's, or that of a dead one being swept. */
#define NOBODY 0
#define LIVE 1
#define REAPED 2
#define CLAIM(epoch, state) ((epoch) * 4 + (state))
#define CLAIM_STATE(claim) ((claim) % 4)
#define EPOCH(claim) ((claim) / 4)
#ifdef MUTANT_NO_EPOCH
#define ATTACHED(claim) CLAIM(0, LIVE)
#else
#define ATTACHED(claim) CLAIM(EPOCH(claim) + 1, LIVE)
#endif

/* The role: a tag that counts the takes, and the holder's record + 1. */
#define ROLE(tag, holder) ((tag) * 8 + (holder))
#define HOLDER(word) ((word) % 8)
#define TAG(word) ((word) / 8)

short word[SLOTS];
byte waiter[SLOTS];
byte content[SLOTS];
byte spare[SPARE], spare_first, spare_len;
byte lane[LANE], lane_first, lane_len;
byte record[RECORDS];
byte role;
bit lock[RECORDS];

/* What nobody can read. */
#define UNTOLD 0
#define RUNS 1
#define WORKER_DIED 2
#define RAN 3
#define WAS_FAILED 4
#define WAS_CANCELLED 5
#define WAS_REFUSED 6
byte fate[TASKS + 1];
bit accepted[TASKS + 1];
byte deaths, resting;

/* Before any step of a mortal, in the same breath as the step that is not taken. The kernel drops the lock. A peer
 * that runs nothing holds task 0, of which nothing is asked. */
#define MAY_DIE \
    if \
    :: deaths < DEATHS && is_mortal -> \
        d_step { deaths++; lock[me] = 0; fate[holds] = WORKER_DIED; holds = 0 } \
        goto died \
    :: true \
    fi

/* ---- rings: v2_ring.pml shows that each of these is one step ---- */

inline put_spare(index) {
    if
    :: spare_len < SPARE -> spare[(spare_first + spare_len) % SPARE] = index + 1; spare_len++
    :: else /* a sweep finds the slot */
    fi
}

inline put_lane(index, is_in) {
    if
    :: lane_len < LANE -> lane[(lane_first + lane_len) % LANE] = index + 1; lane_len++; is_in = 1
    :: else -> is_in = 0
    fi
}

inline take_spare(index) {
    if
    :: spare_len > 0 ->
        index = spare[spare_first] - 1;
        spare[spare_first] = 0;
        spare_first = (spare_first + 1) % SPARE;
        spare_len--
    :: else -> index = NONE
    fi
}

inline take_lane(index) {
    if
    :: lane_len > 0 ->
        index = lane[lane_first] - 1;
        lane[lane_first] = 0;
        lane_first = (lane_first + 1) % LANE;
        lane_len--
    :: else -> index = NONE
    fi
}

/* ---- slots ---- */

/* A swap of a slot's state word: `done` says whether it still was what was seen. */
inline swap(index, from, to) {
    if
    :: word[index] == from -> word[index] = to; done = 1
    :: else -> done = 0
    fi
}

inline give_free(index, from) {
    atomic { MAY_DIE; swap(index, from, BECOMES(WORD(GENERATION(from), 0, 0, 0), FREE, 0)) }
    if
    :: done -> atomic { MAY_DIE; put_spare(index) }
    :: else
    fi
}

/* After a final state was set. */
inline completed(index, last) {
    atomic { MAY_DIE; who = waiter[index] }
    if
    :: who == 0 -> give_free(index, last)
    :: else
    fi
}

inline free_if_alone(index) {
    atomic { MAY_DIE; seen = word[index] }
    if
    :: IS_FINAL(seen) ->
        atomic { MAY_DIE; who = waiter[index] }
        if
        :: who == 0 -> give_free(index, seen)
        :: else
        fi
    :: else
    fi
}

/* Takes `name` out of the completion word. Nobody else but its like changes the name, so one swap decides. */
inline forget(index, name) {
    atomic {
        MAY_DIE;
        if
        :: waiter[index] == name -> waiter[index] = 0
        :: else
        fi
    }
    free_if_alone(index)
}

/* What became of the task in a slot, told in the same breath as the swap that decides it. */
inline tell(index, before, now) {
    assert(fate[content[index]] == before);
    fate[content[index]] = now
}

#define LOCALS \
    bool is_mortal = true; bool is_reaper = false; bool done; \
    byte claim = ATTACHED(CLAIM(0, NOBODY)); byte holds, who, now, k, gone; short seen

#include "v2_reaper.pml"

/* ---- submitters ---- */

/* The slot of a ticket. Its holder lives, so it is there. */
inline find() {
    seen = word[index];
    assert(GENERATION(seen) == GENERATION(mine) && STATE(seen) != FREE)
}

proctype Submitter(byte me; byte task) {
    LOCALS;
    short mine;
    byte index;
    byte lives = LIVES;

submit:
    atomic { MAY_DIE; take_spare(index) }
    if
    :: index == NONE -> goto over
    :: else
    fi;
    atomic { MAY_DIE; seen = word[index] }
    if
    :: STATE(seen) != FREE -> goto submit
    :: else
    fi;
    atomic { MAY_DIE; mine = TAKEN(seen, me + 1); swap(index, seen, mine); seen = 0 }
    if
    :: !done -> mine = 0; goto submit
    :: else
    fi;
    /* Detached, or with a ticket. */
    atomic {
        MAY_DIE;
        assert(word[index] == mine);
        if :: waiter[index] = 0 :: waiter[index] = me + 1 fi;
        now = waiter[index]
    }
    atomic { MAY_DIE; assert(word[index] == mine); content[index] = task }
    atomic {
        MAY_DIE;
        swap(index, mine, BECOMES(mine, QUEUED, 0));
        assert(done);
        mine = BECOMES(mine, QUEUED, 0)
    }
    atomic { MAY_DIE; put_lane(index, done) }
    if
    :: done -> skip
    :: else ->
        /* No room: taken back, unless a sweep has announced it meanwhile. */
        atomic {
            MAY_DIE;
            swap(index, mine, WORD(GENERATION(mine), 0, 0, FREE));
            if :: done -> tell(index, UNTOLD, WAS_REFUSED) :: else fi
        }
        if
        :: done -> atomic { MAY_DIE; put_spare(index) }; goto over
        :: else
        fi
    fi;
    atomic { accepted[task] = 1; if :: now == 0 -> goto over :: else fi }

    /* The ticket: whoever holds it and lives finds its task. */
    if
#ifdef CANCEL
    :: goto cancel
#endif
    :: goto poll
    fi;
#ifdef CANCEL
cancel:
    atomic { MAY_DIE; find() }
    if
    :: STATE(seen) == QUEUED ->
        atomic {
            MAY_DIE;
            swap(index, seen, BECOMES(seen, CANCELLED, 0));
            if
            :: done ->
                assert(fate[task] == UNTOLD || fate[task] == WORKER_DIED);
                fate[task] = WAS_CANCELLED
            :: else
            fi
        }
        if
        :: !done -> goto cancel
        :: else
        fi;
        mine = BECOMES(seen, CANCELLED, 0);
        completed(index, mine);
        goto release
    :: else
    fi;
#endif
poll:
    atomic { MAY_DIE; find() }
    if
    :: IS_FINAL(seen) -> goto release
    :: else
    fi;
    /* `detach`: the completion word, the ticket, and then the name is taken out. */
    atomic { MAY_DIE; now = waiter[index]; assert(now == me + 1) }
    atomic { MAY_DIE; find() }
    forget(index, now);
    goto over;

release:
    atomic { MAY_DIE; find(); assert(IS_FINAL(seen)) }
    atomic {
        MAY_DIE;
        assert(STATE(seen) != DONE || fate[task] == RAN);
        assert(STATE(seen) != FAILED || fate[task] == WAS_FAILED);
        swap(index, seen, WORD(GENERATION(seen), 0, 0, FREE));
        assert(done)
    }
    atomic { MAY_DIE; put_spare(index) }

over:
    atomic { now = 0; who = 0; seen = 0; mine = 0; index = 0; done = 0 }
#ifdef LEAVE
    leave();
    goto another;
#else
    goto rest;
#endif

died:
    atomic { now = 0; who = 0; seen = 0; mine = 0; index = 0; done = 0; k = 0; gone = 0; claim = 0 }
another:
    atomic {
        lives--;
        if
        :: lives == 0 -> goto rest
        :: else -> task++
        fi
    }
    attach();
    goto submit;

rest:
    atomic {
        now = 0; who = 0; seen = 0; mine = 0; index = 0; done = 0; k = 0; gone = 0; claim = 0; lives = 0; task = 0;
        resting++
    }
}

/* ---- workers ---- */

proctype Worker(byte me) {
    LOCALS;
    byte index;
    byte lives = LIVES;
    byte starts = STARTS;
#ifdef MUTANT_READ_EARLY
    byte early;
#endif

start:
    atomic { MAY_DIE; take_lane(index) }
    if
    :: index == NONE -> goto over
    :: else
    fi;
#ifdef MUTANT_READ_EARLY
    atomic { MAY_DIE; early = content[index] }
#endif
    atomic { MAY_DIE; seen = word[index] }
    if
    :: STATE(seen) != QUEUED -> goto start
    :: else
    fi;
    atomic {
        MAY_DIE;
#ifdef MUTANT_BLIND_START
        seen = word[index];
#endif
        swap(index, seen, BECOMES(seen, RUNNING, me + 1));
        if
        :: done ->
            seen = word[index];
            holds = content[index];
            assert(holds != 0);
            assert(fate[holds] == UNTOLD || (ATTEMPTS(seen) > 0 && fate[holds] == WORKER_DIED));
            fate[holds] = RUNS
        :: else -> goto start
        fi
    }
    /* The payload, which is whole and stays as it is. */
#ifdef MUTANT_READ_EARLY
    assert(early == holds);
#endif
    atomic { MAY_DIE; assert(content[index] == holds && word[index] == seen) }
    /* `end`: at once free if nobody waits. */
    atomic { MAY_DIE; now = waiter[index] }
    if
    :: now == 0 ->
        atomic {
            MAY_DIE;
            swap(index, seen, WORD(GENERATION(seen), 0, 0, FREE));
            assert(done);
            tell(index, RUNS, RAN);
            holds = 0
        }
        atomic { MAY_DIE; put_spare(index) }
    :: else ->
        atomic {
            MAY_DIE;
            swap(index, seen, BECOMES(seen, DONE, 0));
            assert(done);
            tell(index, RUNS, RAN);
            holds = 0;
            seen = BECOMES(seen, DONE, 0)
        }
        completed(index, seen)
    fi;

over:
    atomic {
        now = 0; who = 0; seen = 0; index = 0; done = 0;
        starts--;
        if
        :: starts == 0 -> goto rest
        :: else -> goto start
        fi
    }

died:
    atomic {
        now = 0; who = 0; seen = 0; index = 0; done = 0; k = 0; gone = 0; claim = 0;
        lives--;
        if
        :: lives == 0 -> goto rest
        :: else -> starts = STARTS
        fi
    }
    attach();
    goto start;

rest:
    atomic {
        now = 0; who = 0; seen = 0; index = 0; done = 0; k = 0; gone = 0; claim = 0; lives = 0; starts = 0;
        resting++
    }
}

init {
    byte k;
    atomic {
        do
        :: k < SLOTS -> put_spare(k); k++
        :: else -> k = 0; break
        od;
        do
        :: k < RECORDS -> record[k] = ATTACHED(CLAIM(0, NOBODY)); lock[k] = 1; k++
        :: else -> k = 0; break
        od;
        do
        :: k < SUBMITTERS -> run Submitter(k, 1 + k * LIVES); k++
        :: else -> break
        od;
        do
        :: k < SUBMITTERS + WORKERS -> run Worker(k); k++
        :: else -> break
        od;
        do
        :: k < PEERS -> run Reaper(k, true); k++
        :: else -> break
        od;
        run Reaper(k, false);
        k = 0
    }
}
