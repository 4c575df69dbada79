/* The ring of wpol version 2, with producers and consumers that may die before any of their steps.
 *
 * What is checked, of every interleaving:
 *   safety    The entries are a first-in-first-out queue, changed by the two swaps of an entry and by nothing
 *             else. Nothing is taken twice or out of turn, "full" and "empty" are exact, and no hint is ahead of
 *             the truth.
 *   progress  (with -DNP) No run goes on for ever without a call that returns: the ring is lock-free, and the dead
 *             stop nobody. To say "full" or "empty" is to return, since safety shows that it is said rightly.
 *             No fairness is assumed: a process may also stop without dying.
 *
 * Each step below is one atomic access of the code, all of it in ../src/wpol/v2_ring.rs:
 *   step                               functions                            access
 *   LOOK_HINT                          fill_next, empty_next, push_batch,   load of `tail` or `head`
 *                                      pop_batch
 *   seen = PLACE(at)                   the same four                        load of the entry, and `ahead`
 *   PLACE(at) = ..., went_in           fill_next, push_batch                CAS of the entry, empty to full
 *   PLACE(at) = ..., went_out          empty_next, pop_batch                CAS of the entry, full to empty
 *   advance, after one of these        push, pop_within: `advance`          CAS of the hint, result ignored
 *   advance, at the label help         `help`                               CAS of the hint, result ignored
 *   at++                               `step_over`                          none: a batch has a cursor of its own
 *   labels raise and raise_again       `raise`                              load of the hint, CAS of it
 *
 * A sequence and a slot index share one word here as there, so that one CAS changes both. Memory is sequentially
 * consistent; the orderings are loom's business. Not here: sequences that come round (unit tests start rings at
 * every age), the count of attempts (retry.rs), what an index stands for (v2_slots.pml).
 *
 * Settings: CAPACITY, PRODUCERS and CONSUMERS (one item at a time), BATCH_PRODUCERS and BATCH_CONSUMERS (two at a
 * time), ITEMS and TAKES (calls, of each), DEATHS, FOREVER (consumers go on asking).
 *
 * Mutants, each of which must be found out, the first two by progress alone:
 *   MUTANT_TWO_STEPS        claim by moving the tail, publish afterwards    a death in between stops everybody
 *   MUTANT_HELP_ONE         help only when the hint is one step behind      a live-lock behind the dead
 *   MUTANT_HINTS_ARE_TRUTH  "empty" is head = tail                          "empty" is said beside an item
 *   MUTANT_NO_SEQUENCE      an entry is only empty or full                  a late producer fills a later lap
 *   MUTANT_HINT_AHEAD       the tail is moved before the entry is filled    a hole that hides what is behind it
 *   MUTANT_BLIND_EMPTY      an entry is emptied without comparing it        two consumers take one item
 *   MUTANT_RAISE_TOO_FAR    a batch raises the hint by what it asked for    as MUTANT_HINT_AHEAD
 */

#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef PRODUCERS
#define PRODUCERS 0
#endif
#ifndef BATCH_PRODUCERS
#define BATCH_PRODUCERS 0
#endif
#ifndef CONSUMERS
#define CONSUMERS 0
#endif
#ifndef BATCH_CONSUMERS
#define BATCH_CONSUMERS 0
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef TAKES
#define TAKES 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif

#define BATCH 2
#define POSITIONS (PRODUCERS * ITEMS + BATCH_PRODUCERS * ITEMS * BATCH)

/* An entry: sequence in the high bits, index in the low ones. Index 0 is a real index, as it is in the code. */
#define WORD(sequence, index) ((sequence) * 8 + (index))
#define SEQUENCE(word) ((word) / 8)
#define INDEX(word) ((word) % 8)
#define PLACE(position) entry[(position) % CAPACITY]
#define LAP(position) ((position) / CAPACITY)
/* `ahead`: how far an entry is beyond "empty" (0) or "full" (1) of the position's lap. */
#define AHEAD(word, position, full) (SEQUENCE(word) - (2 * LAP(position) + (full)))

byte entry[CAPACITY];
byte tail, head;

/* What nobody can read: the truth that the hints follow, and what went in at each position. */
byte filled, emptied;
byte order[POSITIONS + 1];
byte deaths;

/* Before any step of any process, in the same breath as the step that is not taken. */
#define MAY_DIE if :: deaths < DEATHS -> deaths++; goto dead :: true fi

/* ---- the steps ---- */

#define LOOK_HINT(hint) atomic { MAY_DIE; at = hint }

inline went_in(position, index) {
    assert(position == filled);
    assert(filled - emptied < CAPACITY);
    order[filled] = index;
    filled++
}

inline went_out(position, index) {
    assert(position == emptied);
    assert(emptied < filled);
    assert(order[emptied] == index);
    emptied++
}

/* A hint is never ahead of the truth. Mutants of that must be found out by what comes of it, not by this line. */
inline hints_hold() {
#if !defined(MUTANT_HINT_AHEAD) && !defined(MUTANT_RAISE_TOO_FAR)
    assert(tail <= filled && head <= emptied)
#else
    skip
#endif
}

inline advance(hint) {
    if
    :: hint == at -> hint++; hints_hold()
    :: else
    fi
}

/* Says "full", and is right. */
inline say_full() {
    assert(filled - emptied == CAPACITY)
}

inline say_empty() {
    assert(filled == emptied)
}

#ifdef MUTANT_HELP_ONE
#define HELPED(ahead) ((ahead) == 1)
#else
#define HELPED(ahead) true
#endif

#ifdef MUTANT_NO_SEQUENCE
/* Empty is empty, whichever lap it is of: 0 and not 0. */
#define SAME_EMPTY(word, seen) (SEQUENCE(word) % 2 == 0)
#else
#define SAME_EMPTY(word, seen) ((word) == (seen))
#endif

#ifdef MUTANT_BLIND_EMPTY
#define SAME_FULL(word, seen) true
#else
#define SAME_FULL(word, seen) ((word) == (seen))
#endif

/* ---- one at a time: push and pop_within ---- */

proctype Producer(byte item) {
    byte left = ITEMS;
    byte at, seen;

next:
    atomic {
        if
        :: left == 0 -> goto dead
        :: else
        fi
    }
again:
    LOOK_HINT(tail);
    atomic {
        MAY_DIE;
        seen = PLACE(at);
        if
        :: AHEAD(seen, at, 0) == 0
        :: AHEAD(seen, at, 0) > 0 -> goto help
        :: AHEAD(seen, at, 0) == -1 -> say_full(); at = 0; seen = 0; goto progress_full
#ifdef MUTANT_TWO_STEPS
        :: AHEAD(seen, at, 0) < -1 -> seen = 0; goto again
#else
        :: AHEAD(seen, at, 0) < -1 -> assert(false)
#endif
        fi
    }
#ifdef MUTANT_HINT_AHEAD
    atomic { MAY_DIE; advance(tail) }
#endif
#ifdef MUTANT_TWO_STEPS
    atomic {
        MAY_DIE;
        if
        /* The claim is what counts here, and the rest is late. */
        :: tail == at -> went_in(at, item); tail++
        :: else -> seen = 0; goto again
        fi
    }
    atomic { MAY_DIE; PLACE(at) = WORD(SEQUENCE(seen) + 1, item) }
#else
    atomic {
        MAY_DIE;
        if
        :: SAME_EMPTY(PLACE(at), seen) ->
            PLACE(at) = WORD(SEQUENCE(PLACE(at)) + 1, item);
            went_in(at, item)
        :: else -> seen = 0; goto again
        fi
    }
    atomic { MAY_DIE; advance(tail) }
#endif
progress_pushed:
    atomic { item = (item + 1) % 8; left--; at = 0; seen = 0; goto next }

help:
    atomic {
        MAY_DIE;
        if
        :: HELPED(AHEAD(seen, at, 0)) -> advance(tail)
        :: else
        fi;
        seen = 0;
        goto again
    }

    /* The item is kept and pushed again: a refusal loses nothing. */
progress_full:
    atomic { true; goto again }

dead:
    atomic { left = 0; item = 0; at = 0; seen = 0 }
}

proctype Consumer() {
    byte left = TAKES;
    byte at, seen;

next:
    atomic {
        if
        :: left == 0 -> goto dead
        :: else
        fi
    }
again:
    LOOK_HINT(head);
#ifdef MUTANT_HINTS_ARE_TRUTH
    atomic {
        MAY_DIE;
        if
        :: tail == at -> say_empty(); goto progress_empty
        :: else
        fi
    }
#endif
    atomic {
        MAY_DIE;
        seen = PLACE(at);
        if
        :: AHEAD(seen, at, 1) == 0
        :: AHEAD(seen, at, 1) > 0 -> goto help
#ifdef MUTANT_TWO_STEPS
        /* Claimed and not yet published: there is nothing for it but to look again. */
        :: AHEAD(seen, at, 1) == -1 && tail > at -> seen = 0; goto again
        :: AHEAD(seen, at, 1) == -1 && tail <= at -> goto progress_empty
#else
        :: AHEAD(seen, at, 1) == -1 -> say_empty(); goto progress_empty
#endif
        :: AHEAD(seen, at, 1) < -1 -> assert(false)
        fi
    }
    atomic {
        MAY_DIE;
        if
        :: SAME_FULL(PLACE(at), seen) ->
            PLACE(at) = WORD(SEQUENCE(seen) + 1, 0);
            went_out(at, INDEX(seen))
        :: else -> seen = 0; goto again
        fi
    }
    atomic { MAY_DIE; advance(head) }
progress_popped:
    atomic { at = 0; seen = 0; left--; goto next }

help:
    atomic {
        MAY_DIE;
        if
        :: HELPED(AHEAD(seen, at, 1)) -> advance(head)
        :: else
        fi;
        seen = 0;
        goto again
    }

progress_empty:
    atomic {
        at = 0; seen = 0;
#ifndef FOREVER
        left--;
#endif
        goto next
    }

dead:
    atomic { left = 0; at = 0; seen = 0 }
}

/* ---- two at a time: push_batch and pop_batch ---- */

/* `raise`: up to the cursor, never back; four lost rounds are enough, since everybody helps. */
#define RAISE_ROUNDS 4

#ifdef MUTANT_RAISE_TOO_FAR
#define RAISED_TO (at + BATCH - done)
#else
#define RAISED_TO at
#endif

proctype BatchProducer(byte item) {
    byte left = ITEMS;
    byte at, seen, done, rounds;

next:
    atomic {
        if
        :: left == 0 -> goto dead
        :: else
        fi
    }
    LOOK_HINT(tail);
again:
    atomic {
        MAY_DIE;
        seen = PLACE(at);
        if
        :: AHEAD(seen, at, 0) == 0
        /* `step_over`: the cursor is this call's own. */
        :: AHEAD(seen, at, 0) > 0 -> at++; seen = 0; goto again
        :: AHEAD(seen, at, 0) == -1 -> say_full(); goto raise
        :: AHEAD(seen, at, 0) < -1 -> assert(false)
        fi
    }
    atomic {
        MAY_DIE;
        if
        :: SAME_EMPTY(PLACE(at), seen) ->
            PLACE(at) = WORD(SEQUENCE(PLACE(at)) + 1, item);
            went_in(at, item);
            at++; done++; seen = 0; item = (item + 1) % 8;
            if
            :: done < BATCH -> goto again
            :: else
            fi
        :: else -> seen = 0; goto again
        fi
    }

raise:
    atomic { MAY_DIE; seen = tail; rounds = RAISE_ROUNDS }
raise_again:
    atomic {
        if
        :: RAISED_TO <= seen || rounds == 0 -> goto progress_returned
        :: else
        fi;
        MAY_DIE;
        if
        :: tail == seen -> tail = RAISED_TO; hints_hold(); goto progress_returned
        :: else -> seen = tail; rounds--; goto raise_again
        fi
    }

    /* What did not go in is tried again by the next call. */
progress_returned:
    atomic {
        at = 0; seen = 0; rounds = 0;
        if
        :: done == BATCH -> done = 0; left--
        :: else
        fi;
        goto next
    }

dead:
    atomic { left = 0; item = 0; at = 0; seen = 0; done = 0; rounds = 0 }
}

proctype BatchConsumer() {
    byte left = TAKES;
    byte at, seen, done, rounds;

next:
    atomic {
        if
        :: left == 0 -> goto dead
        :: else
        fi
    }
    LOOK_HINT(head);
again:
    atomic {
        MAY_DIE;
        seen = PLACE(at);
        if
        :: AHEAD(seen, at, 1) == 0
        :: AHEAD(seen, at, 1) > 0 -> at++; seen = 0; goto again
        :: AHEAD(seen, at, 1) == -1 -> say_empty(); goto raise
        :: AHEAD(seen, at, 1) < -1 -> assert(false)
        fi
    }
    atomic {
        MAY_DIE;
        if
        :: SAME_FULL(PLACE(at), seen) ->
            PLACE(at) = WORD(SEQUENCE(seen) + 1, 0);
            went_out(at, INDEX(seen));
            at++; done++; seen = 0;
            if
            :: done < BATCH -> goto again
            :: else
            fi
        :: else -> seen = 0; goto again
        fi
    }

raise:
    atomic { MAY_DIE; done = 0; seen = head; rounds = RAISE_ROUNDS }
raise_again:
    atomic {
        if
        :: at <= seen || rounds == 0 -> goto progress_returned
        :: else
        fi;
        MAY_DIE;
        if
        :: head == seen -> head = at; hints_hold(); goto progress_returned
        :: else -> seen = head; rounds--; goto raise_again
        fi
    }

progress_returned:
    atomic {
        at = 0; seen = 0; rounds = 0;
#ifndef FOREVER
        left--;
#endif
        goto next
    }

dead:
    atomic { left = 0; at = 0; seen = 0; done = 0; rounds = 0 }
}

init {
    atomic {
#if PRODUCERS > 0
        run Producer(0);
#endif
#if PRODUCERS > 1
        run Producer(ITEMS);
#endif
#if BATCH_PRODUCERS > 0
        run BatchProducer(PRODUCERS * ITEMS);
#endif
#if CONSUMERS > 0
        run Consumer();
#endif
#if CONSUMERS > 1
        run Consumer();
#endif
#if BATCH_CONSUMERS > 0
        run BatchConsumer();
#endif
#if BATCH_CONSUMERS > 1
        run BatchConsumer();
#endif
    }
}
