//! What `top` looks like: a head with the rate, the workers beside the handlers, and below them what runs.
//!
//! Colours say nothing that words or figures do not say too.

use super::sample::{Running, Trend};
use crate::output::harmless;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use std::time::Duration;

/// Draws one picture.
pub(super) fn draw(frame: &mut Frame<'_>, trend: &Trend, is_held: bool) {
    let workers = trend.now.figures.pool.workers.len() as u16;
    let middle = (workers.max(trend.now.figures.handlers.len() as u16) + 3).min(14);
    let [head, curve, lists, tasks, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(6),
        Constraint::Length(middle),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let [left, right] = Layout::horizontal([Constraint::Length(39), Constraint::Min(40)]).areas(lists);
    draw_head(frame, head, trend);
    draw_curve(frame, curve, trend);
    draw_workers(frame, left, trend);
    draw_handlers(frame, right, trend);
    draw_tasks(frame, tasks, trend);
    let keys =
        if is_held { " held still · space goes on · q ends" } else { " space holds still · q ends" };
    frame.render_widget(Paragraph::new(keys).dim(), foot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, trend: &Trend) {
    let now = &trend.now;
    let figures = &now.figures;
    let state = if figures.is_draining { " · draining" } else { "" };
    let title = format!(
        " millpond {} · pid {} · up {} · strategy {}{state} ",
        now.version,
        now.pid,
        clock(figures.uptime_ms),
        figures.pool.strategy
    );
    let block = Block::bordered().title(title.bold());
    let failed: u64 = figures.failed.values().sum();
    let refused: u64 = figures.refused.values().sum();
    let stage = |name: &str| figures.stages.get(name).copied().unwrap_or_default();
    let first = Line::from(vec![
        figure("tasks/s", &number(trend.ended_rate())),
        figure("accepted/s", &number(trend.accepted_rate())),
        figure("running", &stage("running").to_string()),
        figure("queued", &format!("{}/{}", figures.pool.queued, figures.pool.queue_capacity)),
        figure("live", &format!("{}/{}", figures.live, figures.tasks_max)),
    ]);
    let second = Line::from(vec![
        figure("done", &figures.succeeded.to_string()),
        warning("failed", failed),
        warning("refused", refused),
        figure("retried", &figures.retried.to_string()),
        figure("delayed", &(stage("delayed") + stage("retrying")).to_string()),
        figure("kept", &format!("{} ({})", figures.results.kept, bytes(figures.results.bytes))),
        warning("dropped", figures.results.dropped),
    ]);
    frame.render_widget(Paragraph::new(vec![first, second]).block(block), area);
}

fn figure<'a>(name: &str, value: &str) -> Span<'a> {
    Span::from(format!(" {name} {value}  "))
}

fn warning<'a>(name: &str, count: u64) -> Span<'a> {
    let span = figure(name, &count.to_string());
    if count > 0 { span.fg(Color::Yellow) } else { span }
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, trend: &Trend) {
    let highest = trend.rates().max().unwrap_or_default();
    let block =
        Block::bordered().title(format!(" tasks ended a second · highest {} ", number(highest as f64)));
    let width = usize::from(area.width.saturating_sub(2));
    // The newest stands at the right edge.
    let mut shown: Vec<u64> = trend.rates().rev().take(width).collect();
    shown.resize(width, 0);
    shown.reverse();
    let curve = Sparkline::default().block(block).data(shown).style(Style::new().fg(Color::Cyan));
    frame.render_widget(curve, area);
}

fn draw_workers(frame: &mut Frame<'_>, area: Rect, trend: &Trend) {
    let rows = trend.now.figures.pool.workers.iter().map(|worker| {
        let busy = trend.busy(worker.worker);
        let state =
            if worker.is_busy { Cell::from("busy").fg(Color::Green) } else { Cell::from("idle").dim() };
        Row::new(vec![
            right(worker.worker.to_string()),
            state,
            Cell::from(bar(busy, 8)),
            right(short(worker.completed)),
            right(worker.queued.to_string()),
            right(short(worker.stolen)),
        ])
    });
    let widths = [3, 4, 8, 6, 5, 6].map(Constraint::Length);
    let head = Row::new(vec![
        right("#"),
        Cell::from(""),
        Cell::from("busy"),
        right("done"),
        right("queue"),
        right("stolen"),
    ]);
    frame.render_widget(
        Table::new(rows, widths).header(head.bold()).block(Block::bordered().title(" workers ")),
        area,
    );
}

fn draw_handlers(frame: &mut Frame<'_>, area: Rect, trend: &Trend) {
    let mut handlers: Vec<_> = trend.now.figures.handlers.iter().collect();
    // Those that do something come first.
    handlers.sort_by(|(a, of_a), (b, of_b)| of_b.accepted.cmp(&of_a.accepted).then(a.cmp(b)));
    let rows = handlers.into_iter().map(|(name, of)| {
        Row::new(vec![
            Cell::from(harmless(name).into_owned()),
            right(number(trend.handler_rate(name))),
            right(short(of.succeeded)),
            if of.failed > 0 { right(short(of.failed)).fg(Color::Yellow) } else { right("0") },
            right(time(of.waited.p99_us)),
            right(time(of.ran.p50_us)),
            right(time(of.ran.p99_us)),
        ])
    });
    let widths = [
        Constraint::Min(11),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
    ];
    let names = ["/s", "done", "failed", "wait99", "run50", "run99"];
    let head = Row::new([Cell::from("handler")].into_iter().chain(names.map(right)));
    let block = Block::bordered().title(" handlers ");
    frame.render_widget(Table::new(rows, widths).header(head.bold()).block(block), area);
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, trend: &Trend) {
    let rows = trend.now.running.iter().map(|task: &Running| {
        let id = task.task_id.as_str().map_or_else(|| task.task_id.to_string(), str::to_owned);
        let progress = task
            .progress
            .map_or_else(String::new, |part| format!("{} {:>3.0} %", bar(part, 20), part * 100.0));
        Row::new(vec![
            Cell::from(harmless(&id).into_owned()),
            Cell::from(harmless(&task.handler).into_owned()),
            right(task.attempts.to_string()),
            right(time(task.ran_us.unwrap_or_default() as f64)),
            Cell::from(progress),
        ])
    });
    let widths = [
        Constraint::Length(24),
        Constraint::Length(20),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Min(10),
    ];
    let head = Row::new(vec![
        Cell::from("task"),
        Cell::from("handler"),
        right("attempt"),
        right("running"),
        Cell::from("progress"),
    ]);
    let block = Block::bordered().title(format!(" running now: {} ", trend.now.running.len()));
    frame.render_widget(Table::new(rows, widths).header(head.bold()).block(block), area);
}

fn right<'a>(text: impl Into<String>) -> Cell<'a> {
    Cell::from(Line::from(text.into()).alignment(Alignment::Right))
}

/// A bar of so many letters, to be read without colours.
fn bar(part: f64, letters: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * letters as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(letters - full))
}

/// A rate or a count: `12`, `1 234`, `123 456`.
fn number(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count in at most six letters.
fn short(count: u64) -> String {
    match count {
        0..=99_999 => count.to_string(),
        100_000..=9_999_999 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// A time of so many microseconds, with three figures.
fn time(us: f64) -> String {
    match us {
        us if us < 1.0 => "0".to_owned(),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us if us < 100_000_000.0 => format!("{:.1} s", us / 1e6),
        us => clock((us / 1e3) as u64),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..=1023 => format!("{count} B"),
        1024..=1_048_575 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

fn clock(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::moment;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn picture(width: u16, height: u16) -> String {
        let mut trend = Trend::new(moment(10_000, 1_000, 0.5));
        trend.add(moment(12_000, 251_000, 0.5));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &trend, false)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_picture_has_the_rate_the_workers_the_handlers_and_what_runs() {
        let picture = picture(100, 30);
        for part in [
            "millpond 0.1.0 · pid 17 · up 00:00:12 · strategy shared",
            "tasks/s 125 000",
            "failed 1",
            "refused 2",
            "queued 2/1024",
            "highest 125 000",
            "████░░░░",
            "echo",
            "2.5 ms",
            "t9",
            "25 %",
        ] {
            assert!(picture.contains(part), "{part:?} is not in\n{picture}");
        }
    }

    #[test]
    fn no_terminal_is_too_small_to_live() {
        for (width, height) in [(1, 1), (10, 3), (40, 10), (300, 4), (20, 80)] {
            picture(width, height);
        }
    }

    #[test]
    fn figures_are_short_and_readable() {
        assert_eq!([7, 99_999, 251_999, 12_345_678].map(short), ["7", "99999", "251k", "12M"]);
        assert_eq!([0.0, 999.0, 1_234.4, 1_234_567.0].map(number), ["0", "999", "1 234", "1 234 567"]);
        assert_eq!(
            [0.2, 15.0, 2_500.0, 250_000.0, 2_500_000.0, 3_600e6].map(time),
            ["0", "15 µs", "2.5 ms", "250 ms", "2.5 s", "01:00:00"]
        );
    }
}
