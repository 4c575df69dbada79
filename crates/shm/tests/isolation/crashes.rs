//! Ways to die: what the task is told, and that nobody else notices.
//!
//! While one handler dies, others are at work in processes beside it, and each of their answers is looked at.

use crate::Scenario;
use crate::bed::{
    Bed, LONG, descendants, failure, kill, lives, result, settings, state, until, workers, zygote,
};
use millpond_tasks::{ErrorCode, Said, Submit, Wants};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("every_way_to_die_costs_one_task_and_no_other", every_way_to_die_costs_one_task_and_no_other),
    ("a_panic_costs_its_task_and_not_even_the_process", a_panic_costs_its_task_and_not_even_the_process),
    ("a_handler_that_runs_too_long_is_killed", a_handler_that_runs_too_long_is_killed),
    ("a_retry_gets_another_process_and_the_next_number", a_retry_gets_another_process_and_the_next_number),
    ("a_process_that_dies_idle_costs_no_task", a_process_that_dies_idle_costs_no_task),
    ("what_a_dead_process_had_started_dies_too", what_a_dead_process_had_started_dies_too),
    ("without_its_zygote_tasks_fail_and_do_not_hang", without_its_zygote_tasks_fail_and_do_not_hang),
];

const MEMORY: u64 = 192 << 20;

/// Keeps others at work while `act` runs; none of them may fail. How many there were.
fn among_others(bed: &Bed, act: impl FnOnce()) -> u64 {
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for lane in 0..2_u64 {
            let (is_over, done) = (&is_over, &done);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    let n = lane << 32 | done.fetch_add(1, Relaxed);
                    let request = json!({"handler": "echo", "args": {"n": n}});
                    assert_eq!(result(&bed.submit(&request)), json!({"n": n}));
                }
            });
        }
        act();
        is_over.store(true, Relaxed);
    });
    done.into_inner()
}

fn every_way_to_die_costs_one_task_and_no_other() {
    let mut settings = settings(3);
    settings.isolation.memory_bytes_max = Some(MEMORY);
    let bed = Bed::with(&settings);
    let ways = [
        ("touch bad memory", "killed by signal 11 (SIGSEGV)"),
        ("abort", "killed by signal 6 (SIGABRT)"),
        ("be killed", "killed by signal 9 (SIGKILL): perhaps by the kernel"),
        ("exit", "exited with status 3"),
        ("leak", "isolation_memory_max = 201326592"),
        ("use what you have", "MiB of memory (isolation_memory_max = 201326592) and was killed"),
    ];
    let others = among_others(&bed, || {
        for _ in 0..3 {
            for (what, words) in ways {
                let task = bed.ask(what);
                let failure = failure(&task);
                assert_eq!(failure.code, ErrorCode::HandlerCrashed, "{failure}");
                let named = [words, &format!("task {}", task.id()), "misbehave"];
                assert!(named.iter().all(|word| failure.message.contains(word)), "{what}: {failure}");
                assert!(bed.has_line(&["warn isolation: worker process", &task.id().to_string()]));
            }
        }
    });
    assert!(others > 0);
    assert_eq!((bed.stats("crashes"), bed.stats("stops")), (18, 0));
    until("all processes are back", || bed.stats("processes") == 3);
    bed.service.stop(LONG);
}

fn a_panic_costs_its_task_and_not_even_the_process() {
    let bed = Bed::new(1);
    let pid = bed.pid();
    let failure = failure(&bed.ask("panic"));
    assert_eq!((failure.code, failure.message.contains("as asked")), (ErrorCode::HandlerCrashed, true));
    assert_eq!(bed.pid(), pid);
}

fn a_handler_that_runs_too_long_is_killed() {
    let bed = Bed::new(1);
    let pid = bed.pid();
    let stuck = json!({"handler": "misbehave", "args": {"do": "run for ever"}, "timeout_ms": 300});
    let stuck = bed.submit(&stuck);
    // Two workers of the pool ask for the one process, and either may come first.
    until("it runs", || stuck.detail().status.progress.is_some());
    let behind = bed.ask("tell your pid");
    let failure = failure(&stuck);
    assert_eq!(failure.code, ErrorCode::TimedOut, "{failure}");
    let next = result(&behind)["pid"].as_u64().unwrap();
    assert_ne!(next, pid, "another process does what waited");
    assert!(!lives(pid as i32));
    assert_eq!((bed.stats("crashes"), bed.stats("stops")), (0, 1));
}

fn a_retry_gets_another_process_and_the_next_number() {
    let bed = Bed::new(2);
    let request = json!({"handler": "misbehave", "args": {"do": "crash once"}, "retries": 1});
    assert_eq!(result(&bed.submit(&request)), json!({"attempt": 2}));
}

fn a_process_that_dies_idle_costs_no_task() {
    let bed = Bed::new(2);
    for _ in 0..20 {
        until("both are there", || bed.stats("processes") == 2);
        let idle = workers();
        idle.iter().for_each(|pid| kill(*pid, Signal::STOP));
        until("they have stopped", || idle.iter().all(|pid| state(*pid) == Some('T')));
        // Two of these are given to processes that will never look at them.
        let tasks: Vec<_> = (0..4).map(|_| bed.ask("tell your pid")).collect();
        until("they are given", || (bed.stats("busy"), bed.stats("waiting")) == (2, 2));
        idle.iter().for_each(|pid| kill(*pid, Signal::KILL));
        tasks.iter().for_each(|task| drop(result(task)));
    }
}

fn what_a_dead_process_had_started_dies_too() {
    let bed = Bed::new(1);
    let request = json!({"handler": "misbehave", "args": {"do": "leave a child behind"}});
    let task = bed.handle().submit(request.to_string().as_bytes(), Submit::default()).unwrap().task;
    let mut watching = task.watch(crate::words::nobody(Wants::Stream { from: 0 })).unwrap();
    let mut events = Vec::new();
    until("the child is known", || {
        watching.read(1 << 20, &mut events);
        !events.is_empty()
    });
    let Said::Partial(value) = &events[0].what else { panic!("{events:?}") };
    let child: i32 = value.get().parse().unwrap();
    assert!(lives(child) && descendants().contains(&child));
    bed.handle().cancel(task.id()).unwrap();
    until("the child is gone", || !lives(child));
}

fn without_its_zygote_tasks_fail_and_do_not_hang() {
    let bed = Bed::new(2);
    let running = bed.ask("run for ever");
    until("it runs", || bed.stats("busy") == 1);
    kill(zygote(), Signal::KILL);
    let lost = failure(&running);
    assert_eq!(lost.code, ErrorCode::HandlerCrashed, "{lost}");
    until("everybody is gone", || workers().is_empty());
    until("tasks are refused", || {
        let outcome = bed.ask("tell your pid");
        let outcome = outcome.wait(LONG).unwrap();
        outcome.result().is_err_and(|failure| failure.message.contains("the process that starts"))
    });
    let sum: Value = result(&bed.submit(&json!({"handler": "sleep", "args": {"ms": 1}})));
    assert_eq!(sum, json!({"ms": 1}), "the daemon itself goes on");
}
