//! fjall, a log-structured store, with one writer that commits whatever waits as one batch and syncs its journal.
//!
//! The newest release that the workspace's Rust can build.

use super::Store;
use super::group_commit::{Commit, GroupCommit};
use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::path::Path;

pub(crate) struct Fjall(GroupCommit);

fn open(folder: &Path) -> fjall::Result<(Keyspace, PartitionHandle)> {
    let keyspace = Config::new(folder.join("fjall")).open()?;
    let partition = keyspace.open_partition("tasks", PartitionCreateOptions::default())?;
    Ok((keyspace, partition))
}

fn commit(
    keyspace: &Keyspace,
    partition: &PartitionHandle,
    first: u64,
    payloads: &[Vec<u8>],
) -> fjall::Result<()> {
    let mut batch = keyspace.batch();
    for (id, payload) in (first..).zip(payloads) {
        batch.insert(partition, id.to_be_bytes(), payload.as_slice());
    }
    batch.commit()?;
    keyspace.persist(PersistMode::SyncData)
}

impl Store for Fjall {
    fn start(folder: &Path, _submitters: usize) -> Result<Self, String> {
        let (keyspace, partition) = open(folder).map_err(|error| error.to_string())?;
        let mut next = 0;
        let commit: Commit = Box::new(move |payloads| {
            commit(&keyspace, &partition, next, payloads).map_err(|error| error.to_string())?;
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
        let (_keyspace, partition) = open(folder).map_err(|error| error.to_string())?;
        partition.len().map(|count| count as u64).map_err(|error| error.to_string())
    }
}
