//! What the files of a journal are called, and what a name tells.
//!
//! ```text
//! lock                            who has the directory open; it stays, the lock on it goes with the process
//! log-0000000000000007.mill       segment 7 of the log
//! snapshot-0000000000000007.mill  everything before segment 7, in short
//! spill-0000000000000123.mill     a large payload
//! *.part                          not finished; nobody has been promised anything in it
//! damaged-0001-log-...            put aside by a repair
//! ```
//!
//! Numbers have a fixed width, so that `ls` shows the order. Other names are left alone.

/// The file whose lock says that the directory is in use.
pub(crate) const LOCK: &str = "lock";
/// A segment that is being prepared.
pub(crate) const SPARE: &str = "spare.part";
/// A snapshot that is being written.
pub(crate) const SNAPSHOT_PART: &str = "snapshot.part";
/// A copy that a repair is writing.
pub(crate) const REPAIR_PART: &str = "repair.part";
const PART: &str = ".part";
const ENDING: &str = ".mill";

/// What a file's name says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Snapshot(u64),
    Segment(u64),
    Spill(u64),
    Part,
}

impl Name {
    pub(crate) fn of(name: &str) -> Option<Self> {
        if name.ends_with(PART) {
            return Some(Self::Part);
        }
        let number = |start: &str| {
            let digits = name.strip_prefix(start)?.strip_suffix(ENDING)?;
            let plain = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok())?
        };
        let snapshot = number("snapshot-").map(Self::Snapshot);
        snapshot.or_else(|| number("log-").map(Self::Segment)).or_else(|| number("spill-").map(Self::Spill))
    }
}

pub(crate) fn segment(number: u64) -> String {
    format!("log-{number:016}{ENDING}")
}

pub(crate) fn snapshot(base: u64) -> String {
    format!("snapshot-{base:016}{ENDING}")
}

pub(crate) fn spill(id: u64) -> String {
    format!("spill-{id:016}{ENDING}")
}

pub(crate) fn damaged(turn: u32, name: &str) -> String {
    format!("damaged-{turn:04}-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_strangers_are_left_alone() {
        assert_eq!(Name::of(&segment(7)), Some(Name::Segment(7)));
        assert_eq!(Name::of(&snapshot(12)), Some(Name::Snapshot(12)));
        assert_eq!(Name::of(&spill(9_999_999_999_999_999)), Some(Name::Spill(9_999_999_999_999_999)));
        for part in [SPARE, SNAPSHOT_PART, REPAIR_PART] {
            assert_eq!(Name::of(part), Some(Name::Part));
        }
        let damaged = damaged(1, &segment(7));
        for name in [LOCK, "log-7.mill", "log-000000000000000x.mill", "log-.mill", "notes.txt", &damaged] {
            assert_eq!(Name::of(name), None, "{name}");
        }
    }
}
