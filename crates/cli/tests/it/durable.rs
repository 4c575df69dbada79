//! A daemon with a journal is killed under load, again and again, and loses nothing that it acknowledged.
//!
//! Sixty-four clients hand in tasks of every kind and write down what they were told: that a task is accepted, how it
//! ended, that it is cancelled. Daemons are killed while most clients wait for one of these answers, while they write a
//! snapshot, and while they drain. After each kill the next one must know every task that was acknowledged; at the end
//! each must have ended once, in the way that was told.
//!
//! `MILLPOND_KILLS` says how many are killed (10 without it), `MILLPOND_SEED` repeats the random choices of an
//! earlier run; both are printed, and a table of what was found.

use crate::daemon::{Folder, signal};
use crate::dice::{self, Dice, number};
use millpond_local::{Client, Flags, Kind};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

const SUBMITTERS: u64 = 64;
/// Nothing here takes so long, unless it never happens.
const SOON: Duration = Duration::from_secs(120);

const SETTINGS: &str = "
workers = 2
tasks_max = 200000
results.max = 10000000
results.bytes_max = '4 GiB'
results.age_max = 'none'
dead_letters.max = 10000000
dead_letters.bytes_max = '1 GiB'
keys_max = 10000000
journal.snapshot_bytes_min = '1 MiB'
journal.crash_attempts_max = 1000
mailbox.enabled = false
memory_door.enabled = false
web.enabled = false
drain_timeout = '2s'
";

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Ids of tasks that were acknowledged.
    accepted: Vec<Value>,
    /// How tasks ended, by id as JSON.
    ended: HashMap<String, Value>,
    /// Tasks whose cancellation was acknowledged, as JSON.
    cancelled: HashSet<String>,
    /// The task of each idempotency key.
    keys: HashMap<String, Value>,
}

struct Field {
    socket: PathBuf,
    told: Mutex<Told>,
    /// What the next kill is to hit, as its place in `MOMENTS`; clients do mostly what leads there.
    moment: AtomicUsize,
    /// How many clients wait for each answer.
    waiting: [AtomicUsize; ANSWERS],
    is_over: AtomicBool,
}

/// What a client waits for: that its task is accepted, that it ended, that it is cancelled.
#[derive(Clone, Copy)]
enum Answer {
    Acceptance,
    End,
    Cancellation,
}

const ANSWERS: usize = 3;

/// A client that waits for an answer, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Field {
    fn waiting_for(&self, answer: Answer) -> Waiting<'_> {
        let count = &self.waiting[answer as usize];
        count.fetch_add(1, Relaxed);
        Waiting(count)
    }

    /// What a client does next: one of five things, by chance, or what the next kill wants to find.
    fn turn(&self, dice: &mut Dice) -> Turn {
        match (MOMENTS[self.moment.load(Relaxed)], dice.below(6)) {
            (Moment::Accepting, 1..) => Turn::Soon,
            (Moment::Running, 1..) => Turn::Sleep,
            (Moment::Ending, 1..) => Turn::Echo,
            (Moment::Cancelling, 1..) => Turn::Cancel,
            (_, 0) => Turn::Fail,
            (_, 1) => Turn::Cancel,
            (_, 2) => Turn::Keyed,
            (_, 3) => Turn::Sleep,
            (_, 4) => Turn::Echo,
            _ => Turn::Soon,
        }
    }
}

/// What a client may do.
enum Turn {
    /// Have a task accepted that runs in a moment.
    Soon,
    /// Wait for a task that takes a while.
    Sleep,
    /// Wait for a task that takes no time.
    Echo,
    /// Have a task accepted that fails.
    Fail,
    /// Have a task accepted and cancelled.
    Cancel,
    /// Ask with a key that was perhaps used before.
    Keyed,
}

/// One client, for as long as its connection lasts.
fn submit(field: &Field, submitter: u64, count: &mut u64, dice: &mut Dice) -> io::Result<()> {
    let mut client = Client::connect(&field.socket)?;
    while !field.is_over.load(Relaxed) {
        *count += 1;
        let id = format!("s{submitter}-{count}");
        let request = |rest: &str| format!(r#"{{"task_id":"{id}",{rest}}}"#);
        match field.turn(dice) {
            Turn::Soon => {
                ack(&mut client, field, &request(r#""handler":"echo","delay_ms":300"#)).map(drop)?;
            }
            Turn::Sleep => {
                wait(&mut client, field, &request(r#""handler":"sleep","args":{"ms":5}"#))?;
            }
            Turn::Echo => wait(&mut client, field, &request(r#""handler":"echo","args":{"n":1}"#))?,
            Turn::Fail => {
                let missing = request(r#""handler":"file_read","args":{"path":"/nowhere"}"#);
                ack(&mut client, field, &missing).map(drop)?;
            }
            Turn::Cancel => {
                let later = request(r#""handler":"echo","delay_ms":600000"#);
                if let Some(id) = ack(&mut client, field, &later)? {
                    cancel(&mut client, field, id)?;
                }
            }
            Turn::Keyed => keyed(&mut client, field, &format!("k{submitter}-{}", dice.below(40)))?,
        }
    }
    Ok(())
}

/// Hands a task in, and writes down that it is accepted.
fn ack(client: &mut Client, field: &Field, request: &str) -> io::Result<Option<Value>> {
    let waiting = field.waiting_for(Answer::Acceptance);
    client.send(Kind::Submit, Flags::NONE, 1, request.as_bytes())?;
    let frame = client.receive()?;
    drop(waiting);
    let answer: Value = serde_json::from_slice(frame.payload)?;
    if frame.kind != Kind::Accepted {
        assert_eq!(answer["error"], "draining", "{request}: {answer}");
        return Ok(None);
    }
    let id = answer["task_id"].clone();
    field.told.lock().unwrap().accepted.push(id.clone());
    Ok(Some(id))
}

/// Hands a task in, and writes down how it ended.
fn wait(client: &mut Client, field: &Field, request: &str) -> io::Result<()> {
    let mut waiting = Some(field.waiting_for(Answer::Acceptance));
    client.send(Kind::Submit, Flags::RESULT | Flags::KEEP | Flags::ACK, 2, request.as_bytes())?;
    loop {
        let frame = client.receive()?;
        drop(waiting.take());
        let answer: Value = serde_json::from_slice(frame.payload)?;
        let mut told = field.told.lock().unwrap();
        match frame.kind {
            Kind::Accepted => {
                told.accepted.push(answer["task_id"].clone());
                waiting = Some(field.waiting_for(Answer::End));
            }
            // The daemon drains: it is done by the next one, and nobody was told how it ended.
            Kind::Result if answer["error"] == "postponed" => return Ok(()),
            Kind::Result => {
                told.ended.insert(answer["task_id"].to_string(), answer);
                return Ok(());
            }
            kind => {
                assert_eq!(answer["error"], "draining", "{kind}: {answer}");
                return Ok(());
            }
        }
    }
}

fn cancel(client: &mut Client, field: &Field, id: Value) -> io::Result<()> {
    let waiting = field.waiting_for(Answer::Cancellation);
    client.send(Kind::Cancel, Flags::NONE, 3, json!({ "task_id": id }).to_string().as_bytes())?;
    let frame = client.receive()?;
    drop(waiting);
    if frame.kind == Kind::Ok {
        field.told.lock().unwrap().cancelled.insert(id.to_string());
    }
    Ok(())
}

/// Asks with a key that was perhaps used before: it must stand for one task.
fn keyed(client: &mut Client, field: &Field, key: &str) -> io::Result<()> {
    let request = format!(r#"{{"handler":"echo","args":{{"key":"{key}"}},"idempotency_key":"{key}"}}"#);
    if let Some(id) = ack(client, field, &request)? {
        let mut told = field.told.lock().unwrap();
        let known = told.keys.entry(key.to_owned()).or_insert_with(|| id.clone());
        assert_eq!(*known, id, "the key {key} stands for two tasks");
    }
    Ok(())
}

/// When a daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Clients hand in tasks that run later, and wait to hear that they are kept.
    Accepting,
    /// Tasks run.
    Running,
    /// Clients wait for tasks that end at once.
    Ending,
    /// Clients cancel what they handed in.
    Cancelling,
    /// Everything at once, and the journal is written anew.
    Snapshotting,
    /// Everything at once, and the daemon was told to end.
    Draining,
    /// A snapshot that did not come: everything at once.
    Mixed,
}

const MOMENTS: [Moment; 7] = [
    Moment::Accepting,
    Moment::Running,
    Moment::Ending,
    Moment::Cancelling,
    Moment::Snapshotting,
    Moment::Draining,
    Moment::Mixed,
];
/// The last one is not aimed at.
const MOMENTS_AIMED_AT: u64 = MOMENTS.len() as u64 - 1;

/// What was found after kills of one kind.
#[derive(Default)]
struct Row {
    kills: u64,
    /// Clients that waited for each answer when the daemon was killed.
    waiting: [usize; ANSWERS],
    acknowledged: usize,
    restored: u64,
    buried: u64,
    replay_ms_max: u64,
}

/// A daemon that goes when this does.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends the clients home, also if the test fails: the scope waits for them.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Arena {
    folder: Folder,
    field: Field,
}

impl Arena {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("millpond.toml", SETTINGS);
        let socket = folder.path().join("run").join("control.sock");
        let (moment, waiting) = (AtomicUsize::new(0), Default::default());
        let field =
            Field { socket, told: Mutex::default(), moment, waiting, is_over: AtomicBool::new(false) };
        Self { folder, field }
    }

    fn start(&self) -> (Daemon, Value) {
        let run = self.folder.path().join("run").display().to_string();
        let command =
            self.folder.millpond(&["serve", "--json", "--journal", "journal", "--runtime-dir", &run]);
        let mut child = { command }.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the daemon said {line:?}"));
        (Daemon(child), hello)
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// Waits for the moment, and kills. Says which moment it was, since a snapshot may not have come, and how many
    /// clients waited for which answer.
    fn kill(&self, daemon: Daemon, moment: Moment, dice: &mut Dice) -> (Moment, [usize; ANSWERS]) {
        let mut hit = moment;
        self.field.moment.store(moment as usize, Relaxed);
        thread::sleep(Duration::from_millis(100 + dice.below(200)));
        match moment {
            Moment::Snapshotting => {
                let until = Instant::now() + Duration::from_secs(10);
                while !is_snapshot_begun(&self.journal()) && Instant::now() < until {
                    thread::sleep(Duration::from_micros(50));
                }
                if !is_snapshot_begun(&self.journal()) {
                    hit = Moment::Mixed;
                }
            }
            Moment::Draining => {
                signal("TERM", daemon.0.id());
                thread::sleep(Duration::from_millis(dice.below(30)));
            }
            _ => thread::sleep(Duration::from_micros(dice.below(3000))),
        }
        let waiting = self.field.waiting.each_ref().map(|count| count.load(Relaxed));
        drop(daemon);
        (hit, waiting)
    }

    /// Each of these tasks, which were acknowledged, is known.
    fn look_for(&self, accepted: &[&Value]) {
        let mut client = Client::connect(&self.field.socket).unwrap();
        for chunk in accepted.chunks(1000) {
            for id in chunk {
                let question = json!({ "task_id": id }).to_string();
                client.send(Kind::Get, Flags::NONE, 9, question.as_bytes()).unwrap();
            }
            for id in chunk {
                let frame = client.receive().unwrap();
                let answer = String::from_utf8_lossy(frame.payload).into_owned();
                assert_eq!(frame.kind, Kind::Status, "task {id} was acknowledged and is gone: {answer}");
            }
        }
    }
}

fn is_snapshot_begun(journal: &Path) -> bool {
    let names = fs::read_dir(journal).into_iter().flatten().filter_map(Result::ok);
    names.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("part"))
}

#[test]
fn nothing_that_was_acknowledged_is_lost_however_often_the_daemon_is_killed() {
    let kills = number("MILLPOND_KILLS", 10);
    let seed = dice::seed();
    println!("MILLPOND_KILLS={kills}");
    let arena = Arena::new();
    let mut rows: Vec<Row> = MOMENTS.iter().map(|_| Row::default()).collect();
    let mut dice = Dice(seed);
    thread::scope(|scope| {
        let _over = Over(&arena.field.is_over);
        let (mut daemon, _) = arena.start();
        let mut submitters = Vec::new();
        for submitter in 0..SUBMITTERS {
            let field = &arena.field;
            submitters.push(scope.spawn(move || {
                let (mut count, mut dice) = (0, Dice(seed ^ (submitter + 1)));
                while !field.is_over.load(Relaxed) {
                    // A connection that breaks is a daemon that was killed: the next one will come.
                    if submit(field, submitter, &mut count, &mut dice).is_err() {
                        thread::sleep(Duration::from_millis(5));
                    }
                }
            }));
        }
        let mut looked_at = 0;
        for kill in 0..kills {
            let moment = MOMENTS[(kill % MOMENTS_AIMED_AT) as usize];
            let (hit, waiting) = arena.kill(daemon, moment, &mut dice);
            let accepted = arena.field.told.lock().unwrap().accepted.clone();
            let (next, hello) = arena.start();
            daemon = next;
            // All that are new, and a tenth of those that were there before; at the end all are looked at once more.
            let (before, since) = accepted.split_at(looked_at);
            let tenth = before.iter().skip((kill % 10) as usize).step_by(10);
            arena.look_for(&since.iter().chain(tenth).collect::<Vec<_>>());
            looked_at = accepted.len();
            let row = &mut rows[hit as usize];
            row.kills += 1;
            row.waiting.iter_mut().zip(waiting).for_each(|(sum, count)| *sum += count);
            row.acknowledged += accepted.len();
            row.restored += hello["journal"]["restored"].as_u64().unwrap();
            row.buried += hello["journal"]["buried"].as_u64().unwrap();
            row.replay_ms_max = row.replay_ms_max.max(hello["journal"]["replay_ms"].as_u64().unwrap());
        }
        arena.field.is_over.store(true, Relaxed);
        // Those that are in the middle of something come to its end.
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        judge(&arena, &rows);
        drop(daemon);
    });
}

/// Each task has ended once, in the way that was told.
fn judge(arena: &Arena, rows: &[Row]) {
    let told = arena.field.told.lock().unwrap();
    let mut client = Client::connect(&arena.field.socket).unwrap();
    let mut ends: HashMap<&'static str, u64> = HashMap::new();
    for id in &told.accepted {
        let question = json!({ "task_id": id }).to_string();
        client.send(Kind::Get, Flags::NONE, 6, question.as_bytes()).unwrap();
        let status: Value = serde_json::from_slice(client.receive().unwrap().payload).unwrap();
        if status["stage"] == "delayed" {
            // Whoever wanted to cancel it was cut off by a kill. One that was to run soon may have begun meanwhile.
            client.send(Kind::Cancel, Flags::NONE, 7, question.as_bytes()).unwrap();
            client.receive().unwrap();
        }
        client.send(Kind::Get, Flags::RESULT, 4, question.as_bytes()).unwrap();
        let frame = client.receive_timeout(SOON).unwrap().unwrap_or_else(|| panic!("task {id} did not end"));
        let end: Value = serde_json::from_slice(frame.payload).unwrap();
        assert_eq!(frame.kind, Kind::Result, "task {id}: {end}");
        if let Some(known) = told.ended.get(&id.to_string()) {
            assert_eq!(*known, end, "task {id} ended twice");
        }
        let word = match end["error"].as_str() {
            None => "done",
            Some("cancelled") => "cancelled",
            Some("not-allowed") => "dead",
            Some(other) => panic!("task {id} ended as {other}: {end}"),
        };
        *ends.entry(word).or_default() += 1;
        if word == "dead" {
            let question = json!({ "ask": "dead-show", "task_id": id }).to_string();
            client.send(Kind::Ask, Flags::NONE, 5, question.as_bytes()).unwrap();
            assert_eq!(client.receive().unwrap().kind, Kind::Told, "task {id} died and left no letter");
        }
        assert!(word == "cancelled" || !told.cancelled.contains(&id.to_string()), "task {id}: {end}");
    }
    let mut table = String::from(
        "| killed while | kills | clients waited for accept / end / cancel | acknowledged before | came back \
         | could not | replay at most |\n",
    );
    for (moment, row) in MOMENTS.iter().zip(rows).filter(|(_, row)| row.kills > 0) {
        let Row { kills, waiting, acknowledged, restored, buried, replay_ms_max } = row;
        let [accept, end, cancel] = waiting.map(|sum| sum as f64 / *kills as f64);
        let _ = writeln!(
            table,
            "| {moment:?} | {kills} | {accept:.0} / {end:.0} / {cancel:.0} | {acknowledged} | {restored} \
             | {buried} | {replay_ms_max} ms |"
        );
    }
    let of = |word: &str| ends.get(word).copied().unwrap_or(0);
    let (done, dead, cancelled) = (of("done"), of("dead"), of("cancelled"));
    let all = told.accepted.len();
    println!(
        "{table}acknowledged {all}: {done} done, {dead} dead, {cancelled} cancelled; none lost, none twice"
    );
    assert!(of("done") > 0 && of("dead") > 0 && of("cancelled") > 0, "every kind of task was there");
}
