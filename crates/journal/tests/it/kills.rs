//! Processes are killed with SIGKILL while they append, and every number they called acknowledged is there.
//!
//! The process that is killed is this very program, started once more. Four of its threads append small and large
//! records and call out each number once it is acknowledged; a fifth writes snapshots. `MILLPOND_KILLS` sets how many
//! processes are killed, `MILLPOND_SEED` repeats the moments of an earlier run, as far as the machine does.

use crate::house::{House, KIND, LONG, large_payload, open, payload, small};
use millpond_journal::{Journal, JournalConfig, Payload, Record};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{env, thread};

const PART: &str = "MILLPOND_PART";
const SUBMITTERS: u64 = 4;

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}: expected a whole number, got {text:?}"))
    })
}

fn config(directory: &Path) -> JournalConfig {
    JournalConfig { spill_files_max: 1 << 20, ..small(directory) }
}

/// The live numbers, with what a snapshot says about each.
type Table = Arc<Mutex<BTreeMap<u64, Option<millpond_journal::SpillRef>>>>;

/// Not a test: the process that is killed. Without an order it does nothing.
#[test]
fn the_process_of_the_other_test() {
    let Some(directory) = env::var_os(PART).map(PathBuf::from) else { return };
    // Nobody outlives the test, however it ends.
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(1);
    });
    let table = Table::default();
    let (journal, _) = Journal::open(config(&directory), |record| {
        let spill = match record.payload {
            Payload::Bytes(_) => None,
            Payload::Spilled(spill) => Some(spill),
        };
        table.lock().unwrap().insert(record.key, spill);
    })
    .unwrap();
    let journal = Arc::new(journal);
    let next = table.lock().unwrap().keys().next_back().map_or(0, |last| last / SUBMITTERS + 1);
    for submitter in 0..SUBMITTERS {
        let (journal, table) = (Arc::clone(&journal), Arc::clone(&table));
        thread::spawn(move || {
            for turn in next.. {
                submit(&journal, &table, turn * SUBMITTERS + submitter);
            }
        });
    }
    loop {
        // The table is held while the snapshot begins, so that it is the state as of then.
        let (mut snapshot, state) = {
            let table = table.lock().unwrap();
            (journal.begin_snapshot().unwrap(), table.clone())
        };
        for (number, spill) in state {
            let bytes = payload(number);
            let payload = spill.map_or(Payload::Bytes(&bytes), Payload::Spilled);
            snapshot.put(Record { kind: KIND, key: number, payload }).unwrap();
        }
        snapshot.finish().unwrap();
    }
}

fn submit(journal: &Journal, table: &Table, number: u64) {
    let bytes = if number.is_multiple_of(10) { large_payload(number) } else { payload(number) };
    let receipt = {
        let mut table = table.lock().unwrap();
        let receipt = journal.append(&[Record::new(KIND, number, &bytes)]).unwrap();
        table.insert(number, receipt.spilled().first().map(|(_, spill)| *spill));
        receipt
    };
    receipt.wait().unwrap();
    // One write for each, so that no kill can cut it.
    let line = format!("acknowledged {number}\n");
    assert_eq!(std::io::stdout().lock().write(line.as_bytes()).unwrap(), line.len());
    std::io::stdout().flush().unwrap();
}

#[test]
fn processes_are_killed_and_every_acknowledged_record_is_there() {
    let kills = number("MILLPOND_KILLS", 20);
    let seed = number("MILLPOND_SEED", u64::from(std::process::id()));
    println!("MILLPOND_SEED={seed}");
    let mut random = seed | 1;
    let house = House::new("kills");
    let directory = house.path().join("journal");
    let mut acknowledged = Vec::new();
    for kill in 0..kills {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "kills::the_process_of_the_other_test", "--nocapture"]);
        command.env(PART, &directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, heard) = mpsc::channel();
        thread::spawn(move || {
            let lines = output.lines().map(Result::unwrap);
            lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok()).for_each(
                |number| {
                    // The test has ended by a failure if nobody listens.
                    let _ = sender.send(number);
                },
            );
        });
        // Most processes are killed at work, and some of them while they start.
        if kill % 4 > 0 {
            acknowledged.push(heard.recv_timeout(LONG).expect("the process acknowledges something"));
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        thread::sleep(Duration::from_micros(random % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(heard.iter());
        let (_journal, numbers, _) = open(config(&directory)).unwrap();
        let mut found = numbers.clone();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), numbers.len(), "kill {kill}: a record came twice");
        let missing: Vec<_> =
            acknowledged.iter().filter(|number| found.binary_search(number).is_err()).collect();
        assert!(missing.is_empty(), "kill {kill}: acknowledged and not there: {missing:?}");
    }
    println!("{kills} processes killed, {} records acknowledged, none lost", acknowledged.len());
    assert!(acknowledged.len() as u64 >= kills / 2, "{} records only", acknowledged.len());
}
