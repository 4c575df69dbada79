//! Version 2 of the region: tasks between processes of which any may be killed at any instruction.
//!
//! Slots hold the tasks and their state is the truth; rings carry slot indices as hints; a sweep brings back what
//! the dead held. The parts, from the bottom up:
//!
//! | file | question |
//! |---|---|
//! | `v2_geometry.rs` | where does everything lie? |
//! | `v2_ring.rs` | how do indices travel without anybody able to stop the others? |
//! | `v2_slots.rs` | what may happen to a slot, and who decides? |
//! | `v2_wait.rs` | how does a peer sleep until there is something? |
//! | `v2_region.rs`, `v2_record.rs` | who may build, open, close, attach? |
//! | `v2_peer.rs`, `v2_task.rs`, `v2_ticket.rs` | how is a task submitted, run, fetched? |
//! | `v2_batch.rs` | how are many at once? |
//! | `v2_reserve.rs` | how is one written in place? |
//! | `v2_reaper.rs` | what happens to what the dead held? |

pub use super::error::{FinishError, StartError, SubmitError, SweepError, TicketError};
pub use super::v2_geometry::Config;
pub use super::v2_peer::{Peer, Submission, lane_for};
pub use super::v2_reaper::{DeathPolicy, Reaper, Sweep};
pub use super::v2_record::{Identity, Record};
pub use super::v2_region::{Census, Region};
pub use super::v2_reserve::Reserved;
pub use super::v2_task::Running;
pub use super::v2_ticket::{Cancel, Progress, Ticket};
pub use super::v2_wait::NAP_MAX;
