//! A disk in memory that does what disks do when things go wrong.
//!
//! Any call can be made to fail: with an error, after half of a write, or because the power is gone. What was written
//! and not synced may be there after a power cut or not, sector by sector, and so may names. A sync that fails forgets
//! what it should have written, as Linux does: it can still be read, and no later sync brings it to the disk.
//!
//! Calls are counted over all threads, so a test can let the nth call fail, for every n.

use millpond_journal::{Disk, DiskFile, FileFound, LockGuard, Locking};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

/// What happens at a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call fails.
    Io,
    /// The call fails for want of room; a write gets half of its bytes down first.
    Full,
    /// A write takes half of its bytes; other calls succeed.
    Short,
    /// This call and every later one fail, and change nothing.
    PowerCut,
}

/// What of the unsynced is there after a power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Nothing,
    Everything,
    /// Each sector and each name by chance.
    Some(u64),
}

#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    files: Vec<Content>,
    /// As a program sees them now, and as they are for certain after a power cut.
    names: BTreeMap<PathBuf, usize>,
    names_synced: BTreeMap<PathBuf, usize>,
    names_changed: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    calls: u64,
    syncs: u64,
    fault: Option<(u64, Fault)>,
    is_off: bool,
    /// Bytes that all files together may have.
    room: Option<usize>,
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    written: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum NameChange {
    Given(PathBuf, usize),
    Moved(PathBuf, PathBuf),
    Taken(PathBuf),
}

fn broken(what: &str) -> io::Error {
    io::Error::other(format!("simulated: {what}"))
}

fn full() -> io::Error {
    io::Error::new(ErrorKind::StorageFull, "simulated: no room")
}

impl World {
    /// Counts a call, and says what goes wrong with it.
    fn call(&mut self) -> io::Result<Option<Fault>> {
        if self.is_off {
            return Err(broken("the power is gone"));
        }
        self.calls += 1;
        let fault = self.fault.filter(|(at, _)| *at == self.calls).map(|(_, fault)| fault);
        match fault {
            Some(Fault::PowerCut) => {
                self.is_off = true;
                Err(broken("the power is gone"))
            }
            fault => Ok(fault),
        }
    }

    /// A call that either works or fails.
    fn plain_call(&mut self) -> io::Result<()> {
        match self.call()? {
            Some(Fault::Io) => Err(broken("an error")),
            Some(Fault::Full) => Err(full()),
            _ => Ok(()),
        }
    }

    fn used(&self) -> usize {
        self.names.values().map(|file| self.files[*file].now.len()).sum()
    }
}

impl SimDisk {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Lets the call with this number fail, counted from now.
    pub(crate) fn fail_at(&self, call: u64, fault: Fault) {
        let mut world = self.world();
        let at = world.calls + call;
        world.fault = Some((at, fault));
    }

    /// From now on every call works.
    pub(crate) fn heal(&self) {
        self.world().fault = None;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.world().calls
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.world().syncs
    }

    /// Whether the fault has happened.
    pub(crate) fn has_failed(&self) -> bool {
        let world = self.world();
        world.fault.is_some_and(|(at, _)| world.calls >= at)
    }

    /// How many bytes all files together may have; `None` for any number.
    pub(crate) fn set_room(&self, bytes: Option<usize>) {
        self.world().room = bytes;
    }

    pub(crate) fn used(&self) -> usize {
        self.world().used()
    }

    /// What another machine finds on this disk after the power was cut at this moment.
    pub(crate) fn after_power_cut(&self, kept: Kept) -> Self {
        let world = self.world();
        let mut chance = Chance::new(kept);
        let files: Vec<Content> = world.files.iter().map(|file| file.after_power_cut(&mut chance)).collect();
        let mut names = world.names_synced.clone();
        for change in world.names_changed.iter().filter(|_| chance.keeps()) {
            match change {
                NameChange::Given(path, file) => drop(names.insert(path.clone(), *file)),
                NameChange::Moved(from, to) => {
                    // The file under the old name as a program saw it then; its own change may have been lost.
                    if let Some(file) = names.remove(from) {
                        names.insert(to.clone(), file);
                    }
                }
                NameChange::Taken(path) => drop(names.remove(path)),
            }
        }
        let names_synced = names.clone();
        Self(Arc::new(Mutex::new(World { files, names, names_synced, ..World::default() })))
    }

    /// Changes bytes behind the journal's back.
    pub(crate) fn scribble(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world();
        let file = world.names[path];
        let content = &mut world.files[file];
        change(&mut content.now);
        content.synced = content.now.clone();
    }

    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let world = self.world();
        world.files[world.names[path]].now.clone()
    }

    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.world().names.keys().cloned().collect()
    }

    /// A copy that no longer has to do with this disk.
    pub(crate) fn copy(&self) -> Self {
        let world = self.world();
        let (files, names) = (world.files.clone(), world.names.clone());
        let (names_synced, names_changed) = (world.names_synced.clone(), world.names_changed.clone());
        Self(Arc::new(Mutex::new(World { files, names, names_synced, names_changed, ..World::default() })))
    }
}

impl Content {
    fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let mut bytes = self.synced.clone();
        for (offset, written) in &self.written {
            for (index, sector) in written.chunks(SECTOR).enumerate() {
                if chance.keeps() {
                    put(&mut bytes, offset + index * SECTOR, sector);
                }
            }
        }
        Self { now: bytes.clone(), synced: bytes, written: Vec::new() }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

enum Chance {
    Always(bool),
    Random(u64),
}

impl Chance {
    fn new(kept: Kept) -> Self {
        match kept {
            Kept::Nothing => Self::Always(false),
            Kept::Everything => Self::Always(true),
            Kept::Some(seed) => Self::Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        }
    }

    fn keeps(&mut self) -> bool {
        match self {
            Self::Always(keeps) => *keeps,
            Self::Random(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                state.is_multiple_of(2)
            }
        }
    }
}

impl Disk for SimDisk {
    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        self.world().plain_call()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        world.plain_call()?;
        world.files.push(Content::default());
        let file = world.files.len() - 1;
        world.names.insert(path.to_owned(), file);
        world.names_changed.push(NameChange::Given(path.to_owned(), file));
        Ok(Box::new(SimFile { disk: self.clone(), file, writes: true }))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        world.plain_call()?;
        let file = *world.names.get(path).ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(SimFile { disk: self.clone(), file, writes: write }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        let file = world.names.remove(from).ok_or(ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), file);
        world.names_changed.push(NameChange::Moved(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.plain_call()?;
        world.names.remove(path).ok_or(ErrorKind::NotFound)?;
        world.names_changed.push(NameChange::Taken(path.to_owned()));
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FileFound>> {
        let mut world = self.world();
        world.plain_call()?;
        let inside = |(path, file): (&PathBuf, &usize)| {
            let name = path.strip_prefix(directory).ok()?.to_str()?.to_owned();
            Some(FileFound { name, bytes: world.files[*file].now.len() as u64 })
        };
        Ok(world.names.iter().filter_map(inside).collect())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.syncs += 1;
        world.plain_call()?;
        world.names_synced = world.names.clone();
        world.names_changed.clear();
        Ok(())
    }

    fn lock(&self, path: &Path, _note: &str) -> io::Result<Locking> {
        let mut world = self.world();
        world.plain_call()?;
        if !world.locked.insert(path.to_owned()) {
            return Ok(Locking::Held("4711".to_owned()));
        }
        Ok(Locking::Locked(Box::new(SimLock { disk: self.clone(), path: path.to_owned() })))
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl LockGuard for SimLock {}

impl std::fmt::Debug for SimLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SimLock").field(&self.path).finish()
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.world().locked.remove(&self.path);
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
    writes: bool,
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        assert!(self.writes, "a write to a file that was opened to read");
        let mut world = self.disk.world();
        let offset = usize::try_from(offset).unwrap();
        let fault = world.call()?;
        let grows = (offset + bytes.len()).saturating_sub(world.files[self.file].now.len());
        let crowded = world.room.is_some_and(|room| grows > 0 && world.used() + grows > room);
        let taken = match fault {
            Some(Fault::Io) => return Err(broken("an error")),
            Some(Fault::Full | Fault::Short) => bytes.len().div_ceil(2),
            _ if crowded => return Err(full()),
            _ => bytes.len(),
        };
        let content = &mut world.files[self.file];
        put(&mut content.now, offset, &bytes[..taken]);
        content.written.push((offset, bytes[..taken].to_vec()));
        if fault == Some(Fault::Full) { Err(full()) } else { Ok(taken) }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.world();
        world.plain_call()?;
        let content = &world.files[self.file].now;
        let rest = content.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        world.syncs += 1;
        let done = world.plain_call();
        if world.is_off {
            return done;
        }
        let content = &mut world.files[self.file];
        if done.is_ok() {
            let now = content.now.clone();
            // What an earlier sync forgot is not brought back by this one.
            let written = std::mem::take(&mut content.written);
            written.iter().for_each(|(offset, bytes)| put(&mut content.synced, *offset, bytes));
            content.synced.resize(now.len(), 0);
        } else {
            content.written.clear();
        }
        done
    }

    fn length(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        world.plain_call()?;
        Ok(world.files[self.file].now.len() as u64)
    }
}
