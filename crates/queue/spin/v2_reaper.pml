/* What is brought back from the dead, and by whom: the second half of v2_slots.pml, which includes it.
 *
 * A reaper sweeps while others work, and may be killed in its sweep. The judge is a reaper that cannot be killed:
 * it sweeps twice when everybody else has ended or died, and then asks whether anything was lost or leaked. The
 * steps, settings and mutants are listed at the head of v2_slots.pml.
 */

/* ---- what is brought back from the dead, by a reaper or by one that leaves ---- */

#ifdef MUTANT_ANY_OWNER
#define IS_DEAD(owner) ((owner) != 0 && gone != 0)
#else
#define IS_DEAD(owner) ((owner) != 0 && ((gone >> ((owner) - 1)) & 1))
#endif

#ifdef REQUEUE
#define IS_FORGIVEN (is_reaper && ATTEMPTS(seen) + 1 <= ATTEMPTS_MAX)
#else
#define IS_FORGIVEN false
#endif

inline take_from_dead(index) {
    if
    :: IS_FORGIVEN ->
        atomic { MAY_DIE; swap(index, seen, WORD(GENERATION(seen), ATTEMPTS(seen) + 1, 0, QUEUED)) }
        if
        :: done -> atomic { MAY_DIE; put_lane(index, done) }
        :: else
        fi
    :: else ->
        atomic { MAY_DIE; now = waiter[index] }
        if
        :: now == 0 ->
            atomic {
                MAY_DIE;
                swap(index, seen, WORD(GENERATION(seen), 0, 0, FREE));
                if :: done -> tell(index, WORKER_DIED, WAS_FAILED) :: else fi
            }
            if
            :: done -> atomic { MAY_DIE; put_spare(index) }
            :: else
            fi
        :: else ->
            atomic {
                MAY_DIE;
                swap(index, seen, BECOMES(seen, FAILED, 0));
                if :: done -> tell(index, WORKER_DIED, WAS_FAILED) :: else fi
            }
            if
            :: done ->
                atomic { MAY_DIE; now = waiter[index] }
                if
                :: now == 0 -> give_free(index, BECOMES(seen, FAILED, 0))
                :: else
                fi
            :: else
            fi
        fi;
        now = 0
    fi
}

inline bring_back(index) {
    atomic { MAY_DIE; seen = word[index] }
    atomic { MAY_DIE; who = waiter[index] }
    if
    :: STATE(seen) == ALLOC && IS_DEAD(OWNER(seen)) -> give_free(index, seen)
    :: else ->
#ifndef MUTANT_LEAVE_RUNNING
        if
        :: STATE(seen) == RUNNING && IS_DEAD(OWNER(seen)) -> take_from_dead(index)
        :: else
        fi;
#endif
        if
        :: IS_DEAD(who) && STATE(seen) != FREE && STATE(seen) != ALLOC -> forget(index, who)
        :: else -> free_if_alone(index)
        fi
    fi;
    atomic { seen = 0; who = 0; done = 0 }
}

inline bring_all_back() {
    k = 0;
    do
    :: k < SLOTS -> bring_back(k); k++
    :: else -> k = 0; break
    od
}

/* ---- a peer's record ---- */

/* The lock first, and let go of if the record has not been swept yet. */
inline attach() {
    atomic { lock[me] == 0; lock[me] = 1 }
    atomic {
        claim = record[me];
        if
        :: CLAIM_STATE(claim) != NOBODY -> lock[me] = 0; claim = 0; goto rest
        :: else
        fi
    }
    atomic {
        MAY_DIE;
        if
        :: record[me] == claim -> record[me] = ATTACHED(claim); claim = record[me]
        :: else -> lock[me] = 0; claim = 0; goto rest
        fi
    }
}

inline leave() {
    atomic { MAY_DIE; assert(record[me] == claim) }
    gone = 1 << me;
    bring_all_back();
    gone = 0;
    atomic { MAY_DIE; assert(record[me] == claim); record[me] = CLAIM(EPOCH(claim), NOBODY) }
    atomic { claim = 0; lock[me] = 0 }
}

/* ---- reapers, of whom the judge is the last ---- */

inline free_records() {
    do
    :: k < RECORDS ->
        if
        :: reaped[k] != 0 ->
            atomic {
                MAY_DIE;
                if
                :: record[k] == reaped[k] -> record[k] = CLAIM(EPOCH(reaped[k]), NOBODY)
                :: else
                fi;
                reaped[k] = 0; k++
            }
        :: else -> k++
        fi
    :: else -> k = 0; break
    od
}

/* Everybody has ended or died, and two sweeps were made: what is left is free or queued, and listed as such. */
inline judge() {
    d_step {
        do
        :: k < SLOTS ->
            now = 0; done = 0;
            do
            :: STATE(word[k]) == FREE && now < SPARE -> done = done || spare[now] == k + 1; now++
            :: STATE(word[k]) == QUEUED && now < LANE -> done = done || lane[now] == k + 1; now++
            :: else -> break
            od;
            /* A full lane is tried again by later sweeps. */
            assert(done || (STATE(word[k]) == QUEUED && lane_len == LANE));
            if
            :: STATE(word[k]) == QUEUED ->
                assert(fate[content[k]] == UNTOLD || fate[content[k]] == WORKER_DIED);
                /* The next worker to come would run it. */
                fate[content[k]] = RAN
            :: else
            fi;
            k++
        :: else -> break
        od;
        k = 1;
        do
        :: k <= TASKS ->
            assert(fate[k] != RUNS);
            assert(!accepted[k] || fate[k] == RAN || fate[k] == WAS_FAILED || fate[k] == WAS_CANCELLED);
            k++
        :: else -> break
        od
    }
}

proctype Reaper(byte me; bool is_mortal_too) {
    LOCALS;
    byte sweeps = SWEEPS;
    byte reaped[RECORDS];
    short states[SLOTS], unlisted[SLOTS];
    byte listed_spare, listed_lane;
    byte mine;

    is_mortal = is_mortal_too;
    is_reaper = true;
    if
    :: is_mortal -> skip
    :: else -> atomic { resting == PEERS; sweeps = 2 }
    fi;
    k = 0;
    do
    :: k < SLOTS -> unlisted[k] = -1; k++
    :: else -> k = 0; break
    od;

sweep:
    /* The role: read first, then asked about, then swapped. */
    atomic { MAY_DIE; mine = role }
#ifndef MUTANT_NO_ROLE
    atomic {
        MAY_DIE;
        if
        :: HOLDER(mine) != 0 && HOLDER(mine) != me + 1 && lock[HOLDER(mine) - 1] -> mine = 0; goto swept
        :: else
        fi
    }
#endif
    atomic {
        MAY_DIE;
        if
        :: role == mine -> role = ROLE(TAG(mine) + 1, me + 1); mine = role
        :: else -> mine = 0; goto swept
        fi
    }
    /* mark_dead: the record is read first, then asked about, then swapped. */
    do
    :: k < RECORDS && k != me ->
        atomic { MAY_DIE; reaped[k] = record[k] }
        if
        :: CLAIM_STATE(reaped[k]) == REAPED -> gone = gone | (1 << k)
        :: CLAIM_STATE(reaped[k]) == NOBODY -> skip
        :: CLAIM_STATE(reaped[k]) == LIVE ->
            atomic { MAY_DIE; done = !lock[k] }
            if
            :: done ->
                atomic {
                    MAY_DIE;
                    if
                    :: record[k] == reaped[k] ->
                        record[k] = CLAIM(EPOCH(reaped[k]), REAPED);
                        reaped[k] = record[k];
                        gone = gone | (1 << k)
                    :: else
                    fi
                }
            :: else
            fi
        fi;
        atomic {
            if
            :: gone & (1 << k)
            :: else -> reaped[k] = 0
            fi;
            done = 0;
            k++
        }
    :: k == me -> k++
    :: k == RECORDS -> k = 0; break
    od;
#ifdef MUTANT_BURY_FIRST
    free_records();
#endif
    bring_all_back();
#ifndef MUTANT_NO_RELIST
    /* relist: every state, then every place of every ring. */
    do
    :: k < SLOTS -> atomic { MAY_DIE; states[k] = word[k]; k++ }
    :: else -> k = 0; break
    od;
    do
    :: k < SPARE ->
        atomic {
            MAY_DIE;
            if :: spare[k] != 0 -> listed_spare = listed_spare | (1 << (spare[k] - 1)) :: else fi;
            k++
        }
    :: else -> k = 0; break
    od;
    do
    :: k < LANE ->
        atomic {
            MAY_DIE;
            if :: lane[k] != 0 -> listed_lane = listed_lane | (1 << (lane[k] - 1)) :: else fi;
            k++
        }
    :: else -> k = 0; break
    od;
    do
    :: k < SLOTS ->
        if
        :: ((STATE(states[k]) == FREE && !((listed_spare >> k) & 1))
            || (STATE(states[k]) == QUEUED && !((listed_lane >> k) & 1))) ->
            if
            :: unlisted[k] == states[k] ->
                atomic {
                    MAY_DIE;
                    if
                    :: STATE(states[k]) == FREE -> put_spare(k)
                    :: else -> put_lane(k, done)
                    fi;
                    unlisted[k] = -1; states[k] = 0; done = 0; k++
                }
            :: else -> atomic { unlisted[k] = states[k]; states[k] = 0; k++ }
            fi
        :: else -> atomic { unlisted[k] = -1; states[k] = 0; k++ }
        fi
    :: else -> atomic { k = 0; listed_spare = 0; listed_lane = 0; break }
    od;
#endif
#ifndef MUTANT_BURY_FIRST
    free_records();
#endif
    gone = 0;
    atomic {
        MAY_DIE;
        if
        :: role == mine -> role = ROLE(TAG(mine), 0)
        :: else
        fi;
        mine = 0;
        if :: !is_mortal -> done = 1 :: else fi
    }
swept:
    atomic {
        sweeps--;
        assert(is_mortal || done);
        done = 0;
        if
        :: sweeps > 0 -> goto sweep
        :: sweeps == 0 && is_mortal -> goto died
        :: else
        fi
    }
    judge();
    goto judged;

died:
    atomic {
        now = 0; who = 0; seen = 0; done = 0; k = 0; gone = 0; claim = 0; sweeps = 0; mine = 0;
        listed_spare = 0; listed_lane = 0;
        do
        :: k < RECORDS -> reaped[k] = 0; k++
        :: else -> k = 0; break
        od;
        do
        :: k < SLOTS -> states[k] = 0; unlisted[k] = 0; k++
        :: else -> k = 0; break
        od;
        resting++
    }
judged:
    skip
}
