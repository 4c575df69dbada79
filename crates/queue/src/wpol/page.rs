//! The page `docs/WPOL.md`, printed from the tables the code runs on.
//!
//! The layout and the error tables come from `layout.rs` and `error.rs`, so they cannot go stale. The prose between
//! them is here because it speaks of the same fields; `cargo xtask gen` writes the file and tidy compares it.
//!
//! Not here: why a step is as it is (beside the step, in `v1_*.rs` and `v2_*.rs`).

use super::error::{
    AllocateError, FinishError, PopError, PushError, ReferenceError, RegionError, Row, StartError,
    SubmitError, SweepError, TicketError,
};
use super::layout::{Kind, STRUCTURES, Structure};
use alloc::format;
use alloc::string::String;

/// The whole page.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str(VERSION_1_LAYOUT);
    structures(&mut page, "v1_");
    page.push_str(VERSION_1_PROTOCOL);
    page.push_str(VERSION_2_LAYOUT);
    structures(&mut page, "v2_");
    page.push_str(VERSION_2_PROTOCOL);
    page.push_str(ERRORS);
    for rows in [
        RegionError::ROWS,
        PushError::ROWS,
        PopError::ROWS,
        AllocateError::ROWS,
        ReferenceError::ROWS,
        SubmitError::ROWS,
        StartError::ROWS,
        FinishError::ROWS,
        TicketError::ROWS,
        SweepError::ROWS,
    ] {
        rows.iter().for_each(|row| error(&mut page, row));
    }
    page
}

fn structures(page: &mut String, version: &str) {
    STRUCTURES
        .iter()
        .filter(|table| table.name.starts_with(version))
        .for_each(|table| structure(page, table));
}

fn structure(page: &mut String, table: &Structure) {
    page.push_str(&format!("\n#### `{}`, {} bytes\n\n", table.name, table.bytes));
    page.push_str("| offset | size | type | name | meaning |\n|---|---|---|---|---|\n");
    for field in table.fields {
        let size = field.kind.bytes().unwrap_or(table.bytes - field.offset);
        let kind = match field.kind {
            Kind::U16 => "u16",
            Kind::U32 => "u32",
            Kind::U64 => "u64",
            Kind::Bytes => "bytes",
        };
        let offset = match table.bytes {
            64 if table.name.starts_with("v1_") => format!("{}", field.offset),
            _ => format!("{:#05x}", field.offset),
        };
        page.push_str(&format!("| {offset} | {size} | {kind} | {} | {} |\n", field.name, field.meaning));
    }
}

fn error(page: &mut String, row: &Row) {
    page.push_str(&format!("| `{}` | `{}` | {} |\n", row.operation, row.code, row.meaning));
}

const INTRODUCTION: &str = "\
# WPOL: task queues in shared memory

Generated from `crates/queue/src/wpol/layout.rs`; do not edit. `cargo xtask gen` writes it anew.

A WPOL region is a run of bytes that threads or processes share: the heap, an `mmap`, WASM linear memory. It
holds slots, which hold tasks, and rings, which carry slot indices from submitters to workers. There are two
layouts. The word at offset 4 says which one a region is, and each version refuses the other's regions.

| | version 1 | version 2 |
|---|---|---|
| for | threads, and peers that speak the published layout | processes of which any may be killed |
| a stopped thread | can hold up all others | holds up sweeping if it was sweeping, and nothing else |
| a killed process | wedges the ring; build a new region | is swept; nothing is lost but what it ran |
| order | first in, first out | the same within each of 1 to 8 lanes |
| answers | `Full` and `Empty` exact, `Busy` besides | exact for each ring; see the guarantee below |
| batches, waiting, results, cancelling | no | yes |

Common rules. Words are little-endian, the region starts at a multiple of 8, bytes that no table names are
zero. Every access to shared bytes is atomic, payload copies included. An attacher copies the header once,
checks the copy, and computes every offset from it. Every index and length read later is checked before use,
every loop is bounded, and values that no honest peer can have written *poison* the region: all its
operations answer `Poisoned` from then on. This protects memory safety and termination of honest peers. It
cannot protect their data: two writers of one region can always destroy each other's work, so distrusting
clients get a region each.
";

const VERSION_1_LAYOUT: &str = "
## Version 1

```text
0        64                   64 + 8 x capacity          64 + 72 x capacity
| header | entries, 8 bytes each | slots, 64 bytes each |
```

A ring entry is a u64: priority in the upper half, slot index in the lower, 0 for empty. The one entry that
would be 0 although it is not empty, priority 0 with slot 0, is stored as `0x0000000080000000`; bit 31 is
never part of an index, since the capacity is at most 2^25. Feature bit 8 announces this. In a region
without that bit the pair is refused. All other entries are as published. A peer that speaks the published
layout and ignores feature bits reads that entry as slot 2^31, which it must refuse as out of range. The
base of the slots is an offset from the region's start, since every process maps it elsewhere.
";

const VERSION_1_PROTOCOL: &str = "
### Steps of version 1

Creation: clear everything, write the header, link the free list, write the magic number last (release).
Creating over a finished region of the same version and capacity attaches to it. Two creators at once are
the caller's to prevent.

Push: read tail, read head (acquire). tail - head, signed: negative, start again; at least capacity, `Full`.
Entry not 0: start again if tail has moved, otherwise `Busy`. CAS tail + 1 (release): the claim. Store the
entry: the publication.

Pop: read head, read tail (acquire). tail - head at most 0: `Empty`. Entry 0: start again if head has moved,
otherwise `Busy`. CAS head + 1 (release): the claim. Store 0.

Allocate: read the list word (acquire); its low half is the slot; read the slot's link; CAS to (link, tag +
1). State becomes 1, references 1, generation + 1. Release: references - 1; whoever reaches 0 sets state 0,
links the slot to the list's first and CASes the list word to (slot, tag + 1) (release). Releasing a free
slot is refused.

The published order (write the entry, then move the tail) loses items, delivers some twice and can stop for
ever. The order above keeps every byte of the layout and claims first. Also corrected: the free list's tag,
reference counts that are obeyed, the version checked even where initialisation is skipped, and retry limits
with an answer of their own.

Guarantee: items are delivered exactly once, first in first out by claim. Every call returns after finitely
many steps of its own. Not lock-free: a thread stopped between claim and publication holds up the rest.
`Busy` says nothing about the level; whoever folds it into `Full` or `Empty` loses linearizability. Priority
is carried and not obeyed.
";

const VERSION_2_LAYOUT: &str = "
## Version 2

```text
0x000  header, fixed part under a checksum          A = 0x100 + 0x180 x (1 + lanes)
0x040  life, reaper, counters                       B = A + 0x40 x records
0x100  control blocks: ring 0 lists free slots,     C = B + entries of all rings
       ring 1 + n is lane n                         each ring's entries, B and C start at multiples of 128;
A      attach records                               ring 0 has the next power of two from 2 x slots, at least 64
B      entries of ring 0, 1, ...                    total = C + stride x slots
C      slots
```

```text
ring entry   63 ..... 32 31 ....... 0       state word   63 ..... 32 31 .. 16 15 ... 8 7 ... 0
             | sequence | slot index |                   | generation | owner | attempts | state |

sequence     2L empty, 2L + 1 full, for lap L = position / capacity, modulo 2^32
state        0 FREE, 1 ALLOC, 2 QUEUED, 3 RUNNING, 4 DONE, 5 CANCELLED, 6 EXPIRED, 7 FAILED
owner        attach index + 1 in ALLOC and RUNNING, otherwise 0
```

The payload starts at +0x40 of its slot, the result behind it at the next multiple of 8, so that a worker
killed while it writes the result leaves the payload whole. Together they take at most stride - 64 bytes.
The attachment at +0x38 is a word of the submitter's that nobody here reads: where a payload lies that is too
long for a slot, say. Whoever follows it checks it as it would any word that another may write.
";

const VERSION_2_PROTOCOL: &str = "
### Steps of version 2

Creation: CAS life 0 to 1, which decides between two creators; clear, build; the magic number (release), then
life 2 last (release). A creator killed on the way leaves life 1 for good: take new memory. Memory whose
magic number comes with another version is refused before the life word is looked at.

Push: read tail (acquire) and the entry; d = sequence - 2 x lap, signed. d = 0: CAS the entry to (sequence +
1, slot) (release), which is the whole push, then CAS tail + 1. d > 0: CAS tail + 1 for whoever did not,
start again. d = -1: `Full`. Less: poison. Pop: the same with head and 2 x lap + 1; the CAS empties the
entry. A d of more than 1024 although the hint has not moved: poison. Batches go on with a private cursor and
move the hint once. The bound is 2 x capacity + 64 rounds, for batches 2 x (capacity + count) + 64, then
`Contended`.

Rings carry hints. What a slot is, its state word says, and every change of it is one CAS:

| act | change | then |
|---|---|---|
| submit | FREE -> ALLOC with generation + 1, fill, ALLOC -> QUEUED | push to the lane |
| start | pop from a lane, QUEUED -> RUNNING, or -> EXPIRED past its deadline | |
| finish | RUNNING -> DONE or FAILED; -> FREE at once if nobody waits | wake who waits |
| refuse | QUEUED -> FREE, if the lane was full | push to ring 0 |
| cancel | QUEUED -> CANCELLED; the hint stays behind and means nothing | |
| release | a final state -> FREE | push to ring 0 |
| sweep | ALLOC of the dead -> FREE; RUNNING of the dead -> FAILED, or QUEUED with attempts + 1 | push the hint |

In a batch of up to 32 tasks each takes these steps by itself. Free slots may be popped and, at the end, pushed
together, so a killed peer may leave up to 32 slots free or queued and listed nowhere, for a sweep to list.

A sweep also takes dead submitters out of their tasks' completion words, frees finished tasks nobody waits
for, and pushes again the hint of a FREE or QUEUED slot that no ring lists and whose state word has not
changed since the last sweep. Only then the dead peer's attach record is free. One live peer sweeps at a
time.

Dying is found out outside the region, and the answer is old when it is used. So a reaper reads the record's
word, asks, and CASes that very word from live to being reaped: if the peer has left and another has come,
the epoch differs and nothing happens. The role's word carries a tag for the same reason. Where a record goes
with a lock of its own, a peer locks before it attaches and unlocks after it has left. If the record is not
free although the lock was had, its last owner died: unlock, let somebody sweep, try again.

Waiting: waiters + 1, read the event word, look again, sleep while the event word is unchanged, at most 100
ms. A notifier changes the waiter count by 0 after its push or pop, and if it was not 0 moves the event word
and wakes. All lanes share the item words of lane 0. A ticket holder sleeps on its slot's completion word.

Lanes: a peer's n-th take asks first the lane numbered by the trailing zeros of 1 + (n mod (2^lanes - 1)),
then the others by number. Lane k is thus asked first by 2^(lanes - 1 - k) of any 2^lanes - 1 takes, and no
lane starves.

Guarantee: lock-free and linearizable rings; no step of a killed or stopped process holds up another, except
that a stopped reaper holds up sweeping. `Full` and `Empty` are exact for a ring, stale hints of cancelled
tasks included: `LaneFull` counts them. `NoSlot`, and `Empty` of all lanes together, are not exact: a hint may
be in somebody's hand, or lost until the next sweep. A task
starts at most once with the death policy `Fail`, at least once with `Requeue`, and more than once only if
its worker died. Exactly once, across crashes, does not exist. The sequence repeats after 2^31 laps, the
generation after 2^32 uses of a slot.
";

const ERRORS: &str = "
## Errors

| operation | code | meaning |
|---|---|---|
";

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_field_and_every_error() {
        let page = markdown();
        for table in STRUCTURES {
            assert!(page.contains(&format!("`{}`", table.name)));
            for field in table.fields {
                assert!(page.contains(field.meaning), "{}", field.name);
            }
        }
        assert!(page.contains("`no_free_slot`") && page.contains("`version_mismatch`"));
        assert!(page.ends_with('\n') && !page.contains("\n\n\n"));
    }
}
