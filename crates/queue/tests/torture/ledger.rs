//! The ledger, one word of marks per task, and whether it adds up when everybody is gone.
//!
//! A mark is set before or after a step, never with it, so a death in between leaves a task in doubt. How many may be
//! in doubt is bounded by the deaths; everything else must be exact.
//!
//! Not here: who sets the marks (`worker.rs`).

use crate::{IDS, Mill};
use millpond_queue::wpol::v2::{DeathPolicy, Sweep};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// The low byte counts starts.
pub(crate) const STARTS: u32 = 0xFF;
pub(crate) const ATTEMPTED: u32 = 1 << 16;
pub(crate) const ACCEPTED: u32 = 1 << 17;
pub(crate) const REFUSED: u32 = 1 << 18;
pub(crate) const CANCELLING: u32 = 1 << 19;
pub(crate) const CANCELLED: u32 = 1 << 20;
pub(crate) const FINISHING: u32 = 1 << 21;
pub(crate) const FINISHED: u32 = 1 << 22;

pub(crate) fn check(mill: &Mill, policy: DeathPolicy, kills: u64, total: &Sweep, started: Instant) {
    let page = mill.page();
    let ids = page.next_id.load(SeqCst).min(IDS as u64 - 1);
    let [mut accepted, mut done, mut cancelled, mut failed, mut doubtful, mut again] = [0_u64; 6];
    for id in 1..=ids {
        let mark = mill.mark(id).load(SeqCst);
        if mark & ATTEMPTED == 0 {
            // Its submitter died before it tried.
            continue;
        }
        assert!(mark & ACCEPTED == 0 || mark & REFUSED == 0);
        assert!(mark & REFUSED == 0 || mark & STARTS == 0, "task {id} was refused and ran: {mark:#x}");
        assert!(
            mark & CANCELLED == 0 || mark & STARTS == 0 || policy != DeathPolicy::Fail,
            "task {id} was cancelled and ran: {mark:#x}"
        );
        assert!(policy != DeathPolicy::Fail || mark & STARTS <= 1, "task {id} was started twice: {mark:#x}");
        again += u64::from(mark & STARTS > 1);
        if mark & ACCEPTED == 0 {
            continue;
        }
        accepted += 1;
        match mark {
            _ if mark & FINISHED != 0 => done += 1,
            _ if mark & CANCELLED != 0 => cancelled += 1,
            // Somebody was killed between doing it and saying so.
            _ if mark & (FINISHING | CANCELLING) != 0 => doubtful += 1,
            _ => failed += 1,
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{policy:?}: {kills} kills in {seconds:.1} s, {accepted} tasks accepted = {done} done + {cancelled} cancelled \
         + {failed} failed + {doubtful} in doubt; {again} run again; {total:?}"
    );
    assert_eq!(page.torn.load(SeqCst), 0, "torn payloads or results");
    assert_eq!(page.doubled.load(SeqCst), 0, "tasks started or finished twice");
    assert_eq!(accepted, done + cancelled + failed + doubtful);
    // What was lost was lost by deaths, at most a batch of three each.
    assert!(failed + doubtful <= 3 * kills, "{failed} tasks vanished and {doubtful} are in doubt");
    assert!(policy == DeathPolicy::Fail || failed == 0, "requeued tasks must run in the end");
    assert!(2 * done > kills, "the mill did not work");
}
