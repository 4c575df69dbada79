//! `sleep`: answers after a while. No worker waits for it; the call lies with the timer until its time comes.
//!
//! The call belongs to the timer's act alone. If the nap is cut short the act is taken out of the timer and
//! dropped, and the call with it; by then its task has ended, so nobody hears of that.

use super::arguments::{Arguments, wrong};
use super::{about, answer};
use crate::call::Call;
use crate::error::TaskFailure;
use crate::handler::{About, Handler};
use crate::timer::{Timer, TimerKey};
use serde::Serialize;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A day.
const SLEEP_MS_MAX: u64 = 24 * 60 * 60 * 1000;

pub(super) struct Sleep {
    pub(super) timer: Timer,
}

#[derive(Serialize)]
struct Slept {
    ms: u64,
}

/// Planning the nap and cutting it short may happen in either order.
enum Nap {
    NotPlanned,
    Planned(TimerKey),
    CutShort,
}

impl Handler for Sleep {
    fn start(&self, call: Call) {
        let milliseconds = match milliseconds(&call) {
            Ok(milliseconds) => milliseconds,
            Err(failure) => return call.finish(Err(failure)),
        };
        let nap = Arc::new(Mutex::new(Nap::NotPlanned));
        let change =
            |nap: &Mutex<Nap>, to| mem::replace(&mut *nap.lock().unwrap_or_else(PoisonError::into_inner), to);
        let (timer, of_stop) = (self.timer.clone(), Arc::clone(&nap));
        call.on_stop(move |_| {
            if let Nap::Planned(key) = change(&of_stop, Nap::CutShort) {
                timer.cancel(key);
            }
        });
        let key = self.timer.after(Duration::from_millis(milliseconds), move || {
            call.finish(Ok(answer(&Slept { ms: milliseconds })));
        });
        if let Nap::CutShort = change(&nap, Nap::Planned(key)) {
            self.timer.cancel(key);
        }
    }

    fn about(&self) -> About {
        about("Answers after a while.", r#"{"ms": 250}"#)
    }
}

fn milliseconds(call: &Call) -> Result<u64, TaskFailure> {
    let arguments = Arguments::read(call.handler(), call.args(), &["ms"])?;
    let expected = || format!("a whole number from 0 to {SLEEP_MS_MAX}");
    arguments.whole_number("ms", 0, SLEEP_MS_MAX)?.ok_or_else(|| wrong("args.ms", &expected(), "nothing"))
}
