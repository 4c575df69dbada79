//! What a disk may do wrong to a daemon with a journal: no room, and writes that fail.
//!
//! Without room nothing new is accepted, everything else goes on, and it recovers by itself. After a failed sync nobody
//! knows what is on the disk, so nothing is acknowledged any more. In neither case is anybody told what is not so.

use crate::durable::{Place, back, keep};
use crate::toys::{Mill, ended, json, until};
use millpond_journal::{Disk, DiskFile, FileFound, Locking, RealDisk};
use millpond_tasks::{ErrorCode, TaskId};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

/// The disk of this machine, with trouble on demand.
#[derive(Default)]
struct Troubled {
    is_full: AtomicBool,
    fails_to_sync: Arc<AtomicBool>,
}

struct TroubledFile {
    file: Box<dyn DiskFile>,
    fails_to_sync: Arc<AtomicBool>,
}

impl Disk for Troubled {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_directory(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if self.is_full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = RealDisk.create(path)?;
        Ok(Box::new(TroubledFile { file, fails_to_sync: Arc::clone(&self.fails_to_sync) }))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open(path, write)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FileFound>> {
        RealDisk.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        RealDisk.sync_directory(directory)
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<Locking> {
        RealDisk.lock(path, note)
    }
}

impl DiskFile for TroubledFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.fails_to_sync.load(SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

fn start(place: &Place) -> (Mill, Arc<Troubled>) {
    let disk = Arc::<Troubled>::default();
    (Mill::start_on(place.config(), Arc::clone(&disk) as Arc<dyn Disk>, |_| ()), disk)
}

#[test]
fn without_room_submissions_are_refused_and_ends_are_told_once_there_is_some() {
    let place = Place::new();
    let (mill, disk) = start(&place);
    let task = keep(&mill, r#"{"handler":"hold"}"#);
    let call = mill.call();
    let later = keep(&mill, r#"{"handler":"hold"}"#);
    let large = mill.call();
    disk.is_full.store(true, SeqCst);
    let padding = "x".repeat(100_000);
    let text = format!(r#"{{"handler":"echo","args":{{"p":"{padding}"}}}}"#);
    let refused = mill.refuse(&text);
    assert_eq!(refused.failure.code, ErrorCode::JournalFull);
    assert!(refused.retry_after.is_some(), "and when to come again");
    assert_eq!(mill.handle.stats().journal.unwrap().state, "full");
    // What fits into the file that is there is still kept; a result that needs one of its own waits for room.
    call.finish_with_args();
    ended(&task).result().unwrap();
    large.finish(Ok(json(&format!("\"{}\"", "r".repeat(100_000)))));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!later.is_ended(), "nobody is told of an end that is not kept");
    disk.is_full.store(false, SeqCst);
    assert_eq!(ended(&later).result().unwrap().get().len(), 100_002);
    keep(&mill, &text);
    until("all is well again", || mill.handle.stats().journal.unwrap().state == "ok");
    assert!(mill.handle.journal_failure().is_none());
    let again = place.crash().start();
    assert!(back(&again, &task).is_ended());
}

#[test]
fn a_log_that_has_no_room_for_another_file_refuses_and_recovers() {
    let place = Place::new();
    let (mill, disk) = start(&place);
    let held = keep(&mill, r#"{"handler":"hold"}"#);
    let call = mill.call();
    disk.is_full.store(true, SeqCst);
    let padding = "x".repeat(60_000);
    let text = format!(r#"{{"handler":"echo","args":{{"p":"{padding}"}},"delay_ms":3600000}}"#);
    let mut kept = Vec::new();
    let refused = loop {
        let accepted = match mill.handle.submit(text.as_bytes(), Default::default()) {
            Ok(accepted) => accepted,
            Err(refused) => break refused,
        };
        match accepted.wait_kept() {
            Ok(()) => kept.push(accepted.task),
            Err(refused) => break refused,
        }
        assert!(kept.len() < 1000, "a file of eight megabytes holds no more");
    };
    assert_eq!(refused.failure.code, ErrorCode::JournalFull, "{refused}");
    assert_eq!(mill.handle.live(), kept.len() + 1, "what was refused is gone");
    disk.is_full.store(false, SeqCst);
    until("there is room", || {
        let accepted = mill.handle.submit(text.as_bytes(), Default::default());
        accepted.is_ok_and(|accepted| accepted.wait_kept().map(|()| kept.push(accepted.task)).is_ok())
    });
    call.finish_with_args();
    ended(&held).result().unwrap();
    let again = place.crash().start();
    assert_eq!(again.handle.live(), kept.len(), "those that were kept, and no other");
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let place = Place::new();
    let (mill, disk) = start(&place);
    let running = keep(&mill, r#"{"handler":"hold"}"#);
    let call = mill.call();
    disk.fails_to_sync.store(true, SeqCst);
    // Another record may have failed before this one, and then it is refused at once.
    let submitted = mill.handle.submit(br#"{"handler":"echo","task_id":7}"#, Default::default());
    let refused = submitted.and_then(|accepted| accepted.wait_kept()).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::JournalFailed, "{refused}");
    assert!(mill.handle.get(&TaskId::Number(7)).is_err(), "it was never there");
    disk.fails_to_sync.store(false, SeqCst);
    let later = mill.refuse(r#"{"handler":"echo"}"#);
    assert_eq!(later.failure.code, ErrorCode::JournalFailed, "a failed sync is never forgiven");
    assert_eq!(mill.handle.journal_failure().unwrap().code, ErrorCode::JournalFailed);
    assert_eq!(mill.handle.stats().journal.unwrap().state, "failed");
    call.finish_with_args();
    let told = ended(&running).result().unwrap_err();
    assert_eq!(told.code, ErrorCode::Postponed, "{told}");
    // The next daemon does it again, and may tell how it ended.
    let again = place.crash().start();
    let call = again.call();
    assert_eq!((call.task_id(), call.attempt()), (running.id(), 2));
    call.finish_with_args();
    ended(&back(&again, &running)).result().unwrap();
}
