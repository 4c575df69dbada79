//! Ctrl-C as a question that long work asks now and then: should I stop?
//!
//! The first press lets the work end in order and show what it has; a second one ends the program at once, for whoever
//! does not want to wait for that.

use crate::failure::Failure;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static PRESSED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C is asked for instead of ending the program. To be called once.
pub(crate) fn listen() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        if PRESSED.swap(true, Relaxed) {
            process::exit(130);
        }
    })
    .map_err(|error| Failure::Failed(format!("Ctrl-C cannot be listened to: {error}")))
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_pressed() -> bool {
    PRESSED.load(Relaxed)
}
