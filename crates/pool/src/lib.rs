//! A worker pool you can link: bounded, work-stealing, cancellable, and fast.
//!
//! Read one task's way from left to right:
//!
//! | files | what they decide |
//! |---|---|
//! | `handle.rs`, `options.rs`, `scope.rs`, `join.rs` | how a task is given to the pool |
//! | `route.rs`, `lanes.rs`, `task.rs` | which queue it waits in, and as what |
//! | `strategy.rs`, `affinity.rs`, `pressure.rs`, `why.rs` | which worker gets it, what a full queue means, and why |
//! | `worker.rs`, `worker/find.rs`, `steal.rs`, `run.rs`, `park.rs` | who finds it, takes it over, runs it, or sleeps |
//! | `cell.rs`, `state.rs`, `job.rs`, `ticket.rs`, `timer.rs` | how its result comes back, or its end |
//! | `pool.rs`, `crew.rs`, `life.rs` | how many workers there are, and how it all ends |
//! | `metrics.rs`, `latency.rs`, `prometheus.rs`, `events.rs` | what the pool tells about itself |
//!
//! `SLEEP.md` is about waking workers, `ORDERING.md` lists every edge by which one thread's writes reach another.
//!
//! Not here: the queues themselves (`millpond-queue`), and what is decided where there is a choice (`millpond-policy`).

#![cfg_attr(any(loom, shuttle), allow(dead_code, reason = "the models use a part of what there is"))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may end where it stands"))]

pub(crate) use millpond_queue::{edge, futex, sync};

// What the models are about: built for the checkers as well.
mod barrier;
mod block;
mod cell;
mod counters;
mod error;
mod heir;
#[cfg(all(test, any(loom, shuttle)))]
mod heir_model;
mod job;
mod offer;
#[cfg(all(test, any(loom, shuttle)))]
mod offer_model;
mod options;
mod patience;
mod pending;
#[cfg(all(test, any(loom, shuttle)))]
mod pending_model;
mod presence;
#[cfg(all(test, any(loom, shuttle)))]
mod presence_model;
mod schedule;
mod sleep;
#[cfg(all(test, any(loom, shuttle)))]
mod sleep_model;
mod state;
#[cfg(all(test, any(loom, shuttle)))]
mod state_model;
#[cfg(all(test, any(loom, shuttle)))]
mod state_ticket_model;
#[cfg(all(test, any(loom, shuttle)))]
mod state_wake_model;
mod task;
mod ticket;
mod timer;
mod token;
#[cfg(test)]
mod toy;
mod waker;
mod why;
mod work;

#[cfg(any(loom, shuttle))]
pub(crate) use millpond_queue::model;

// What stands on real threads: built for the product alone.
#[cfg(not(any(loom, shuttle)))]
mod affinity;
#[cfg(not(any(loom, shuttle)))]
mod blocking;
#[cfg(not(any(loom, shuttle)))]
mod config;
#[cfg(not(any(loom, shuttle)))]
mod crew;
#[cfg(not(any(loom, shuttle)))]
mod current;
#[cfg(not(any(loom, shuttle)))]
mod dispatch;
#[cfg(not(any(loom, shuttle)))]
mod events;
#[cfg(not(any(loom, shuttle)))]
mod futures;
#[cfg(not(any(loom, shuttle)))]
mod handle;
#[cfg(not(any(loom, shuttle)))]
mod join;
#[cfg(not(any(loom, shuttle)))]
mod lanes;
#[cfg(not(any(loom, shuttle)))]
mod latency;
#[cfg(not(any(loom, shuttle)))]
mod life;
#[cfg(not(any(loom, shuttle)))]
mod metrics;
#[cfg(not(any(loom, shuttle)))]
mod overflow;
#[cfg(not(any(loom, shuttle)))]
mod pace;
#[cfg(not(any(loom, shuttle)))]
mod pin;
#[cfg(not(any(loom, shuttle)))]
mod pool;
#[cfg(not(any(loom, shuttle)))]
mod pressure;
#[cfg(not(any(loom, shuttle)))]
mod prometheus;
#[cfg(not(any(loom, shuttle)))]
mod route;
#[cfg(not(any(loom, shuttle)))]
mod scaling;
#[cfg(not(any(loom, shuttle)))]
mod scope;
#[cfg(not(any(loom, shuttle)))]
mod seat;
#[cfg(not(any(loom, shuttle)))]
mod shared;
#[cfg(not(any(loom, shuttle)))]
mod stack;
#[cfg(not(any(loom, shuttle)))]
mod strategy;
#[cfg(not(any(loom, shuttle)))]
mod vacancies;
#[cfg(not(any(loom, shuttle)))]
mod worker;

#[cfg(not(any(loom, shuttle)))]
pub use {
    blocking::{YieldNow, block_on, blocking, yield_now},
    config::{Hook, PoolConfig, StartError, WORKERS_MAX},
    current::current_worker,
    events::{Event, EventKind, Events},
    handle::{BatchResult, PoolHandle, Submission},
    join::join,
    latency::MetricsConfig,
    life::Report,
    metrics::{
        AffinityMetrics, LatencyBucket, LatencyMetrics, Metrics, PressureMetrics, QueueMetrics, ScaleMetrics,
        StealMetrics, ThroughputMetrics, WorkerMetrics,
    },
    millpond_policy::{
        self as policy, BadSetting, Moment,
        admit::Policy as BackPressure,
        affinity::{AffinitySettings, Method as AffinityMethod},
        scale::{Predict, ScaleSettings},
        steal::{StealSettings, StealSize},
    },
    millpond_queue::GateStats,
    pool::Pool,
    prometheus::{PROMETHEUS_CONTENT_TYPE, prometheus_text},
    scope::Scope,
    strategy::Strategy,
};

pub use block::{kept_bytes, kept_bytes_max, set_kept_bytes_max};
pub use counters::Ending;
pub use error::{BatchError, CancelAnswer, Panic, Refused, SubmitError, TaskError};
pub use options::{Priority, TaskOptions};
pub use ticket::Ticket;
pub use token::{CancelToken, is_cancelled};
pub use why::{Placed, Stands, Why};

/// The snippets of the pages, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/pool.md")]
#[doc = include_str!("../../../docs/policies.md")]
#[doc = include_str!("../../../docs/metrics.md")]
struct Pages;

/// What a scope lends stays in it.
///
/// ```compile_fail,E0521
/// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
/// let mut kept = None;
/// pool.scope(|scope| kept = Some(scope)); // nobody could spawn into a scope that is over
/// ```
///
/// ```compile_fail,E0521
/// let pool = millpond::Pool::start(millpond::PoolConfig::default()).unwrap();
/// let handle = pool.handle();
/// pool.scope(|scope| handle.submit(move || scope.spawn(|| ())).unwrap()); // a task that may outlive the scope
/// ```
#[cfg(doctest)]
struct Scopes;
