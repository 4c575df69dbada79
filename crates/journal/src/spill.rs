//! Large payloads, each in a file of its own, so that a snapshot need not copy them and a start need not read them.
//!
//! The file and its name are synced before the record that names it is written. So a record never names a file that is
//! not there, and a file that no record names was promised to nobody: it is removed at the next start.
//!
//! A file is kept as long as the snapshot or a segment after it names it, or a record that is still on its way.

use crate::disk::{DiskFile, read_up_to, write_all};
use crate::error::{AppendError, ReadError, remedy};
use crate::journal::{Shared, held};
use crate::names;
use crate::record::{Payload, Record, SpillRef};
use crc32c::crc32c;
use std::collections::{HashMap, HashSet};
use std::io;

/// Which files there are.
#[derive(Debug, Default)]
pub(crate) struct SpillTable {
    entries: HashMap<u64, SpillEntry>,
    next: u64,
    bytes: u64,
}

#[derive(Debug)]
struct SpillEntry {
    bytes: u64,
    /// Records on their way that name it.
    expected: u32,
    /// The last segment that names it, zero if only the snapshot does; none as long as no written record does.
    named_in: Option<u64>,
}

impl SpillTable {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes a file that a record of this segment names, at the start.
    pub(crate) fn found(&mut self, spill: &SpillRef, segment: u64) {
        let fresh = SpillEntry { bytes: spill.bytes, expected: 0, named_in: Some(segment) };
        self.next = self.next.max(spill.id + 1);
        match self.entries.get_mut(&spill.id) {
            Some(entry) => entry.named_in = Some(segment),
            None => {
                self.bytes += spill.bytes;
                self.entries.insert(spill.id, fresh);
            }
        }
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    /// Numbers up to this one are not given away again.
    pub(crate) fn skip(&mut self, id: u64) {
        self.next = self.next.max(id + 1);
    }

    fn begin(&mut self, bytes: u64, max: usize) -> Result<u64, AppendError> {
        if self.entries.len() >= max {
            let (what, setting) = ("payloads in files of their own", "spill_files_max");
            return Err(AppendError::TooLarge { what, given: self.entries.len() + 1, max, setting });
        }
        let id = self.next.max(1);
        self.next = id + 1;
        self.bytes += bytes;
        self.entries.insert(id, SpillEntry { bytes, expected: 0, named_in: None });
        Ok(id)
    }

    fn forget(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            self.bytes -= entry.bytes;
        }
    }

    fn change_expected(&mut self, ids: &[u64], change: impl Fn(u32) -> u32) {
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.expected = change(entry.expected);
            }
        }
    }

    /// The records on their way were written to this segment.
    pub(crate) fn named(&mut self, ids: &[u64], segment: u64) -> u64 {
        let mut bytes = 0;
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.expected = entry.expected.saturating_sub(1);
                entry.named_in = entry.named_in.max(Some(segment));
                bytes += entry.bytes;
            }
        }
        bytes
    }

    /// Takes out and gives the files that neither a snapshot with these files nor a segment from `base` on names.
    pub(crate) fn unnamed(&mut self, snapshot: &HashSet<u64>, base: u64) -> Vec<u64> {
        let is_unnamed = |(id, entry): (&u64, &SpillEntry)| {
            let named = entry.named_in.is_none_or(|segment| segment >= base) || snapshot.contains(id);
            (entry.expected == 0 && !named).then_some(*id)
        };
        let unnamed: Vec<u64> = self.entries.iter().filter_map(is_unnamed).collect();
        unnamed.iter().for_each(|id| self.forget(*id));
        unnamed
    }
}

/// Writes the payloads that are too large for the log, and gives their names by the place of their record.
pub(crate) fn write_large(
    shared: &Shared,
    records: &[Record<'_>],
) -> Result<Vec<(usize, SpillRef)>, AppendError> {
    let mut spilled = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let Payload::Bytes(bytes) = record.payload else { continue };
        if bytes.len() >= shared.config.spill_bytes {
            match write(shared, bytes) {
                Ok(spill) => spilled.push((index, spill)),
                Err(error) => {
                    discard(shared, &spilled);
                    return Err(error);
                }
            }
        }
    }
    if !spilled.is_empty()
        && let Err(reason) = shared.sync_directory()
    {
        discard(shared, &spilled);
        return Err(AppendError::Poisoned(reason));
    }
    Ok(spilled)
}

fn write(shared: &Shared, bytes: &[u8]) -> Result<SpillRef, AppendError> {
    if let Some(reason) = shared.poisoned() {
        return Err(AppendError::Poisoned(reason));
    }
    let id = held(&shared.spills).begin(bytes.len() as u64, shared.config.spill_files_max)?;
    let path = shared.path(&names::spill(id));
    let fill = |file: Box<dyn DiskFile>| {
        write_all(file.as_ref(), bytes, 0)?;
        file.sync_data()
    };
    match shared.disk.create(&path).and_then(fill) {
        Ok(()) => Ok(SpillRef { id, bytes: bytes.len() as u64, crc: crc32c(bytes) }),
        Err(error) => {
            remove(shared, id);
            let reason = format!("{}: {error}{}", path.display(), remedy(&error));
            Err(AppendError::Spill(reason.into()))
        }
    }
}

/// Removes files whose records were not taken.
pub(crate) fn discard(shared: &Shared, spilled: &[(usize, SpillRef)]) {
    spilled.iter().for_each(|(_, spill)| remove(shared, spill.id));
}

fn remove(shared: &Shared, id: u64) {
    held(&shared.spills).forget(id);
    // What stays is removed at the next start, since no record names it.
    let _ = shared.disk.remove(&shared.path(&names::spill(id)));
}

/// Records that name these are on their way. A payload that is gone already cannot be named again.
pub(crate) fn expect(shared: &Shared, named: &[u64]) -> Result<(), AppendError> {
    if named.is_empty() {
        return Ok(());
    }
    let mut spills = held(&shared.spills);
    if let Some(gone) = named.iter().find(|id| !spills.has(**id)) {
        let name = names::spill(*gone);
        return Err(AppendError::Spill(format!("{name}: named by a record and not there").into()));
    }
    spills.change_expected(named, |expected| expected.saturating_add(1));
    Ok(())
}

/// The records that named these will not be written.
pub(crate) fn give_up(shared: &Shared, named: &[u64]) {
    if !named.is_empty() {
        held(&shared.spills).change_expected(named, |expected| expected.saturating_sub(1));
    }
}

/// A refused batch: files that no record names now.
pub(crate) fn refuse(shared: &Shared, named: &[u64]) {
    give_up(shared, named);
    let is_orphan = |id: u64| {
        let spills = held(&shared.spills);
        spills.entries.get(&id).is_some_and(|entry| entry.expected == 0 && entry.named_in.is_none())
    };
    for id in named {
        if is_orphan(*id) {
            remove(shared, *id);
        }
    }
}

pub(crate) fn read(shared: &Shared, spill: &SpillRef) -> Result<Vec<u8>, ReadError> {
    let path = shared.path(&names::spill(spill.id));
    let damaged = || ReadError::Damaged(path.clone());
    let failed = |error: io::Error| ReadError::Io(path.clone(), error);
    let bytes = usize::try_from(spill.bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize / 2);
    let file = shared.disk.open(&path, false).map_err(failed)?;
    if file.length().map_err(failed)? != spill.bytes {
        return Err(damaged());
    }
    let mut content = vec![0; bytes.ok_or_else(damaged)?];
    let read = read_up_to(file.as_ref(), &mut content, 0).map_err(failed)?;
    if read != content.len() || crc32c(&content) != spill.crc {
        return Err(damaged());
    }
    Ok(content)
}
