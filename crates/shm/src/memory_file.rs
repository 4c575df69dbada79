//! Memory that two processes share: a file without a name, which neither side can cut short under the other.
//!
//! A memory file has no path, so nobody can squat on its name or link to it, and nothing is left behind when
//! everybody who had it was killed. It is sealed before it is handed over: its size never changes again, so
//! that no access through a mapping can fall off the end (a peer that cuts a file kills the others by SIGBUS).
//! What comes from a stranger is checked for those very seals, and for its size, before it is mapped.
//!
//! Not here: what lies in it (`layout.rs`), how it travels (`handshake.rs`).

use millpond_queue::wpol::Memory;
use rustix::fs::{FileType, MemfdFlags, Mode, SealFlags};
use rustix::fs::{fchmod, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// The size is what it is: no seal can be taken off, none can be added.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A file in memory whose size is sealed.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    file: OwnedFd,
    bytes: usize,
}

/// What is wrong with a descriptor that a stranger sent.
#[derive(Debug)]
pub(crate) enum MemoryFault {
    /// The kernel was asked, and refused.
    System(io::Error),
    /// It is a directory, a device, a socket.
    NotAFile,
    /// Its size could change.
    NotSealed,
    /// It is smaller or larger than what was said of it.
    WrongSize { expected: u64, found: u64 },
    /// It is larger than allowed.
    TooLarge { bytes_max: u64, found: u64 },
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(formatter, "the memory cannot be used: {error}"),
            Self::NotAFile => formatter.write_str("expected a memory file, got another kind of descriptor"),
            Self::NotSealed => formatter.write_str(
                "expected memory whose size is sealed (shrink, grow, seal), got one that may change",
            ),
            Self::WrongSize { expected, found } => {
                write!(formatter, "expected {expected} bytes of memory, got {found}")
            }
            Self::TooLarge { bytes_max, found } => write!(
                formatter,
                "expected at most {bytes_max} bytes of memory, got {found}; ask for less, or raise \
                 memory_door.region_bytes_max"
            ),
        }
    }
}

impl Error for MemoryFault {}

impl MemoryFile {
    /// A new one, zeroed, and sealed already. Only its user may open it.
    pub(crate) fn create(bytes: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Nobody runs what lies in it. Systems before Linux 6.3 do not know the flag.
        let file = match memfd_create(c"millpond", flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => memfd_create(c"millpond", flags)?,
            made => made?,
        };
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok(Self { file, bytes })
    }

    /// One that somebody sent: it must have exactly so many bytes.
    pub(crate) fn check(file: OwnedFd, expected: u64, bytes_max: u64) -> Result<Self, MemoryFault> {
        let system = |error: Errno| MemoryFault::System(error.into());
        let found = fstat(&file).map_err(system)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(MemoryFault::NotAFile);
        }
        // A file that knows no seals is none that was made for this.
        let seals = fcntl_get_seals(&file).map_err(|_| MemoryFault::NotSealed)?;
        if !seals.contains(SEALS) {
            return Err(MemoryFault::NotSealed);
        }
        // After the seals: from here on it is the size for good.
        let found = fstat(&file).map_err(system)?.st_size as u64;
        if found > bytes_max {
            return Err(MemoryFault::TooLarge { bytes_max, found });
        }
        match usize::try_from(found) {
            Ok(bytes) if found == expected && bytes > 0 => Ok(Self { file, bytes }),
            _ => Err(MemoryFault::WrongSize { expected, found }),
        }
    }

    /// All of it, where this process can see it.
    pub(crate) fn map(&self) -> io::Result<Arc<Mapping>> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is there is replaced. The file is as long as
        // the mapping and stays so: it is sealed.
        let base = unsafe { mmap(null_mut(), self.bytes, rights, MapFlags::SHARED, &self.file, 0) }?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0");
        Ok(Arc::new(Mapping { base, bytes: self.bytes }))
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A memory file as this process sees it. Unmapped when the last part of it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an address and a length. What lies there is only touched through `Memory`, by atomics.
unsafe impl Send for Mapping {}
// SAFETY: nothing in the value ever changes; what lies behind the address is touched by atomics only, as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A part of it, as atomic words. Parts keep the whole mapped.
    ///
    /// # Panics
    /// If the part is not inside, or does not begin at a multiple of 8: ranges are computed from a checked plan.
    pub(crate) fn part(self: &Arc<Self>, range: Range<usize>) -> Memory {
        assert!(range.start <= range.end && range.end <= self.bytes, "a part lies in its mapping");
        // SAFETY: the assertion has just seen that the part begins inside the bytes that `base` is good for.
        let base = unsafe { self.base.add(range.start) };
        let owner = Box::new(Arc::clone(self));
        // SAFETY: the owner keeps the mapping, which is writable and never shorter than its file. This process
        // touches it through `Memory` alone.
        let memory = unsafe { Memory::from_owner(base.as_ptr(), range.len(), owner) };
        memory.expect("a part of a mapping begins at a multiple of 8")
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; every part kept this value alive, so none is left.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const BYTES: usize = 4096;

    fn refused(file: impl Into<OwnedFd>) -> String {
        let fault = MemoryFile::check(file.into(), BYTES as u64, 1 << 20).map(|_| ());
        fault.expect_err("nobody may hand this in").to_string()
    }

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let made = MemoryFile::create(BYTES).unwrap();
        let sent = made.file.try_clone().unwrap();
        let checked = MemoryFile::check(sent, BYTES as u64, BYTES as u64).unwrap();
        let (one, other) = (made.map().unwrap(), checked.map().unwrap());
        one.part(64..128).copy_in(0, b"through the wall");
        let mut seen = [0; 16];
        other.part(0..BYTES).copy_out(64, &mut seen);
        assert_eq!(&seen, b"through the wall");
    }

    #[test]
    fn its_size_cannot_be_changed_by_anybody() {
        let made = MemoryFile::create(BYTES).unwrap();
        assert!(ftruncate(&made.file, 0).is_err() && ftruncate(&made.file, 1 << 20).is_err());
    }

    #[test]
    fn memory_that_could_be_cut_short_is_refused() {
        let open = memfd_create(c"open", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, BYTES as u64).unwrap();
        assert!(refused(open).contains("sealed"));
        assert!(refused(memfd_create(c"closed", MemfdFlags::empty()).unwrap()).contains("sealed"));
        assert!(refused(File::open("/proc/self/exe").unwrap()).contains("sealed"));
        assert!(refused(File::open("/dev/null").unwrap()).contains("kind of descriptor"));
        assert!(refused(File::open("/").unwrap()).contains("kind of descriptor"));
    }

    #[test]
    fn memory_of_another_size_than_was_said_is_refused() {
        assert!(refused(MemoryFile::create(2 * BYTES).unwrap().file).contains("expected 4096 bytes"));
        assert!(refused(MemoryFile::create(2 << 20).unwrap().file).contains("region_bytes_max"));
        assert!(refused(MemoryFile::create(0).unwrap().file).contains("got 0"));
    }
}
