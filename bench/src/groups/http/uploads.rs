//! Can a client that is refused in the middle of its upload still read why?
//!
//! `http-refused-upload`: the server is full, since requests that take long hold every place. Then clients
//! come with bodies of 64 KiB, 512 KiB and 2 MiB, and each sends all of it before it reads. A server that
//! answers and closes at once makes the system reset the connection, and the answer is lost. The figure is
//! the share of the refused that read their 503 at 2 MiB; the smaller ones stand beside it.

use super::{contestants, exec, measure, percent};
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{AT_ONCE, Duty, Server, WAITING_MAX};
use millpond_load::{Arrivals, Measured, Plan, run};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Work that outlasts the uploads, and who holds a place for it.
const LONG_WORK: &str = r#"{"handler":"sleep","args":{"ms":50000}}"#;
const HOLDING: Duration = Duration::from_secs(60);
const SURPLUS: usize = 20;
const CLIENTS: usize = 42;
const SIZES: [(&str, usize); 3] = [("64KiB_pct", 64 << 10), ("512KiBpct", 512 << 10), ("2MiB_pct", 2 << 20)];
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn groups() -> Vec<Group> {
    vec![Group {
        name: "http-refused-upload",
        question: "42 clients upload to a server that is full, and read when all is sent",
        unit: "% of 2 MiB uploads that read their 503",
        better: Better::Higher,
        pace: Pace::Once,
        contestants: contestants(|_| Duty::Limited, uploads, false),
    }]
}

fn uploads(server: &Server, _: Duration) -> Result<Figures, String> {
    fill(server)?;
    let mut beside = Vec::new();
    for (name, bytes) in SIZES {
        // Whether it is JSON does not matter: nobody gets as far as reading it.
        let plan = exec(server, &vec![b' '; bytes]);
        let arrivals = Arrivals::Burst { clients: CLIENTS };
        let measured = measure(&Plan { arrivals, reads_early: false, timeout: PATIENCE, ..plan })?;
        let answered = measured.answered() - measured.refused().count;
        if answered > 0 {
            return Err(format!("{name}: expected a full server, got {answered} other answers"));
        }
        beside.push((name, percent(measured.refused().count, measured.begun)));
    }
    let main = beside.last().map_or(0.0, |(_, share)| *share);
    Ok(Figures { main, beside })
}

/// Lets more clients come than there are places; when one of them is refused, the server is full. Those who
/// hold a place stay until the server ends.
fn fill(server: &Server) -> Result<(), String> {
    let arrivals = Arrivals::Burst { clients: AT_ONCE + WAITING_MAX + SURPLUS };
    let plan = Plan { arrivals, timeout: HOLDING, ..exec(server, LONG_WORK.as_bytes()) };
    let (full, is_full) = mpsc::channel();
    thread::spawn(move || {
        let mut watch = |measured: &Measured| {
            if measured.refused().count > 0 {
                // Whoever waits for it may have been told before.
                let _ = full.send(());
            }
            ControlFlow::Continue(())
        };
        run(&plan, &mut watch).map(drop)
    });
    let late = |_| format!("expected a refusal after {} requests, got none", AT_ONCE + WAITING_MAX);
    is_full.recv_timeout(PATIENCE).map_err(late)
}
