//! A clock that wakes the event loop between two milliseconds.
//!
//! A wait for events counts in whole milliseconds, and 4000 requests a second are due every quarter of one. A
//! timerfd rings in time, as one more source of events.

use crate::plan::LoadError;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::time::Duration;

/// One alarm, which rings once each time it is set.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> Result<Self, LoadError> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|error| LoadError::machine("a timer")(error.into()))?;
        registry
            .register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)
            .map_err(LoadError::machine("a timer"))?;
        Ok(Self { timer })
    }

    /// Rings after so long, at once if that is nothing. What was set before is forgotten, rung or not, so
    /// nobody has to read the timer.
    pub(crate) fn set(&self, after: Duration) -> Result<(), LoadError> {
        // Nothing at all would switch the timer off.
        let after = after.max(Duration::from_nanos(1));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec::try_from(after).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let times = Itimerspec { it_interval: never, it_value: after };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times)
            .map(drop)
            .map_err(|error| LoadError::machine("a timer")(error.into()))
    }
}
