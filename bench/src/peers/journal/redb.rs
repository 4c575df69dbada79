//! redb, whose commits are durable at once by default, with one writer that commits whatever waits.
//!
//! The newest release that the workspace's Rust can build.

use super::Store;
use super::group_commit::{Commit, GroupCommit};
use redb::{Database, ReadableTableMetadata, TableDefinition};
use std::error::Error;
use std::path::Path;

const TASKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tasks");

pub(crate) struct Redb(GroupCommit);

fn commit(database: &Database, first: u64, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TASKS)?;
        for (id, payload) in (first..).zip(payloads) {
            table.insert(id, payload.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn count(folder: &Path) -> Result<u64, Box<dyn Error>> {
    let database = Database::open(folder.join("redb"))?;
    let transaction = database.begin_read()?;
    Ok(transaction.open_table(TASKS)?.len()?)
}

impl Store for Redb {
    fn start(folder: &Path, _submitters: usize) -> Result<Self, String> {
        let database = Database::create(folder.join("redb")).map_err(|error| error.to_string())?;
        let mut next = 0;
        let commit: Commit = Box::new(move |payloads| {
            commit(&database, next, payloads).map_err(|error| error.to_string())?;
            next += payloads.len() as u64;
            Ok(())
        });
        Ok(Self(GroupCommit::start(commit)))
    }

    fn submit(&self, _submitter: usize, payload: &[u8]) -> Result<(), String> {
        self.0.submit(payload)
    }

    fn count(self, folder: &Path) -> Result<u64, String> {
        self.0.close()?;
        count(folder).map_err(|error| error.to_string())
    }
}
