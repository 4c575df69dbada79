//! Who sleeps, who searches, and whom a new task wakes. `SLEEP.md` is the page about it: states, steps, and why no
//! wake-up is lost.
//!
//! ```text
//!   word   ┌──────────────────┬───────────────────┐     a worker is running a task, or searching, or asleep;
//!          │ asleep   32 bits │ searching 32 bits │     running is the rest and is not counted
//!          └──────────────────┴───────────────────┘
//! ```
//!
//! The rule that keeps both sides cheap: *while somebody searches, nobody needs to be woken*, because a searcher
//! looks at every queue once more after it has said that it stops searching. So a submitter makes a system call
//! only if somebody sleeps and nobody searches, and one call per submission at most: no herd, and no call at all
//! while work flows. Tasks of tasks are met by a look of its own, late in falling asleep.
//!
//! Not here: which queues there are and how they are looked at (`worker/find.rs`), how long a worker searches
//! (`worker/park.rs`).

use crate::barrier::{Barrier, Reach};
use crate::edge::left_out;
use crate::futex::{self, Scope};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering::Relaxed, fence_after_swap, full_fence};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ops::DerefMut;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ONE_SEARCHING: u64 = 1;
const ONE_ASLEEP: u64 = 1 << 32;

/// Pauses of the processor, here about 13 ns each, before a worker is woken while others are at work.
const WAKE_PAUSES: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 24 };
/// For so long who lies down only dozes: then it looks once more, past a fence that would cost too much for a shorter
/// sleep.
const DOZE: Duration = Duration::from_millis(20);
/// The longest, if the kernel has come to refuse that fence.
const DOZE_MAX: Duration = Duration::from_secs(1);

thread_local! {
    static HAS_CALLED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread has woken a worker since it last asked.
pub(crate) fn has_called() -> bool {
    HAS_CALLED.take()
}

/// The sleeping and searching of one pool's workers.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// See the picture above. `asleep` changes under the lock of `asleep` only; `searching` also without it.
    word: CachePadded<AtomicU64>,
    /// How many workers there should be. A hint.
    workers: AtomicU32,
    /// The seats of those asleep; the one that lay down last is woken first, since its data is warmest.
    asleep: Mutex<Vec<usize>>,
    /// One for each seat: 1 if its worker has been woken and has not noticed yet. Set by the waker, cleared by the
    /// worker.
    woken: Box<[CachePadded<AtomicU32>]>,
    barrier: Barrier,
    doze: Duration,
}

impl Sleep {
    pub(crate) fn new(seats: usize) -> Self {
        Self::dozing(seats, DOZE)
    }

    /// As `new`; a model has no clock, and one that dozes at all does so until it is woken.
    pub(crate) fn dozing(seats: usize, doze: Duration) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            workers: AtomicU32::new(seats as u32),
            asleep: Mutex::new(Vec::with_capacity(seats)),
            woken: (0..seats).map(|_| CachePadded::new(AtomicU32::new(0))).collect(),
            barrier: Barrier::new(),
            doze,
        }
    }

    /// Whether anybody has nothing to do. A hint: it may be stale.
    #[inline(always)]
    pub(crate) fn anybody_idle(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// How many sleep. It may be stale.
    #[inline(always)]
    pub(crate) fn asleep(&self) -> usize {
        asleep(self.word.load(Relaxed))
    }

    /// How many search. It may be stale.
    pub(crate) fn searching(&self) -> usize {
        searching(self.word.load(Relaxed))
    }

    /// To be called after a task was put where any worker may find it: wakes one if that is needed.
    #[inline(always)]
    pub(crate) fn work_came(&self) {
        // The fence that meets the one in `park`: either this thread sees that a worker sleeps, or that worker's last
        // look sees the task.
        if !left_out("SLEEP_SUBMIT_FENCES") {
            full_fence();
        }
        self.work_is_seen();
    }

    /// As `work_came`, when the task was put there by a read-modify-write of what a last look reads.
    #[inline(always)]
    pub(crate) fn work_came_by_swap(&self) {
        // As in `work_came`.
        if !left_out("SLEEP_SWAP_FENCES") {
            fence_after_swap();
        }
        self.work_is_seen();
    }

    /// As `work_came`, when a task was put into its submitter's own queue. While nobody sleeps, as is usual when tasks
    /// spawn tasks, this costs no fence: one who falls asleep meets it with a heavy one.
    #[inline(always)]
    pub(crate) fn work_came_inside(&self) {
        // Meets the heavy fence in `park`: either this thread sees that a worker sleeps, or that worker's look after
        // its doze sees the task.
        if !left_out("SLEEP_INSIDE_FENCES") {
            self.barrier.light();
        }
        if self.asleep() > 0 {
            self.work_came();
        }
    }

    /// Tasks put many others into their workers' own queues: telling of those is to cost less from now on.
    #[cold]
    pub(crate) fn much_comes_inside(&self) {
        self.barrier.prepare();
    }

    /// A thread that may still be there when all workers have gone, to be joined.
    pub(crate) fn helper(&self) -> Option<JoinHandle<()>> {
        self.barrier.announcer()
    }

    /// As `work_came`, when the caller has fenced since it put the task there.
    #[inline(always)]
    pub(crate) fn work_is_seen(&self) {
        let word = self.word.load(Relaxed);
        if needs_waking(word) {
            self.wake_soon(word);
        }
    }

    /// Wakes one worker, unless another is back from a short task in a moment and searches by itself: waking costs the
    /// caller many times that moment. If everybody sleeps, there is nobody to wait for.
    #[cold]
    fn wake_soon(&self, mut word: u64) {
        let workers = self.workers.load(Relaxed) as usize;
        for _ in 0..WAKE_PAUSES {
            if asleep(word) >= workers {
                break;
            }
            crate::sync::spin_loop();
            word = self.word.load(Relaxed);
            if !needs_waking(word) {
                return;
            }
        }
        self.wake_one();
    }

    /// Says how many workers there should be.
    pub(crate) fn set_workers(&self, workers: usize) {
        self.workers.store(workers as u32, Relaxed);
    }

    /// To be called after a task was put where only the worker of `seat` looks first.
    pub(crate) fn work_came_for(&self, seat: usize) {
        // As in `work_came`.
        if !left_out("SLEEP_INBOX_FENCES") {
            full_fence();
        }
        if asleep(self.word.load(Relaxed)) == 0 {
            return;
        }
        let mut beds = self.beds();
        let Some(bed) = beds.iter().position(|&sleeper| sleeper == seat) else {
            // It is awake, and looks there before it sleeps; but it may be busy for long.
            drop(beds);
            return self.wake_one();
        };
        beds.remove(bed);
        self.word.fetch_add(ONE_SEARCHING.wrapping_sub(ONE_ASLEEP), Relaxed);
        drop(beds);
        self.call(seat);
    }

    /// Enters the search, unless `most` search already.
    pub(crate) fn start_search(&self, most: usize) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            if searching(word) >= most {
                return false;
            }
            match self.word.compare_exchange_weak(word, word + ONE_SEARCHING, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Ends a search. If nobody else searches, whoever submitted meanwhile relied on the caller: another worker is
    /// woken if `anything_waits` still.
    pub(crate) fn end_search(&self, anything_waits: impl Fn() -> bool) {
        let word = self.word.fetch_sub(ONE_SEARCHING, Relaxed) - ONE_SEARCHING;
        // Meets the fence in `work_came`: a submitter who still saw this worker searching made no call, and its task
        // is seen by the look that follows. A task that came inside may be missed: those asleep see to that one.
        if !left_out("SLEEP_END_SEARCH_FENCES") {
            full_fence();
        }
        if needs_waking(word) && anything_waits() && !left_out("SLEEP_SEARCH_IS_PASSED_ON") {
            self.wake_one();
        }
    }

    /// Sleeps until somebody wakes the worker of `seat`, unless `anything_waits` after it has said that it will. One
    /// that `searches` stops with the same step. Either way it is searching afterwards. `asleep` is called if it
    /// sleeps, when it is counted so, and says for how long it may sleep; `true`: it slept for as long.
    pub(crate) fn park(
        &self,
        seat: usize,
        searches: bool,
        anything_waits: impl Fn() -> bool,
        asleep: impl FnOnce() -> Option<Duration>,
    ) -> bool {
        let mut beds = self.beds();
        beds.push(seat);
        let searching = if searches { ONE_SEARCHING } else { 0 };
        self.word.fetch_add(ONE_ASLEEP - searching, Relaxed);
        drop(beds);
        // Meets the fence in `work_came`.
        if !left_out("SLEEP_PARK_FENCES") {
            full_fence();
        }
        if anything_waits() && !left_out("SLEEP_PARK_LOOKS_AGAIN") && self.get_up(seat) {
            return false;
        }
        let until = asleep().and_then(|at_most| Instant::now().checked_add(at_most));
        let woken = &self.woken[seat];
        // The doze that is still to come.
        let mut doze = self.barrier.may_be_light().then_some(self.doze);
        while woken.compare_exchange(1, 0, Relaxed, Relaxed).is_err() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // One who cannot get up any more has been woken, and the call is on its way.
            if left.is_some_and(|left| left.is_zero()) && self.get_up(seat) {
                return true;
            }
            let left = left.filter(|left| !left.is_zero());
            // Who rises before its doze is over looks everywhere by itself.
            let Some(nap) = doze.filter(|&nap| left.is_none_or(|left| nap < left)) else {
                futex::wait(woken, 0, left, Scope::Private);
                continue;
            };
            if !nap.is_zero() {
                futex::wait(woken, 0, Some(nap), Scope::Private);
            }
            if woken.load(Relaxed) == 1 {
                // Who is called pays nothing.
                continue;
            }
            doze = self.fence_after(nap);
            if anything_waits() && !left_out("SLEEP_DOZE_LOOKS_AGAIN") && self.get_up(seat) {
                return false;
            }
        }
        false
    }

    /// Fences when a nap is over, or was interrupted, which does no harm. If it cannot be done now, says how long to
    /// doze before the next attempt.
    fn fence_after(&self, nap: Duration) -> Option<Duration> {
        // Meets the fence in `work_came_inside`.
        let reach = if left_out("SLEEP_DOZE_FENCES") { Reach::All } else { self.barrier.heavy() };
        (reach == Reach::NotYet).then_some((2 * nap).min(DOZE_MAX))
    }

    /// The last look found something: the worker is searching again. `false`: somebody has woken it meanwhile, and
    /// the call is on its way.
    fn get_up(&self, seat: usize) -> bool {
        let mut beds = self.beds();
        let bed = beds.iter().position(|&sleeper| sleeper == seat);
        if let Some(bed) = bed {
            beds.remove(bed);
            self.word.fetch_add(ONE_SEARCHING.wrapping_sub(ONE_ASLEEP), Relaxed);
        }
        bed.is_some()
    }

    /// Wakes one worker, unless somebody searches or nobody sleeps.
    #[cold]
    pub(crate) fn wake_one(&self) {
        let mut beds = self.beds();
        if !needs_waking(self.word.load(Relaxed)) {
            return;
        }
        let Some(seat) = beds.pop() else { return };
        // Counted as searching before it has even risen, so that the next submitter does not wake another.
        self.word.fetch_add(ONE_SEARCHING.wrapping_sub(ONE_ASLEEP), Relaxed);
        drop(beds);
        self.call(seat);
    }

    /// Wakes one worker of those in seats from `first` on, to attend to something else than a task.
    pub(crate) fn wake_from(&self, first: usize) {
        let mut beds = self.beds();
        let Some(bed) = beds.iter().position(|&sleeper| sleeper >= first) else { return };
        let seat = beds.remove(bed);
        self.word.fetch_add(ONE_SEARCHING.wrapping_sub(ONE_ASLEEP), Relaxed);
        drop(beds);
        self.call(seat);
    }

    /// Wakes everybody, to attend to something else than a task.
    pub(crate) fn wake_all(&self) {
        let mut beds = self.beds();
        let all = std::mem::take(&mut *beds);
        for _ in &all {
            self.word.fetch_add(ONE_SEARCHING.wrapping_sub(ONE_ASLEEP), Relaxed);
        }
        drop(beds);
        for seat in all {
            self.call(seat);
        }
    }

    /// Runs `look` with the number of those asleep, none of whom can be woken meanwhile.
    pub(crate) fn while_asleep<R>(&self, look: impl FnOnce(usize) -> R) -> R {
        let beds = self.beds();
        look(beds.len())
    }

    fn call(&self, seat: usize) {
        HAS_CALLED.set(true);
        // What the worker is to find, it finds by the queues' own edges.
        self.woken[seat].swap(1, Relaxed);
        futex::wake(&self.woken[seat], 1, Scope::Private);
    }

    fn beds(&self) -> impl DerefMut<Target = Vec<usize>> + '_ {
        // No user's code runs under the lock, so none can poison it.
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn asleep(word: u64) -> usize {
    (word >> 32) as usize
}

fn searching(word: u64) -> usize {
    (word & u64::from(u32::MAX)) as usize
}

fn needs_waking(word: u64) -> bool {
    asleep(word) > 0 && searching(word) == 0
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32 as Count;
    use std::thread;

    const NEVER: Duration = Duration::from_secs(3600);

    /// Parks the worker of seat 0 and says how often it looked. It finds something at that look, if any.
    fn looks(sleep: &Sleep, finds_at: u32) -> u32 {
        let looks = Count::new(0);
        let slept = sleep.park(0, false, || looks.fetch_add(1, Relaxed) + 1 == finds_at, || None);
        assert!(!slept, "nobody said for how long to sleep");
        looks.into_inner()
    }

    #[test]
    fn who_is_called_while_it_dozes_looks_no_second_time() {
        let sleep = Sleep::dozing(1, NEVER);
        thread::scope(|scope| {
            let worker = scope.spawn(|| looks(&sleep, u32::MAX));
            while sleep.asleep() == 0 {
                thread::yield_now();
            }
            sleep.work_came();
            assert_eq!(worker.join().unwrap(), 1);
            assert!(has_called() && !has_called(), "the caller is told of its call once");
        });
        assert_eq!((sleep.asleep(), sleep.searching()), (0, 1));
    }

    #[test]
    fn who_is_not_called_looks_once_more_after_its_doze_if_fences_are_light() {
        let sleep = Sleep::dozing(1, Duration::from_millis(1));
        let looks_most = if sleep.barrier.settle() { 2 } else { 1 };
        thread::scope(|scope| {
            let worker = scope.spawn(|| looks(&sleep, looks_most));
            while looks_most == 1 && sleep.asleep() == 0 {
                thread::yield_now();
            }
            if looks_most == 1 {
                // Where there are none, it sleeps until it is called.
                sleep.work_came();
            }
            assert_eq!(worker.join().unwrap(), looks_most);
        });
        assert_eq!((sleep.asleep(), sleep.searching()), (0, 1));
    }

    #[test]
    fn who_may_sleep_for_less_than_a_doze_looks_once() {
        let sleep = Sleep::dozing(1, NEVER);
        let looks = Count::new(0);
        let look = || looks.fetch_add(1, Relaxed) > 0;
        assert!(sleep.park(0, false, look, || Some(Duration::from_millis(1))), "it rises by itself");
        assert_eq!(looks.into_inner(), 1);
    }
}
