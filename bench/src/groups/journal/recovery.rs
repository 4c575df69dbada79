//! How long does a start take that finds a million live records of 300 bytes?
//!
//! From the call that opens the journal until all are in a table, which is rebuilt here as an owner would: a map from
//! key to payload. The files were just written, so they are in memory, as after a crash of the program alone.
//! `millpond` has a snapshot with them, `millpond log` no snapshot at all, SQLite reads a table of them.

use crate::measure::{Better, Contestant, Group, Pace, Round};
use crate::peers::journal::StoreFolder;
use crate::peers::journal::millpond::config;
use millpond_journal::{Journal, JournalConfig, Payload, Record, SyncMode};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

const RECORD_BYTES: usize = 300;
/// A quick round has as many as a full one: a tenth would not show what a million costs.
const RECORDS: u64 = 1_000_000;

pub(super) fn group() -> Group {
    let contestants = vec![
        Contestant::new("millpond", |round| recover(round, write_snapshot)),
        Contestant::new("millpond log", |round| recover(round, write_log)),
        Contestant::new("sqlite wal full", sqlite),
    ];
    let question = "a start that finds a million live records of 300 bytes, until they are in a table";
    Group {
        name: "journal-recovery",
        question,
        unit: "ms",
        better: Better::Lower,
        pace: Pace::Once,
        contestants,
    }
}

/// Tests run with few items, and then with few records.
fn records_of(round: &Round) -> u64 {
    if round.items < 100_000 { round.items } else { RECORDS }
}

type Table = HashMap<u64, Box<[u8]>>;

fn full(table: &Table, records: u64) -> Result<(), String> {
    let whole = table.values().all(|payload| payload.len() == RECORD_BYTES);
    if table.len() as u64 == records && whole {
        return Ok(());
    }
    Err(format!("{records} records were written, and {} came back", table.len()))
}

fn recover(round: &Round, write: fn(&Journal, u64) -> Result<(), String>) -> Result<f64, String> {
    let folder = StoreFolder::new()?;
    let records = records_of(round);
    // How the records got there is not measured.
    let writing = JournalConfig { sync: SyncMode::Off, ..config(folder.path()) };
    let (journal, _) = Journal::open(writing, |_| ()).map_err(|error| error.to_string())?;
    write(&journal, records)?;
    journal.close().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut table = Table::new();
    let opened = Journal::open(config(folder.path()), |record| {
        if let Payload::Bytes(bytes) = record.payload {
            table.insert(record.key, bytes.into());
        }
    });
    let time = began.elapsed();
    opened.map_err(|error| error.to_string())?;
    full(&table, records)?;
    Ok(time.as_secs_f64() * 1e3)
}

fn write_snapshot(journal: &Journal, records: u64) -> Result<(), String> {
    let mut snapshot = journal.begin_snapshot().map_err(|error| error.to_string())?;
    for key in 0..records {
        snapshot.put(Record::new(1, key, &[b'm'; RECORD_BYTES])).map_err(|error| error.to_string())?;
    }
    snapshot.finish().map(drop).map_err(|error| error.to_string())
}

fn write_log(journal: &Journal, records: u64) -> Result<(), String> {
    for key in 0..records {
        let receipt = journal.append(&[Record::new(1, key, &[b'm'; RECORD_BYTES])]);
        // The close waits for all of them.
        drop(receipt.map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn sqlite(round: &Round) -> Result<f64, String> {
    let folder = StoreFolder::new()?;
    let records = records_of(round);
    write_sqlite(folder.path(), records).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let table = read_sqlite(folder.path()).map_err(|error| error.to_string())?;
    let time = began.elapsed();
    full(&table, records)?;
    Ok(time.as_secs_f64() * 1e3)
}

fn write_sqlite(folder: &Path, records: u64) -> rusqlite::Result<()> {
    let mut connection = Connection::open(folder.join("recovery.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch("CREATE TABLE tasks (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO tasks (id, payload) VALUES (?1, ?2)")?;
        for key in 0..records.cast_signed() {
            insert.execute((key, [b'm'; RECORD_BYTES]))?;
        }
    }
    transaction.commit()
}

fn read_sqlite(folder: &Path) -> rusqlite::Result<Table> {
    let connection = Connection::open(folder.join("recovery.db"))?;
    let mut select = connection.prepare("SELECT id, payload FROM tasks")?;
    let mut rows = select.query([])?;
    let mut table = Table::new();
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        table.insert(key.cast_unsigned(), row.get_ref(1)?.as_blob()?.into());
    }
    Ok(table)
}
