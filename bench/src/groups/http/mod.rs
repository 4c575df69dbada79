//! The groups about HTTP: our daemon beside nginx, haproxy and plain hyper, loaded over loopback.
//!
//! A round starts each server as a process, warms it up, loads it with the generator of `millpond load`, and
//! ends it. Processor time is that of all processes of the server. Every answer's status and length is looked
//! at; a server that answers anything else than it should ends the run with an error.
//!
//! Not here: how the servers are set up (`peers/http/`), how requests are made (`crates/load`).

mod burst;
mod idle;
mod overload;
mod plain;
mod probe;
mod slow_heads;
mod uploads;

use crate::cores;
use crate::measure::{Contestant, Figures, Group, Round};
use crate::peers::http::{Duty, Server, Start, haproxy, hyper, millpond, nginx};
use crate::peers::tasks::millpond_daemon;
use millpond_load::{Address, Answers, Measured, Plan, Request, run};
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

/// How long a round loads for every item of the round: five seconds for a full one.
const PER_ITEM: Duration = Duration::from_micros(5);
/// What a limited server is asked: ten milliseconds of work that needs no processor.
const WORK: &str = r#"{"handler":"sleep","args":{"ms":10}}"#;
const WORK_PATH: &str = "/v1/exec";

pub(crate) fn groups() -> Vec<Group> {
    let groups = [
        plain::groups(),
        overload::groups(),
        burst::groups(),
        uploads::groups(),
        idle::groups(),
        slow_heads::groups(),
    ];
    groups.into_iter().flatten().collect()
}

/// What a round does with a server that runs.
type Load = fn(&Server, Duration) -> Result<Figures, String>;

/// Every server that can bear the load: ours, and those of the list.
fn contestants(duty: fn(Duration) -> Duty, load: Load, with_bare_hyper: bool) -> Vec<Contestant> {
    let one = |peer, start: Start| {
        Contestant::new(peer, move |round: &Round| make_round(*round, start, duty, load))
    };
    let programs = || millpond_daemon::programs().map(drop);
    let mut contestants = vec![
        one("millpond", millpond::start).needing(programs),
        one("nginx", nginx::start).needing(move || programs().and_then(|()| nginx::program().map(drop))),
        one("haproxy", haproxy::start)
            .needing(move || programs().and_then(|()| haproxy::program().map(drop))),
    ];
    if with_bare_hyper {
        contestants.push(one("hyper", hyper::start).needing(programs));
    }
    contestants
}

/// On a thread of its own: it may be bound to a core, and the next round's must not be.
fn make_round(round: Round, start: Start, duty: fn(Duration) -> Duty, load: Load) -> Result<Figures, String> {
    let items = u32::try_from(round.items).unwrap_or(u32::MAX);
    let duration = PER_ITEM * items;
    let act = move || {
        let begin = || start(duty(duration));
        let server = if round.pinned { cores::apart(begin) } else { begin() }?;
        load(&server, duration)
    };
    thread::spawn(act).join().map_err(|_| "the load panicked; its message stands above".to_owned())?
}

/// `GET /healthz`.
fn healthz(server: &Server) -> Plan {
    let address = server.address;
    let request = Request { path: "/healthz".into(), host: address.to_string(), ..Request::default() };
    Plan { request, ..Plan::new(Address::Tcp(address)) }
}

/// `POST /v1/exec`, with this body.
fn exec(server: &Server, body: &[u8]) -> Plan {
    let address = server.address;
    let request = Request {
        method: "POST".into(),
        path: WORK_PATH.into(),
        host: address.to_string(),
        headers: vec![("Content-Type".into(), "application/json".into())],
        body: body.to_vec(),
    };
    Plan { request, ..Plan::new(Address::Tcp(address)) }
}

fn measure(plan: &Plan) -> Result<Measured, String> {
    run(plan, &mut |_| ControlFlow::Continue(())).map_err(|error| error.to_string())
}

/// Fails unless all answers are of these statuses.
fn only(measured: &Measured, allowed: &[u16]) -> Result<(), String> {
    match measured.statuses.iter().find(|(status, _)| !allowed.contains(status)) {
        None => Ok(()),
        Some((status, answers)) => {
            Err(format!("expected answers with {allowed:?}, got {} with {status}", answers.count))
        }
    }
}

/// Milliseconds that this share of the answers did not exceed; nought if there are none.
fn milliseconds(answers: &Answers, per_10_000: u32) -> f64 {
    answers.times.quantile(per_10_000).unwrap_or(0) as f64 / 1e6
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_another_status_ends_the_round() {
        let statuses = [(200, Answers { count: 5, ..Answers::default() })].into_iter().collect();
        let measured = Measured { statuses, ..Measured::default() };
        assert_eq!(only(&measured, &[200, 503]), Ok(()));
        assert_eq!(only(&measured, &[503]), Err("expected answers with [503], got 5 with 200".to_owned()));
    }
}
