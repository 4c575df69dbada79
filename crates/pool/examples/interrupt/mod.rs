//! Ctrl-C, for examples that have something to put away first: the first asks the program to end, the second
//! ends it at once.
//!
//! The program looks here between two steps, and no step takes long. A drain may take long, so it is done in
//! short pieces.
//!
//! Not here: what is to be put away; each example knows its own.

use crate::command_line::EarlyEnd;
use millpond::{Pool, Report};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a shell reports of a program that Ctrl-C has ended.
const STATUS: u8 = 130;
/// How long Ctrl-C may go unnoticed in a drain.
const GLANCE: Duration = Duration::from_millis(50);

/// Whether Ctrl-C was pressed. Set by the thread that listens, never taken back.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on Ctrl-C is noticed. To be called once.
    pub(crate) fn listen() -> Result<Self, String> {
        let came = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&came);
        let listening = ctrlc::set_handler(move || {
            if noticed.swap(true, Relaxed) {
                exit(STATUS.into());
            }
        });
        listening.map(|()| Self(came)).map_err(|error| format!("Ctrl-C cannot be listened to: {error}"))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Drains the pool for at most so long; `None` if Ctrl-C came before everything was done.
    pub(crate) fn drain(&self, pool: &Pool, within: Duration) -> Option<Report> {
        let start = Instant::now();
        while !self.came() {
            let report = pool.drain(GLANCE);
            if report.is_finished() || start.elapsed() > within {
                return Some(report);
            }
        }
        None
    }

    /// The end of a program that has put everything away, with what is told about that.
    pub(crate) fn end(&self, told: &str) -> EarlyEnd {
        EarlyEnd { status: STATUS, line: format!("interrupted: {told}") }
    }
}
