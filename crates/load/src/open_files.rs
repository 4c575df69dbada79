//! Room for so many connections: the limit of open files, raised as far as this user may.
//!
//! A shell often allows 1024 files and would allow many more if asked. A load that needs more than it may
//! have is refused before it begins; otherwise half of the clients would fail and look like a fault of the
//! server.

use crate::plan::LoadError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the program has open besides.
const OTHERS: u64 = 64;

pub(crate) fn make_room(connections: usize) -> Result<(), LoadError> {
    let needed = connections as u64 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum
        && maximum < needed
    {
        let message = format!(
            "connections: {connections} need {needed} open files, and this user may have {maximum}; \
             ask for fewer or raise the limit (ulimit -n)"
        );
        return Err(LoadError::BadPlan(message));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|error| LoadError::machine("the limit of open files")(error.into()))
}
