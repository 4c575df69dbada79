//! `millpond top`: the running daemon on one screen, as it works: workers, queues, handlers, rates and latencies.
//!
//! It asks the daemon for its figures a few times a second and shows what changed between two answers. With
//! `--once`, or where there is no terminal, it prints one picture and ends.
//!
//! Not here: what the figures mean (`millpond_tasks::Stats`), how they are compared (`sample.rs`) and drawn
//! (`screen.rs`).

mod sample;
mod screen;

use crate::daemon::{Daemon, DaemonArguments};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use millpond_local::Kind;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use sample::{Moment, Trend};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How large a picture is where there is no terminal.
const PLAIN_SIZE: (u16, u16) = (100, 30);
/// How many running tasks are asked for.
const TASKS_SHOWN: usize = 50;

/// What `top` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond top                  live, until q is pressed; space holds the picture still
  millpond top --once           one picture, for a log or a mail
  millpond top --json --once    all figures, for a program")]
pub(crate) struct TopArguments {
    /// How often to look, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    interval: u64,

    /// Print one picture and end
    #[arg(long)]
    once: bool,

    /// Print the figures as JSON: one object, or one a line without --once
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

pub(crate) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let interval = Duration::from_millis(arguments.interval);
    if arguments.json {
        return print_json(&mut daemon, interval, arguments.once);
    }
    let mut trend = Trend::new(look(&mut daemon)?);
    if arguments.once || !io::stdout().is_terminal() {
        std::thread::sleep(interval);
        trend.add(look(&mut daemon)?);
        return print_picture(&trend);
    }
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::Failed(format!("the terminal cannot be used: {error}; try --once")))?;
    let done = watch(&mut terminal, &mut daemon, &mut trend, interval);
    ratatui::restore();
    done
}

/// Draws again and again, until somebody presses q.
fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    daemon: &mut Daemon,
    trend: &mut Trend,
    interval: Duration,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("the terminal cannot be used: {error}"));
    let mut is_held = false;
    loop {
        terminal.draw(|frame| screen::draw(frame, trend, is_held)).map_err(failed)?;
        let next = Instant::now() + interval;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() || !event::poll(left).map_err(failed)? {
                break;
            }
            let Event::Key(key) = event::read().map_err(failed)? else { break };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                KeyCode::Char(' ') => is_held = !is_held,
                _ => {}
            }
            break;
        }
        if !is_held {
            trend.add(look(daemon)?);
        }
    }
}

/// Asks the daemon for its figures and for what runs.
fn look(daemon: &mut Daemon) -> Result<Moment, Failure> {
    let hello = daemon.hello();
    let (version, pid) = (hello.version.clone(), hello.pid);
    let stats = ask(daemon, Kind::Stats, b"{}", Kind::Numbers)?;
    let asked = format!("{{\"stage\":\"running\",\"max\":{TASKS_SHOWN}}}");
    let tasks = ask(daemon, Kind::List, asked.as_bytes(), Kind::Tasks)?;
    Moment::read(version, pid, &stats, &tasks)
        .map_err(|error| Failure::Failed(format!("the daemon's figures cannot be read: {error}")))
}

/// The payload of the daemon's answer.
fn ask(daemon: &mut Daemon, kind: Kind, payload: &[u8], expected: Kind) -> Result<Vec<u8>, Failure> {
    daemon.ask(kind, payload, expected)?.map_err(|refusal| Failure::Refused(refusal.in_words()))
}

fn print_json(daemon: &mut Daemon, interval: Duration, once: bool) -> Result<(), Failure> {
    loop {
        let mut line = ask(daemon, Kind::Stats, b"{}", Kind::Numbers)?;
        line.push(b'\n');
        output::print(&line)?;
        if once {
            return Ok(());
        }
        std::thread::sleep(interval);
    }
}

/// The same picture as on a terminal, as text.
fn print_picture(trend: &Trend) -> Result<(), Failure> {
    let (width, height) = PLAIN_SIZE;
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("a picture in memory cannot fail to be made");
    terminal.draw(|frame| screen::draw(frame, trend, false)).expect("nor to be drawn");
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(width)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    output::print(text.as_bytes())
}
