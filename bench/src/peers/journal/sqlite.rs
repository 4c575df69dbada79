//! SQLite with a write-ahead log, synced at every commit, and one writer that commits whatever waits.
//!
//! One connection per submitter would let them queue for the same lock, each with a sync of its own; this is the form
//! in which SQLite is fastest here.

use super::Store;
use super::group_commit::{Commit, GroupCommit};
use rusqlite::Connection;
use std::path::Path;

pub(crate) struct Sqlite(GroupCommit);

fn open(folder: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(folder.join("sqlite.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
    Ok(connection)
}

fn commit(connection: &mut Connection, payloads: &[Vec<u8>]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO tasks (payload) VALUES (?1)")?;
        for payload in payloads {
            insert.execute([payload])?;
        }
    }
    transaction.commit()
}

impl Store for Sqlite {
    fn start(folder: &Path, _submitters: usize) -> Result<Self, String> {
        let mut connection = open(folder).map_err(|error| error.to_string())?;
        let commit: Commit =
            Box::new(move |payloads| commit(&mut connection, payloads).map_err(|error| error.to_string()));
        Ok(Self(GroupCommit::start(commit)))
    }

    fn submit(&self, _submitter: usize, payload: &[u8]) -> Result<(), String> {
        self.0.submit(payload)
    }

    fn count(self, folder: &Path) -> Result<u64, String> {
        self.0.close()?;
        let connection = open(folder).map_err(|error| error.to_string())?;
        let count: Result<i64, _> = connection.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0));
        u64::try_from(count.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }
}
