//! The power is cut at every call to the disk, and what was acknowledged is there afterwards.
//!
//! The story has everything in it: batches, appends of several records, new segments, large payloads, removals, two
//! snapshots. After the cut, what was not synced is there, is not there, or is there in part, sector by sector and name
//! by name. The state that comes back must be the one after some number of steps: not fewer than were acknowledged,
//! not more than were begun.

use crate::house::{add, open_on, small};
use crate::sim_disk::{Fault, Kept, SimDisk};
use crate::story::{DIRECTORY, Story, recovered};
use millpond_journal::{JournalConfig, SyncMode};
use std::path::Path;
use std::sync::Arc;

fn kept(call: u64) -> [Kept; 6] {
    let some = |turn: u64| Kept::Some(call * 31 + turn);
    [Kept::Nothing, Kept::Everything, some(1), some(2), some(3), some(4)]
}

#[test]
fn whatever_is_kept_of_the_unsynced_the_acknowledged_is_there() {
    let mut call = 1;
    loop {
        let disk = SimDisk::default();
        disk.fail_at(call, Fault::PowerCut);
        let story = Story::tell(&disk, 0);
        for kept in kept(call) {
            let after = disk.after_power_cut(kept);
            let state = recovered(&after).unwrap_or_else(|error| panic!("call {call}, {kept:?}: {error}"));
            story.check(&state).unwrap_or_else(|wrong| panic!("call {call}, {kept:?}: {wrong}"));
        }
        if !disk.has_failed() {
            break;
        }
        call += 1;
    }
    assert!(call > 200, "the story has {call} calls only");
}

#[test]
fn a_second_power_cut_during_the_recovery_loses_nothing_either() {
    // A few moments at which the first cut leaves much to do, and every moment of the recovery for the second.
    let whole = SimDisk::default();
    Story::tell(&whole, 0);
    let calls = whole.calls();
    for first in (1..calls).step_by(usize::try_from(calls / 12).unwrap()) {
        let disk = SimDisk::default();
        disk.fail_at(first, Fault::PowerCut);
        let story = Story::tell(&disk, 0);
        let half_way = disk.after_power_cut(Kept::Some(first));
        let mut second = 1;
        loop {
            let again = half_way.copy();
            again.fail_at(second, Fault::PowerCut);
            let _ = recovered(&again);
            let done = !again.has_failed();
            for kept in [Kept::Nothing, Kept::Everything, Kept::Some(second)] {
                let state = recovered(&again.after_power_cut(kept)).unwrap();
                story.check(&state).unwrap_or_else(|wrong| panic!("{first}, {second}, {kept:?}: {wrong}"));
            }
            if done {
                break;
            }
            second += 1;
        }
    }
}

#[test]
fn the_journal_goes_on_where_the_power_was_cut() {
    let whole = SimDisk::default();
    Story::tell(&whole, 0);
    for call in (1..whole.calls()).step_by(7) {
        let disk = SimDisk::default();
        disk.fail_at(call, Fault::PowerCut);
        let first = Story::tell(&disk, 0);
        let after = disk.after_power_cut(Kept::Some(call));
        let second = Story::tell_after(&after, 1000, first);
        second.check(&recovered(&after).unwrap()).unwrap_or_else(|wrong| panic!("call {call}: {wrong}"));
        let later = after.after_power_cut(Kept::Nothing);
        second.check(&recovered(&later).unwrap()).unwrap_or_else(|wrong| panic!("call {call}: {wrong}"));
    }
}

#[test]
fn what_came_back_once_stays_even_if_it_was_never_synced() {
    // A process that is killed leaves its writes to the kernel, and they come back at the next start. Had they been
    // left unsynced, a power cut later would take records that somebody has acted upon since.
    let disk = SimDisk::default();
    let config = || small(Path::new(DIRECTORY));
    let off = JournalConfig { sync: SyncMode::Off, ..config() };
    let (journal, _, _) = open_on(off, Arc::new(disk.clone())).unwrap();
    (0..10).for_each(|number| add(&journal, number).unwrap());
    // As after a kill: nothing is closed, and the kernel has what was written.
    let next = disk.copy();
    let (second, numbers, recovery) = open_on(config(), Arc::new(next.clone())).unwrap();
    assert_eq!((numbers.len(), recovery.clean), (10, false));
    let after = next.after_power_cut(Kept::Nothing);
    assert_eq!(open_on(config(), Arc::new(after)).unwrap().1, numbers);
    // The same records were not safe before that second start.
    let before = disk.after_power_cut(Kept::Nothing);
    assert_eq!(open_on(config(), Arc::new(before)).unwrap().1, []);
    drop((journal, second));
}
