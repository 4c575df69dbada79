//! `millpond load`: many clients at once against an HTTP server, and how long each answer took.
//!
//! The load comes from one thread (`crates/load`), so that on a small machine the server has the rest. What
//! is loaded is on this machine unless somebody says otherwise: a slip of the finger must not hit a stranger.
//!
//! Not here: the load of the control socket (`bench.rs`); a comparison with other servers (`bench/` at the
//! root of the repository).

mod report;
mod scenario;
mod target;

use crate::failure::{FAILED, Failure};
use crate::units::{grouped, parse_time, time};
use crate::{interrupt, output};
use clap::{Args, ValueEnum, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use millpond_load::{Address, Arrivals, LoadError, Measured, Plan, Readers, Request, run as make_run};
use scenario::Scenario;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};
use target::Target;

const CLIENTS_DEFAULT: usize = 100;
/// In an open loop a client is only a connection, and there must be enough of them for a server that stalls.
const CONNECTIONS_DEFAULT: usize = 2000;
const DURATION_DEFAULT: Duration = Duration::from_secs(30);
/// What is asked if only a server is named: a task that takes 10 ms and no processor time.
const EXEC_PATH: &str = "/v1/exec";
const EXEC_BODY: &str = r#"{"handler":"sleep","args":{"ms":10}}"#;

/// What `load` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond load 127.0.0.1:8080 --scenario normal      100 clients, 30 s, fails at 1 % of 503
  millpond load 127.0.0.1:8080 --scenario stress      500 clients, 60 s, everybody must be answered
  millpond load 127.0.0.1:8080/healthz --clients 50 --duration 5s --keep-alive off
  millpond load 127.0.0.1:8080 --rate 4000 --timeout 2s --json
  millpond load http://localhost:8080/v1/tasks --body @task.json --sse 20")]
pub(crate) struct LoadArguments {
    /// What to ask; a server alone is asked for POST /v1/exec with a task that sleeps for 10 ms
    #[arg(value_name = "URL", required_unless_present = "unix")]
    url: Option<String>,

    /// A known load test, with its expectations
    #[arg(long, value_enum)]
    scenario: Option<Scenario>,

    /// How many clients; with --rate, how many connections at most [default: 100; 2000 with --rate]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=65_536))]
    clients: Option<u64>,

    /// For how long requests are made [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// Open loop: so many requests a second, whatever the answers do
    #[arg(long, value_name = "PER SECOND")]
    rate: Option<f64>,

    /// Stop after so many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Whether connections are used again
    #[arg(long, value_enum, value_name = "WHETHER", default_value = "on")]
    keep_alive: Switch,

    /// The method [default: GET, or POST with a body]
    #[arg(long, value_name = "NAME")]
    method: Option<String>,

    /// The body, or @FILE
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,

    /// A header field; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,

    /// Bearer token [default: the variable MILLPOND_TOKEN, on this machine]
    #[arg(long, value_name = "TEXT")]
    token: Option<String>,

    /// So many readers listen to a stream of events meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u64).range(..=10_000))]
    sse: u64,

    /// What they listen to, such as /v1/tasks/t1/events
    #[arg(long, value_name = "PATH", default_value = "/v1/events", requires = "sse")]
    sse_path: String,

    /// When a client gives up
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5s")]
    timeout: Duration,

    /// The server's socket in the file system, instead of a port
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Load a server that is not on this machine
    #[arg(long)]
    allow_remote: bool,

    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) fn run(arguments: &LoadArguments) -> Result<(), Failure> {
    let target = Target::new(arguments.url.as_deref(), arguments.unix.as_deref(), arguments.allow_remote)
        .map_err(Failure::Usage)?;
    let plan = plan(arguments, target)?;
    interrupt::listen()?;
    let bar = bar(&plan);
    let measured = make_run(&plan, &mut |measured| watch(&bar, &plan, measured));
    bar.finish_and_clear();
    let measured = measured.map_err(|error| match error {
        LoadError::BadPlan(message) => Failure::Usage(message),
        error @ LoadError::Machine { .. } => Failure::Failed(error.to_string()),
    })?;
    if measured.answered() == 0 && measured.faults.unconnected > 0 {
        let why = measured.faults.first.unwrap_or_default();
        let remedy = "is it started, and with --listen?";
        return Err(Failure::NoDaemon(format!("{}: no server answers: {why}; {remedy}", plan.address)));
    }
    let missed = arguments.scenario.map(|scenario| (scenario, scenario.missed(&measured)));
    if arguments.json {
        output::print_json(&report::object(&plan, &measured, missed.as_ref()))?;
    } else {
        output::print(report::text(&plan, &measured, missed.as_ref()).as_bytes())?;
    }
    match missed {
        _ if interrupt::is_pressed() => Err(Failure::Interrupted),
        Some((_, missed)) if !missed.is_empty() => Err(Failure::Shown(FAILED)),
        _ => Ok(()),
    }
}

fn plan(arguments: &LoadArguments, target: Target) -> Result<Plan, Failure> {
    let LoadArguments { scenario, clients, duration, rate, requests, .. } = arguments;
    let clients = clients.map(|clients| usize::try_from(clients).unwrap_or(usize::MAX));
    let clients = clients.or(scenario.map(Scenario::clients));
    let arrivals = match *rate {
        Some(per_second) => {
            Arrivals::Open { per_second, connections_max: clients.unwrap_or(CONNECTIONS_DEFAULT) }
        }
        None => Arrivals::Closed { clients: clients.unwrap_or(CLIENTS_DEFAULT) },
    };
    let token =
        arguments.token.clone().or_else(|| env::var("MILLPOND_TOKEN").ok().filter(|_| target.is_here));
    let token = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let readers = (arguments.sse > 0).then(|| Readers {
        count: usize::try_from(arguments.sse).unwrap_or(usize::MAX),
        request: Request {
            path: arguments.sse_path.clone(),
            host: target.host.clone(),
            headers: [("Accept".to_owned(), "text/event-stream".to_owned())]
                .into_iter()
                .chain(token.clone())
                .collect(),
            ..Request::default()
        },
    });
    let request = request(arguments, &target, token)?;
    Ok(Plan {
        request,
        arrivals,
        keep_alive: arguments.keep_alive == Switch::On,
        duration: duration.or(scenario.map(Scenario::duration)).unwrap_or(DURATION_DEFAULT),
        requests_max: *requests,
        timeout: arguments.timeout,
        readers,
        ..Plan::new(target.address)
    })
}

fn request(
    arguments: &LoadArguments,
    target: &Target,
    token: Option<(String, String)>,
) -> Result<Request, Failure> {
    let is_default = target.path.is_none() && arguments.method.is_none() && arguments.body.is_none();
    let body = match &arguments.body {
        None if is_default => EXEC_BODY.as_bytes().to_vec(),
        None => Vec::new(),
        Some(text) => match text.strip_prefix('@') {
            None => text.clone().into_bytes(),
            Some(path) => fs::read(path).map_err(|error| Failure::Usage(format!("{path}: {error}")))?,
        },
    };
    let path = target.path.clone().unwrap_or_else(|| if is_default { EXEC_PATH } else { "/" }.to_owned());
    let method = arguments.method.clone();
    let method = method.unwrap_or_else(|| if body.is_empty() { "GET" } else { "POST" }.to_owned());
    let mut headers = arguments.headers.clone();
    let is_set = |name: &str| arguments.headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    if !body.is_empty() && !is_set("content-type") {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    headers.extend(token.filter(|_| !is_set("authorization")));
    Ok(Request { method, path, host: target.host.clone(), headers, body })
}

/// Hidden by itself when standard error is no terminal.
fn bar(plan: &Plan) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {msg}");
    let whole = plan.requests_max.unwrap_or(plan.duration.as_millis() as u64);
    ProgressBar::new(whole).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows how far it is; ends the run when Ctrl-C was pressed.
fn watch(bar: &ProgressBar, plan: &Plan, measured: &Measured) -> ControlFlow<()> {
    if interrupt::is_pressed() {
        return ControlFlow::Break(());
    }
    if !bar.is_hidden() {
        let (answered, accepted) = (measured.answered(), measured.accepted());
        let rate = answered as f64 / measured.elapsed.as_secs_f64().max(1e-9);
        let (refused, faults) = (measured.refused().count, measured.faults.count());
        let p99 = accepted.times.quantile(9_900).map_or("-".to_owned(), |nanos| time(nanos as f64));
        let listening = match measured.streams.begun {
            0 => String::new(),
            _ => format!(", {} events", grouped(measured.streams.events)),
        };
        bar.set_message(format!(
            "{} answers, {}/s, p99 {p99}, {} refused, {} lost, {} under way{listening}",
            grouped(answered),
            grouped(rate as u64),
            grouped(refused),
            grouped(faults),
            grouped(measured.under_way()),
        ));
        let done = match plan.requests_max {
            Some(_) => measured.begun,
            None => measured.elapsed.as_millis() as u64,
        };
        bar.set_position(done);
    }
    ControlFlow::Continue(())
}

/// `POST http://127.0.0.1:8080/v1/exec`, for people.
fn shown(plan: &Plan) -> String {
    let Request { method, path, host, .. } = &plan.request;
    match &plan.address {
        Address::Tcp(_) => output::harmless(&format!("{method} http://{host}{path}")).into_owned(),
        Address::Unix(socket) => {
            output::harmless(&format!("{method} {path} at {}", socket.display())).into_owned()
        }
    }
}
