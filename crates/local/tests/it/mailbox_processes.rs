//! Real processes append while the door is opened, closed and killed: none of their lines is lost, and none
//! is run twice unless the daemon was killed.
//!
//! The writers are shells with `echo >>`, which is what people will use. `MILLPOND_MAILBOX_LINES` says how
//! many lines there are in all.

use crate::mailbox::{Daemon, Place, Tally, count_line, settings, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;

fn line_count(quick: u64) -> u64 {
    match env::var("MILLPOND_MAILBOX_LINES") {
        Ok(text) => text.parse().expect("MILLPOND_MAILBOX_LINES: expected a number"),
        Err(_) => quick,
    }
}

/// Appends `count` lines, numbered from `first`, to one of the mailboxes in turn.
fn writer(place: &Place, first: u64, count: u64, workers: u64) -> Child {
    let script = r#"
        number=$1
        end=$(($1 + $2))
        while [ $number -lt $end ]; do
            echo '{"handler":"count","args":{"n":'$number'}}' >> mailbox-$((number % $3 + 1)).json
            number=$((number + 1))
        done
    "#;
    Command::new("sh")
        .args(["-c", script, "sh", &first.to_string(), &count.to_string(), &workers.to_string()])
        .current_dir(place.path())
        .spawn()
        .unwrap()
}

fn start_writers(place: &Place, lines: u64, workers: u64) -> Vec<Child> {
    let each = lines / WRITERS;
    (0..WRITERS).map(|number| writer(place, number * each, each, workers)).collect()
}

fn all_written(writers: &mut [Child]) -> bool {
    writers.iter_mut().all(|child| child.try_wait().unwrap().is_some_and(|status| status.success()))
}

/// The lines that were answered, over all mailboxes and files of results.
fn answered(place: &Place, workers: usize) -> u64 {
    (1..=workers).map(|worker| place.answers(worker).len() as u64).sum()
}

#[test]
fn four_processes_append_and_every_line_is_run_once() {
    let lines = line_count(40_000) / WRITERS * WRITERS;
    let place = Place::new();
    let mut settings = settings(&place, 2);
    settings.files.results_bytes_max = 1 << 40;
    let daemon = Daemon::start(settings, &Arc::default());
    let start = Instant::now();
    let mut writers = start_writers(&place, lines, 2);
    until_long("every line", || all_written(&mut writers));
    println!("{lines} lines were appended in {:?}", start.elapsed());
    until_long("every line", || daemon.tally.len() as u64 == lines);
    println!("{lines} lines were run in {:?}", start.elapsed());
    println!("{:?}", daemon.door.stats());
    daemon.tally.assert_each_once(lines);
    daemon.stop();
    assert_eq!(answered(&place, 2), lines);
}

/// Waits longer where there are more lines.
fn until_long(what: &str, mut holds: impl FnMut() -> bool) {
    let minutes = 2 + line_count(0) / 100_000;
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen within {minutes} minutes");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clean_stops_in_the_middle_lose_nothing_and_repeat_nothing() {
    let lines = line_count(20_000) / WRITERS * WRITERS;
    let place = Place::new();
    let tally: Arc<Tally> = Arc::default();
    let mut writers = start_writers(&place, lines, 3);
    let mut stops = 0;
    while !(all_written(&mut writers) && tally.len() as u64 == lines) {
        let seen = tally.len();
        let daemon = Daemon::start(settings(&place, 3), &tally);
        // Each daemon runs a part of the lines, then stops in the middle of its work.
        let wanted = (seen as u64 + lines / 10).min(lines) as usize;
        until_long("the next part", || tally.len() >= wanted);
        if stops % 2 == 0 {
            daemon.stop()
        } else {
            daemon.stop_by_the_door()
        }
        stops += 1;
    }
    println!("{lines} lines, {stops} clean stops");
    assert!(stops >= 5, "only {stops} stops");
    tally.assert_each_once(lines);
    assert_eq!(answered(&place, 3), lines);
}

#[test]
fn a_stop_that_waits_for_no_task_runs_only_those_again_that_had_not_ended() {
    let place = Place::new();
    let tally: Arc<Tally> = Arc::default();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    let text = (0..300).map(|number| {
        if number % 3 == 0 { "{\"handler\":\"keep\"}\n".to_owned() } else { count_line(number) }
    });
    place.append("mailbox-1.json", &text.collect::<String>());
    until("the tasks that end", || tally.len() == 200 && daemon.kept.len() == 100);
    until("their answers", || place.answers(1).len() == 200);
    assert_eq!(daemon.door.close(Duration::ZERO), 100);
    drop(daemon);
    let bookmark = place.bookmarks(1).remove(0);
    assert_eq!((bookmark["offset"].as_u64(), bookmark["line"].as_u64()), (Some(0), Some(1)));
    assert_eq!(bookmark["ended"].as_array().unwrap().len(), 100);

    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("the others again", || daemon.kept.len() == 100);
    daemon.kept.finish_all();
    place.append("mailbox-1.json", &count_line(300));
    until("a last line", || tally.times(300) == 1);
    daemon.stop();
    for number in 0..300 {
        assert_eq!(tally.times(number), u64::from(number % 3 != 0), "{number}");
    }
    let answers = place.answers(1);
    let mut lines: Vec<_> = answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (1..=301).collect::<Vec<_>>());
}

#[test]
fn a_service_that_stops_first_leaves_what_it_did_not_run_to_the_next_process() {
    let place = Place::new();
    let tally: Arc<Tally> = Arc::default();
    let daemon = Daemon::try_start(settings(&place, 1), &tally, |config| config.tasks_max = 8).unwrap();
    let delayed =
        (0..4).map(|n| format!("{{\"handler\":\"count\",\"delay_ms\":3600000,\"args\":{{\"n\":{n}}}}}\n"));
    place.append("mailbox-1.json", &delayed.collect::<String>());
    until("the tasks", || daemon.service.handle().live() == 4);
    place.append("mailbox-1.json", &count_line(4));
    until("the line behind them", || tally.len() == 1);
    let Daemon { door, service, .. } = daemon;
    // Nobody told the door: it notices that lines are refused.
    service.stop(Duration::from_millis(10));
    place.append("mailbox-1.json", &count_line(5));
    assert_eq!(door.close(crate::mailbox::SOON), 0);
    drop(door);
    assert_eq!((tally.len(), place.answers(1).len()), (1, 1));

    // The same lines, now without their delay: bookmarks go by line numbers and places, so the text may be
    // replaced by one of the same length only in this test.
    let path = place.join("mailbox-1.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("3600000", "0      ")).unwrap();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("the rest", || tally.len() == 6);
    daemon.stop();
    tally.assert_each_once(6);
}

#[test]
fn rotation_under_load_loses_nothing() {
    const ROUNDS: u64 = 8;
    let each = line_count(20_000) / ROUNDS / WRITERS;
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    let path = place.join("mailbox-1.json");
    for round in 0..ROUNDS {
        let mut writers: Vec<_> =
            (0..WRITERS).map(|number| writer(&place, (round * WRITERS + number) * each, each, 1)).collect();
        let half = each * WRITERS * count_line(0).len() as u64 / 2;
        until_long("half of this round", || fs::metadata(&path).map_or(0, |file| file.len()) >= half);
        fs::rename(&path, place.join(&format!("mailbox-1.json.{round}"))).unwrap();
        until_long("the writers", || all_written(&mut writers));
        // A file must keep its name until the door has seen it; and there is one, whoever was fastest.
        place.append("mailbox-1.json", "\n");
        until_long("the next file", || daemon.door.stats().rotations == round + 1);
    }
    let lines = ROUNDS * WRITERS * each;
    until_long("every line", || daemon.tally.len() as u64 == lines);
    println!("{lines} lines, {:?}", daemon.door.stats());
    daemon.tally.assert_each_once(lines);
    daemon.stop();
    assert_eq!(answered(&place, 1), lines);
}

/// Not a test: the daemon of the test below, in a process of its own. It ends with whoever started it.
#[test]
#[ignore = "it is started by another test"]
fn daemon_that_will_be_killed() {
    let Ok(directory) = env::var("MILLPOND_TEST_DIRECTORY") else { return };
    let tally: Arc<Tally> = Arc::default();
    let mut settings = millpond_local::MailboxDoorSettings { workers: 2, ..Default::default() };
    settings.directory = directory.into();
    let _daemon = Daemon::start(settings, &tally);
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// How often each line of each mailbox was answered, by daemons of which so many were killed.
fn times_answered(place: &Place, kills: u64) -> BTreeMap<(usize, u64), u64> {
    let mut times = BTreeMap::new();
    for worker in 1..=2 {
        for answer in place.answers_after(worker, kills as usize) {
            assert_eq!(answer["status"], 0, "{answer}");
            *times.entry((worker, answer["line"].as_u64().unwrap())).or_insert(0) += 1;
        }
    }
    times
}

fn results_bytes(place: &Place) -> u64 {
    let bytes = |worker| {
        let path = place.join(&format!("mailbox-{worker}.results.json"));
        fs::metadata(path).map_or(0, |file| file.len())
    };
    bytes(1) + bytes(2)
}

/// The lines that a later process must not run again, by what was saved.
fn is_done(place: &Place, worker: usize, line: u64) -> bool {
    place.bookmarks(worker).iter().any(|bookmark| {
        let mut ended = bookmark["ended"].as_array().into_iter().flatten();
        let number = |value: &Value| value.as_u64().unwrap();
        line < number(&bookmark["line"])
            || ended.any(|range| (number(&range[0])..=number(&range[1])).contains(&line))
    })
}

#[test]
fn a_killed_daemon_runs_every_line_at_least_once_and_none_again_whose_end_was_saved() {
    const ROUNDS: u64 = 8;
    let each = line_count(8_000) / ROUNDS / WRITERS;
    let place = Place::new();
    let start = || {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "mailbox_processes::daemon_that_will_be_killed", "--ignored", "--nocapture"])
            .env("MILLPOND_TEST_DIRECTORY", place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut done = BTreeMap::new();
    for round in 0..ROUNDS {
        let before = results_bytes(&place);
        let mut daemon = start();
        let mut writers: Vec<_> =
            (0..WRITERS).map(|number| writer(&place, (round * WRITERS + number) * each, each, 2)).collect();
        // In the middle of its work, at another point of it every time.
        until_long("the first answers", || results_bytes(&place) > before + round * each * 50);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let times = times_answered(&place, round + 1);
        done.extend(times.into_iter().filter(|((worker, line), _)| is_done(&place, *worker, *line)));
        until_long("the writers", || all_written(&mut writers));
    }
    let lines = ROUNDS * WRITERS * each;
    let mut daemon = start();
    until_long("every line", || times_answered(&place, ROUNDS).len() as u64 == lines);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let times = times_answered(&place, ROUNDS + 1);
    let again: u64 = times.values().map(|times| times - 1).sum();
    println!("{lines} lines, {ROUNDS} kills, {} saved as ended, {again} run more than once", done.len());
    for worker in 1..=2 {
        assert!(times.contains_key(&(worker, lines / 2)), "mailbox {worker} has {} lines", lines / 2);
    }
    for (line, before) in done {
        assert_eq!(times[&line], before, "line {line:?} was run again after its end was saved");
    }
}
