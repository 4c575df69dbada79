//! How many small tasks a second pass through a task server on this machine, and how long does each take?
//!
//! `tasks-socket`: every server is a process, reached over a socket. Ours runs the tasks itself, on two
//! workers; the others hand them to two workers outside, which is how they are made, and so does our row
//! `millpond command`. beanstalkd knows no results and gets them through a second tube; its row with `~`
//! leaves them out, and with them half of its work. Workers take several tasks at once where the protocol
//! lets them. Client libraries seldom do, so gearmand, which gains most by it, has a row without.
//!
//! Not here: the same without a socket (`inside.rs`).

use super::{contestant, group};
use crate::measure::Group;
use crate::peers::tasks::{beanstalkd, gearmand, millpond_daemon, redis};

pub(super) fn groups() -> Vec<Group> {
    let ours = || millpond_daemon::programs().map(drop);
    let beanstalkd = || beanstalkd::program().map(drop);
    let gearmand = || gearmand::program().map(drop);
    let redis = || redis::program().map(drop);
    let contestants = vec![
        contestant("millpond", millpond_daemon::start).needing(ours),
        contestant("millpond command", millpond_daemon::start_outside).needing(ours),
        contestant("beanstalkd", beanstalkd::start_both_ways).needing(beanstalkd),
        contestant("~beanstalkd one way", beanstalkd::start_one_way).needing(beanstalkd),
        contestant("gearmand", gearmand::start).needing(gearmand),
        contestant("gearmand one a grab", gearmand::start_one_a_grab).needing(gearmand),
        contestant("redis lists", redis::start).needing(redis),
    ];
    vec![group("tasks-socket", "small JSON tasks through a server, 64 under way, two workers", contestants)]
}
