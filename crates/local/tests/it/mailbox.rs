//! Lines that are appended to a file become tasks, once each, and their answers come with the line's number.
//!
//! Here are the plain promises, and what the other files about mailboxes use. The door and the service are
//! the real ones; the handlers count.

use millpond_local::{MailboxDoor, MailboxDoorSettings};
use millpond_tasks::{
    Call, ErrorCode, Handler, Level, Log, Registry, Service, ServiceConfig, Symbols, TaskFailure, function,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const SOON: Duration = Duration::from_secs(120);

/// Waits for a condition; two minutes without it are a failure.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen within two minutes");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A directory of one test, gone when the test is.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("millpond-mailbox-{}-{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Appends as `echo >>` does: opens the file, makes it if need be, writes once.
    pub(crate) fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// All answers of a mailbox that stand in the file of results now, in order.
    pub(crate) fn answers(&self, worker: usize) -> Vec<Value> {
        answers_in(&self.join(&format!("mailbox-{worker}.results.json")))
    }

    /// The answers of a mailbox whose daemon was killed `kills` times: each time, the one that was just being written
    /// may have been cut off, and was ended by the next process.
    pub(crate) fn answers_after(&self, worker: usize, kills: usize) -> Vec<Value> {
        let text =
            fs::read_to_string(self.join(&format!("mailbox-{worker}.results.json"))).unwrap_or_default();
        let (whole, cut_off): (Vec<_>, Vec<_>) =
            whole_lines(&text).map(serde_json::from_str).partition(Result::is_ok);
        assert!(cut_off.len() <= kills, "{kills} kills cut off {cut_off:?}");
        whole.into_iter().flatten().collect()
    }

    pub(crate) fn bookmarks(&self, worker: usize) -> Vec<Value> {
        answers_in(&self.join(&format!("mailbox-{worker}.offset")))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn answers_in(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    whole_lines(&text)
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The last line may be in the middle of being written.
fn whole_lines(text: &str) -> std::str::Lines<'_> {
    text.rfind('\n').map_or("", |end| &text[..end]).lines()
}

/// How often each number came.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<u64, u64>>);

impl Tally {
    pub(crate) fn add(&self, number: u64) {
        *self.0.lock().unwrap().entry(number).or_default() += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn times(&self, number: u64) -> u64 {
        self.0.lock().unwrap().get(&number).copied().unwrap_or(0)
    }

    /// Every number below `count` came once, and no other did.
    pub(crate) fn assert_each_once(&self, count: u64) {
        let tally = self.0.lock().unwrap();
        let twice: Vec<_> = tally.iter().filter(|(_, times)| **times != 1).take(10).collect();
        assert!(twice.is_empty(), "ran more than once: {twice:?}");
        let lost: Vec<_> = (0..count).filter(|number| !tally.contains_key(number)).take(10).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        assert_eq!(tally.len() as u64, count, "some came that nobody sent");
    }
}

/// Calls that wait until the test lets them go on.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<Call>>);

impl Kept {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn finish_all(&self) {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        calls.into_iter().for_each(Call::finish_with_args);
    }
}

struct Keep(Arc<Kept>);

impl Handler for Keep {
    fn start(&self, call: Call) {
        self.0.0.lock().unwrap().push(call);
    }
}

/// A service with a mailbox door. `count` counts `args.n`, `keep` waits, `fail` fails.
pub(crate) struct Daemon {
    pub(crate) door: MailboxDoor,
    pub(crate) service: Service,
    pub(crate) tally: Arc<Tally>,
    pub(crate) kept: Arc<Kept>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn settings(place: &Place, workers: usize) -> MailboxDoorSettings {
    let mut settings =
        MailboxDoorSettings { directory: place.path().to_owned(), workers, ..MailboxDoorSettings::default() };
    // Where the system gives no watch, the tests need not be slow.
    settings.files.poll_interval = Duration::from_millis(1);
    settings
}

impl Daemon {
    pub(crate) fn start(settings: MailboxDoorSettings, tally: &Arc<Tally>) -> Self {
        let mut started = None;
        // A process that another test starts at this moment has a copy of every lock of this one, until it
        // becomes another program.
        until("the lock", || match Self::try_start(settings.clone(), tally, |_| ()) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => false,
            result => {
                started = Some(result.unwrap());
                true
            }
        });
        started.unwrap()
    }

    pub(crate) fn try_start(
        settings: MailboxDoorSettings,
        tally: &Arc<Tally>,
        change: impl FnOnce(&mut ServiceConfig),
    ) -> std::io::Result<Self> {
        let mut registry = Registry::new();
        let counter = Arc::clone(tally);
        let count = move |call: &Call| -> Result<Box<RawValue>, TaskFailure> {
            let args: Value = call.read_args()?;
            counter.add(args["n"].as_u64().unwrap());
            Ok(RawValue::from_string("null".to_owned()).unwrap())
        };
        registry.add("count", function(count)).unwrap();
        let kept = Arc::new(Kept::default());
        registry.add("keep", Keep(Arc::clone(&kept))).unwrap();
        let fail = |_: &Call| Err(TaskFailure::new(ErrorCode::HandlerError, "as asked"));
        registry.add("fail", function(fail)).unwrap();
        let mut config = ServiceConfig::default();
        config.pool.workers = 2;
        change(&mut config);
        let service = Service::start(config, registry, Symbols::new()).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let keep_line =
            move |level: Level, line: &str| lines.lock().unwrap().push(format!("{level}: {line}"));
        let door = MailboxDoor::open(settings, service.handle(), Log::new(keep_line))?;
        Ok(Self { door, service, tally: Arc::clone(tally), kept, log })
    }

    /// As a daemon stops cleanly: no new lines, the tasks end, then how far it came is saved.
    pub(crate) fn stop(self) {
        self.door.stop_reading();
        assert_eq!(self.service.drain(SOON).left, 0);
        assert_eq!(self.door.close(SOON), 0);
        self.service.stop(SOON);
    }

    /// As above, but the door waits for the tasks and nobody drains the service.
    pub(crate) fn stop_by_the_door(self) {
        assert_eq!(self.door.close(SOON), 0);
        self.service.stop(SOON);
    }

    pub(crate) fn log_has(&self, words: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(words))
    }
}

pub(crate) fn count_line(number: u64) -> String {
    format!("{{\"handler\":\"count\",\"args\":{{\"n\":{number}}}}}\n")
}

#[test]
fn lines_become_tasks_and_answers_name_their_lines() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 2), &Arc::default());
    let mode = fs::metadata(place.join("mailbox-2.json")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600, "it is made for its owner alone");
    place.append("mailbox-1.json", &count_line(0));
    place.append("mailbox-1.json", "\n  \n{\"handler\":\"fail\",\"task_id\":\"mine\"}\n");
    place.append("mailbox-2.json", "{\"handler\":\"count\",\"task_id\":7,\"args\":{\"n\":1}}\n");
    until("three answers", || place.answers(1).len() + place.answers(2).len() == 3);
    let mut first = place.answers(1);
    first.sort_by_key(|answer| answer["line"].as_u64());
    assert_eq!((&first[0]["line"], &first[0]["status"]), (&json!(1), &json!(0)));
    assert!(first[0]["task_id"].as_str().unwrap().starts_with('t'), "an id was assigned: {}", first[0]);
    assert_eq!(
        (&first[1]["line"], &first[1]["task_id"], &first[1]["error"]),
        (&json!(4), &json!("mine"), &json!("handler-error"))
    );
    let second = place.answers(2);
    assert_eq!((&second[0]["line"], &second[0]["task_id"]), (&json!(1), &json!(7)));
    daemon.tally.assert_each_once(2);
    until("the count of answers", || daemon.door.stats().answers == 3);
    assert_eq!(daemon.door.stats().lines, 3);
    daemon.stop();
}

#[test]
fn half_a_line_waits_for_its_other_half_even_over_a_restart() {
    let place = Place::new();
    let tally: Arc<Tally> = Arc::default();
    let line = count_line(1);
    let (one, other) = line.split_at(20);
    let daemon = Daemon::start(settings(&place, 1), &tally);
    // One write: whoever has read the whole line has read the half.
    place.append("mailbox-1.json", &(count_line(0) + one));
    until("the whole line", || place.answers(1).len() == 1);
    place.append("mailbox-1.json", &other[..5]);
    daemon.stop();
    assert_eq!((tally.len(), place.answers(1).len()), (1, 1));
    let daemon = Daemon::start(settings(&place, 1), &tally);
    place.append("mailbox-1.json", &other[5..]);
    until("the other line", || tally.len() == 2);
    daemon.stop();
    tally.assert_each_once(2);
    assert_eq!(place.answers(1)[1]["line"], 2);
}

#[test]
fn a_line_that_is_wrong_is_answered_with_its_number_and_the_rest_goes_on() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    let lines = [
        count_line(0),
        "this is no JSON\n".to_owned(),
        "{\"handler\":\"count\",\"task_id\":9,\"args\":{\"n\":1},\"retries\":\"3\"}\n".to_owned(),
        "{\"handler\":\"nobody\",\"task_id\":10}\n".to_owned(),
        "\u{FEFF}{}\n".to_owned(),
        "{\"opcode\":0}\n".to_owned(),
        count_line(1),
    ];
    place.append("mailbox-1.json", &lines.concat());
    until("seven answers", || place.answers(1).len() == 7);
    let mut answers = place.answers(1);
    answers.sort_by_key(|answer| answer["line"].as_u64());
    let seen: Vec<_> =
        answers.iter().map(|answer| (answer["line"].clone(), answer["error"].clone())).collect();
    let expected = [
        json!(null),
        json!("invalid-request"),
        json!("invalid-request"),
        json!("unknown-handler"),
        json!("invalid-request"),
        json!("invalid-request"),
        json!(null),
    ];
    let expected: Vec<_> =
        expected.into_iter().enumerate().map(|(index, error)| (json!(index + 1), error)).collect();
    assert_eq!(seen, expected);
    assert_eq!((&answers[2]["task_id"], &answers[2]["column"]), (&json!(9), &json!(57)));
    assert_eq!((&answers[1]["task_id"], &answers[3]["task_id"]), (&json!(null), &json!(10)));
    daemon.tally.assert_each_once(2);
    daemon.stop();
}

#[test]
fn a_line_that_is_too_long_is_refused_and_not_stored() {
    let place = Place::new();
    let limit = |config: &mut ServiceConfig| config.request.request_bytes_max = 1000;
    let daemon = Daemon::try_start(settings(&place, 1), &Arc::default(), limit).unwrap();
    place.append("mailbox-1.json", "{\"handler\":\"count\",\"task_id\":5,\"args\":{\"n\":9,\"x\":\"");
    let piece = "x".repeat(1 << 20);
    for _ in 0..30 {
        place.append("mailbox-1.json", &piece);
    }
    place.append("mailbox-1.json", &format!("\"}}}}\n{}", count_line(0)));
    until("both answers", || place.answers(1).len() == 2);
    let mut answers = place.answers(1);
    answers.sort_by_key(|answer| answer["line"].as_u64());
    assert_eq!(
        (&answers[0]["line"], &answers[0]["task_id"], &answers[0]["error"]),
        (&json!(1), &json!(5), &json!("too-large"))
    );
    assert_eq!((&answers[1]["line"], &answers[1]["status"]), (&json!(2), &json!(0)));
    daemon.tally.assert_each_once(1);
    daemon.stop();
}

#[test]
fn a_line_that_no_mailbox_can_hold_is_refused() {
    let place = Place::new();
    let mut settings = settings(&place, 1);
    settings.files.bytes_max = 60;
    let daemon = Daemon::start(settings, &Arc::default());
    let long = format!("{{\"handler\":\"count\",\"args\":{{\"n\":7,\"x\":\"{}\"}}}}\n", "x".repeat(100));
    place.append("mailbox-1.json", &(long + &count_line(0)));
    until("both answers", || place.answers(1).len() == 2);
    daemon.stop();
    let refused = place.answers(1).into_iter().find(|answer| answer["line"] == 1).unwrap();
    assert_eq!(refused["error"], "too-large");
}

#[test]
fn files_that_are_polled_are_read_as_well() {
    let place = Place::new();
    let mut settings = settings(&place, 2);
    settings.always_poll = true;
    let daemon = Daemon::start(settings, &Arc::default());
    assert!(daemon.door.stats().is_polling);
    for number in 0..100 {
        place.append(if number % 2 == 0 { "mailbox-1.json" } else { "mailbox-2.json" }, &count_line(number));
    }
    until("every line", || daemon.tally.len() == 100);
    fs::rename(place.join("mailbox-1.json"), place.join("elsewhere")).unwrap();
    place.append("mailbox-1.json", &count_line(100));
    place.append("elsewhere", &count_line(101));
    until("both lines", || daemon.tally.len() == 102);
    daemon.tally.assert_each_once(102);
    daemon.stop();
}

#[test]
fn a_full_service_delays_lines_and_loses_none() {
    let place = Place::new();
    let mut settings = settings(&place, 2);
    settings.files.lines_max = 4;
    let small = |config: &mut ServiceConfig| {
        config.tasks_max = 3;
        config.pool.queue_capacity = 2;
    };
    let daemon = Daemon::try_start(settings, &Arc::default(), small).unwrap();
    let lines: String = (0..500).map(count_line).collect();
    place.append("mailbox-1.json", &lines);
    let lines: String = (500..1000).map(count_line).collect();
    place.append("mailbox-2.json", &lines);
    until("every line", || daemon.tally.len() == 1000);
    daemon.tally.assert_each_once(1000);
    daemon.stop();
    assert_eq!(place.answers(1).len() + place.answers(2).len(), 1000);
}

#[test]
fn a_task_that_does_not_end_holds_back_only_what_is_far_behind_it() {
    let place = Place::new();
    let mut settings = settings(&place, 1);
    settings.window_lines_max = 10;
    let daemon = Daemon::start(settings, &Arc::default());
    let lines: String = (0..30).map(count_line).collect();
    place.append("mailbox-1.json", &format!("{{\"handler\":\"keep\"}}\n{lines}"));
    until("the lines of the window", || daemon.tally.len() == 9);
    assert_eq!(daemon.door.stats().lines, 10);
    daemon.kept.finish_all();
    until("the others", || daemon.tally.len() == 30);
    daemon.tally.assert_each_once(30);
    daemon.stop();
}

#[test]
fn only_one_door_has_a_directory() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    let refused = Daemon::try_start(settings(&place, 1), &Arc::default(), |_| ()).err().unwrap().to_string();
    assert!(refused.contains("already running here"), "{refused}");
    daemon.stop();
    Daemon::start(settings(&place, 1), &Arc::default()).stop();
}

/// A writer that keeps its file open.
pub(crate) fn open_for_append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).unwrap()
}
