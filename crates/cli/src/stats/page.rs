//! The page of figures for people: a summary, then a row for each worker, handler and program.
//!
//! Whatever there is none of is left out, so that a quiet daemon has a short page.

use super::{Control, Handler, Journal, Nats, Program, Results, Stats, Worker};
use crate::columns::{Cell, Heading, list, table};
use crate::output::harmless;
use crate::paint::{Paint, Tone};
use crate::units::{bytes, grouped, time};
use millpond_local::Hello;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn text(hello: &Hello, stats: &Stats) -> String {
    let paint = Paint::for_output();
    let uptime = time(Duration::from_millis(stats.uptime_ms).as_nanos() as f64);
    let draining = if stats.is_draining { paint.put(Tone::Doubtful, ", draining") } else { String::new() };
    let title = format!("millpond {}, pid {}, up for {uptime}", harmless(&hello.version), hello.pid);
    let mut text = format!("{}{draining}\n\n", paint.put(Tone::Strong, &title));
    text.push_str(&list(&summary(stats), paint));
    let mut part = |title: &str, table: String| {
        text.push_str(&format!("\n{}\n{table}", paint.put(Tone::Strong, title)));
    };
    part(&format!("Workers ({})", harmless(&stats.pool.strategy)), workers(&stats.pool.workers, paint));
    // Built-in handlers that nobody has used are many and say nothing.
    let used: Vec<_> = stats.handlers.iter().filter(|(_, handler)| handler.accepted > 0).collect();
    if !used.is_empty() {
        part("Handlers", handlers(&used, paint));
    }
    let programs_used: Vec<_> =
        used.iter().filter_map(|(name, handler)| Some((*name, handler.own.as_ref()?))).collect();
    if !programs_used.is_empty() {
        part("Programs", programs(&programs_used, paint));
    }
    text
}

fn summary(stats: &Stats) -> Vec<Vec<Cell>> {
    let row = |name: &str, value: String| vec![Cell::toned(Tone::Faint, name), Cell::new(value)];
    let failures: u64 = stats.failed.values().sum();
    let ended = match failures {
        0 => format!("{} done", grouped(stats.succeeded)),
        _ => {
            let (done, failed) = (grouped(stats.succeeded), grouped(failures));
            format!("{done} done, {failed} failed: {}", by_name(&stats.failed))
        }
    };
    let stages: BTreeMap<_, _> = stats
        .stages
        .iter()
        .filter(|(name, _)| *name != "ended")
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    let mut rows = vec![
        row("accepted", format!("{}, {ended}", grouped(stats.accepted))),
        row(
            "under way",
            match stats.live {
                0 => "none".to_owned(),
                live => format!("{} of {}: {}", grouped(live), grouped(stats.tasks_max), by_name(&stages)),
            },
        ),
        row("rate", format!("{} tasks/s", grouped(stats.rate as u64))),
    ];
    if stats.pool.queued > 0 {
        rows.push(row("queued", grouped(stats.pool.queued)));
    }
    if stats.retried > 0 {
        rows.push(row("retried", grouped(stats.retried)));
    }
    if !stats.refused.is_empty() {
        rows.push(row("refused", by_name(&stats.refused)));
    }
    let Results { kept, bytes: held, dropped, aged } = &stats.results;
    let gone = match dropped + aged {
        0 => String::new(),
        _ => format!(", {} dropped, {} too old", grouped(*dropped), grouped(*aged)),
    };
    let Control { connections, connections_max, in_flight } = &stats.control;
    let answers =
        if *in_flight == 0 { String::new() } else { format!(", {} answers to come", grouped(*in_flight)) };
    rows.push(row("clients", format!("{} of {}{answers}", grouped(*connections), grouped(*connections_max))));
    rows.push(row("results", format!("{} kept, {}{gone}", grouped(*kept), bytes(*held))));
    if stats.backlog > 0 {
        rows.push(row("backlog", format!("{} found no room in the queue", grouped(stats.backlog))));
    }
    if let Some(journal) = &stats.journal {
        rows.push(row("journal", journal_text(journal)));
    }
    if let Some(dead) = stats.dead_letters.as_ref().filter(|dead| dead.kept > 0) {
        rows.push(row("dead letters", format!("{} kept, {}", grouped(dead.kept), bytes(dead.bytes))));
    }
    if let Some(nats) = &stats.nats {
        rows.push(row("nats", nats_text(nats)));
    }
    rows
}

fn nats_text(nats: &Nats) -> String {
    let state = if nats.connected { "" } else { "not connected; " };
    let counted = [
        (nats.redelivered, "redelivered"),
        (nats.fenced, "too late"),
        (nats.dead, "dead letters"),
        (nats.unsent, "to be told"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let others: String = counted.map(|(count, what)| format!(", {} {what}", grouped(count))).collect();
    format!(
        "{state}queue {} of {}: {} of {} held, {} acknowledged{others}",
        harmless(&nats.queue),
        harmless(&nats.url),
        grouped(nats.in_flight),
        grouped(nats.slots),
        grouped(nats.acked)
    )
}

fn journal_text(journal: &Journal) -> String {
    let state = match (&*journal.state, &journal.reason) {
        ("ok", _) => String::new(),
        (state, Some(reason)) => format!("{}: {}; ", harmless(state), harmless(reason)),
        (state, None) => format!("{}; ", harmless(state)),
    };
    format!(
        "{state}{}, {}; {:.1} records a sync of {}, {} tasks came back",
        harmless(&journal.directory),
        bytes(journal.disk_bytes),
        journal.batch_records_mean,
        time(journal.sync_mean_us as f64 * 1000.0),
        grouped(journal.restored)
    )
}

/// `7 handler-crashed, 3 timed-out`; nothing of what there is none of.
fn by_name(counts: &BTreeMap<String, u64>) -> String {
    let some = counts.iter().filter(|(_, count)| **count > 0);
    let parts: Vec<_> = some.map(|(name, count)| format!("{} {}", grouped(*count), harmless(name))).collect();
    parts.join(", ")
}

fn workers(workers: &[Worker], paint: Paint) -> String {
    let headings = [
        Heading::right("worker"),
        Heading::left("now"),
        Heading::right("tasks"),
        Heading::right("waiting"),
        Heading::right("stolen"),
        Heading::right("busy"),
    ];
    let row = |worker: &Worker| {
        let (tone, now) = if worker.is_busy { (Tone::Good, "busy") } else { (Tone::Faint, "idle") };
        vec![
            Cell::new(worker.worker.to_string()),
            Cell::toned(tone, now),
            Cell::new(grouped(worker.completed)),
            Cell::new(grouped(worker.queued)),
            Cell::new(grouped(worker.stolen)),
            Cell::new(format!("{:.1} %", 100.0 * worker.utilisation)),
        ]
    };
    table(&headings, &workers.iter().map(row).collect::<Vec<_>>(), paint)
}

fn handlers(handlers: &[(&String, &Handler)], paint: Paint) -> String {
    let headings = [
        Heading::left("handler"),
        Heading::right("accepted"),
        Heading::right("done"),
        Heading::right("failed"),
        Heading::right("waited p50"),
        Heading::right("p99"),
        Heading::right("max"),
        Heading::right("ran p50"),
        Heading::right("p99"),
        Heading::right("max"),
    ];
    let micros = |micros: f64| Cell::new(time(micros * 1000.0));
    let row = |(name, handler): &(&String, &Handler)| {
        let failed = if handler.failed > 0 { Tone::Bad } else { Tone::Plain };
        let Handler { waited, ran, .. } = handler;
        vec![
            Cell::toned(Tone::Strong, harmless(name)),
            Cell::new(grouped(handler.accepted)),
            Cell::new(grouped(handler.succeeded)),
            Cell::toned(failed, grouped(handler.failed)),
            micros(waited.p50_us),
            micros(waited.p99_us),
            micros(waited.max_us),
            micros(ran.p50_us),
            micros(ran.p99_us),
            micros(ran.max_us),
        ]
    };
    table(&headings, &handlers.iter().map(row).collect::<Vec<_>>(), paint)
}

fn programs(programs: &[(&String, &Program)], paint: Paint) -> String {
    let headings = [
        Heading::left("handler"),
        Heading::right("processes"),
        Heading::right("busy"),
        Heading::right("waiting"),
        Heading::right("crashes"),
        Heading::right("restarts"),
        Heading::left("now"),
    ];
    let row = |(name, program): &(&String, &Program)| {
        let crashes = if program.crashes > 0 { Tone::Bad } else { Tone::Plain };
        let (tone, now) = match (&program.broken, program.rest_ms) {
            (Some(why), _) => (Tone::Bad, harmless(why).into_owned()),
            (None, Some(ms)) => (Tone::Doubtful, format!("starts again in {}", time(ms as f64 * 1e6))),
            (None, None) => (Tone::Plain, String::new()),
        };
        vec![
            Cell::toned(Tone::Strong, harmless(name)),
            Cell::new(format!("{} of {}", grouped(program.processes), grouped(program.concurrency))),
            Cell::new(grouped(program.busy)),
            Cell::new(grouped(program.waiting)),
            Cell::toned(crashes, grouped(program.crashes)),
            Cell::new(grouped(program.restarts)),
            Cell::toned(tone, now),
        ]
    };
    table(&headings, &programs.iter().map(row).collect::<Vec<_>>(), paint)
}
