//! What is left of a task's way through the daemon when the socket is taken away, and then everything but the
//! pool?
//!
//! `tasks-inside`: the same tasks and the same 64 under way, by a thread of the same process. The row
//! `millpond` hands requests to the service, as the control socket does; the difference to `tasks-socket` is
//! the price of the socket. The row with `~` hands closures to the pool, with no JSON, no task and no
//! outcome; the difference to it is the price of the service.
//!
//! Not here: pools against each other (`groups/pool/`).

use super::{contestant, group};
use crate::measure::Group;
use crate::peers::tasks::millpond_service;

pub(super) fn groups() -> Vec<Group> {
    let contestants = vec![
        contestant("millpond", millpond_service::start_service),
        contestant("~millpond pool", millpond_service::start_pool),
    ];
    vec![group("tasks-inside", "small JSON tasks within one process, 64 under way, two workers", contestants)]
}
