//! Where the parts of the daemon say what happened to them: one function, given to each part when it starts.
//!
//! A part says how much a line matters and nothing else. Who keeps the lines, and from which level on, is
//! decided by the program, once. In a test the same function collects them.

use std::fmt;
use std::sync::Arc;

/// How much a line of the log matters, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Something is broken, and somebody should look.
    Error,
    /// Something went wrong and was dealt with.
    Warn,
    /// What an operator wants to know of a healthy daemon.
    Info,
    /// What helps to find out why.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// All of them, most urgent first.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// As it is written in the setting `log.level`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// The level of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Takes lines of the log. A cheap clone, for any thread.
#[derive(Clone)]
pub struct Log(Arc<Keep>);

/// Takes one line.
type Keep = dyn Fn(Level, &str) + Send + Sync;

impl Log {
    /// Every line goes to `keep`, which must not wait long.
    pub fn new(keep: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(keep))
    }

    /// Nobody listens.
    pub fn silent() -> Self {
        Self::new(|_, _| ())
    }

    /// Says one line, without a line break at its end.
    pub fn say(&self, level: Level, line: &str) {
        (self.0)(level, line);
    }

    /// Says something that is broken.
    pub fn error(&self, line: &str) {
        self.say(Level::Error, line);
    }

    /// Says something that went wrong and was dealt with.
    pub fn warn(&self, line: &str) {
        self.say(Level::Warn, line);
    }

    /// Says what an operator wants to know.
    pub fn info(&self, line: &str) {
        self.say(Level::Info, line);
    }

    /// Says what helps to find out why.
    pub fn debug(&self, line: &str) {
        self.say(Level::Debug, line);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Log")
    }
}
