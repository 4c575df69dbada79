//! How many tasks stand at each stage, counted as they move.
//!
//! Every task moves a few times and many threads move tasks at once, so each thread counts in a row of its
//! own, and whoever asks adds the rows up. A task may be added in one row and taken away in another: only
//! the sum means something, and while tasks move it may be off by those.

use crate::task::Stage;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// As many threads count without disturbing each other.
const ROWS: usize = 16;

/// Alone on its cache lines, two of them because processors fetch pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Row([AtomicU64; Stage::ALL.len()]);

#[derive(Debug, Default)]
pub(crate) struct StageCounts {
    rows: [Row; ROWS],
}

/// How many threads have a row.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Which row this thread counts in.
    static ROW: Cell<Option<usize>> = const { Cell::new(None) };
}

impl StageCounts {
    /// A task begins at this stage.
    pub(crate) fn entered(&self, stage: Stage) {
        self.row().0[stage as usize].fetch_add(1, Relaxed);
    }

    /// A task went from one stage to another.
    pub(crate) fn moved(&self, from: Stage, to: Stage) {
        let row = self.row();
        row.0[from as usize].fetch_sub(1, Relaxed);
        row.0[to as usize].fetch_add(1, Relaxed);
    }

    /// A task at this stage is no longer known.
    pub(crate) fn left(&self, stage: Stage) {
        self.row().0[stage as usize].fetch_sub(1, Relaxed);
    }

    /// How many tasks stand there.
    pub(crate) fn at(&self, stage: Stage) -> usize {
        let counts = self.rows.iter().map(|row| row.0[stage as usize].load(Relaxed));
        let sum = counts.fold(0, u64::wrapping_add);
        // Rows are read one after the other, so a task on its way may be missed at its beginning.
        usize::try_from(sum.cast_signed()).unwrap_or(0)
    }

    fn row(&self) -> &Row {
        let row = ROW.get().unwrap_or_else(|| {
            let row = THREADS.fetch_add(1, Relaxed) % ROWS;
            ROW.set(Some(row));
            row
        });
        &self.rows[row]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_sum_is_right_whichever_threads_counted() {
        let counts = StageCounts::default();
        (0..100).for_each(|_| counts.entered(Stage::Queued));
        thread::scope(|scope| {
            for _ in 0..2 * ROWS {
                scope.spawn(|| (0..3).for_each(|_| counts.moved(Stage::Queued, Stage::Running)));
            }
        });
        (0..6).for_each(|_| counts.moved(Stage::Running, Stage::Ended));
        counts.left(Stage::Ended);
        let all = Stage::ALL.map(|stage| counts.at(stage));
        assert_eq!(all, [0, 4, 90, 0, 5]);
    }
}
