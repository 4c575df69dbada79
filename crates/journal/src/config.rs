//! Which settings a journal has, what they are by default, and which of them cannot be meant.
//!
//! Every limit is here. They are checked once, when the journal is opened, so that nothing below has to ask again
//! whether a batch fits into a segment.

use crate::error::OpenError;
use crate::frame::{FRAME_BYTES, framed_bytes};
use crate::header::HEADER_BYTES;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The settings of one journal.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// Where the files lie. Made if it is not there, for its owner only.
    pub directory: PathBuf,
    /// When a record counts as acknowledged.
    pub sync: SyncMode,
    /// How large a file of the log is made before anything is written to it.
    pub segment_bytes: u64,
    /// How many bytes may wait for the writer; as many again may be on their way to the disk. Also the most that one
    /// append may have.
    pub batch_bytes_max: usize,
    /// How many records may wait for the writer.
    pub batch_records_max: usize,
    /// The largest payload of a record, wherever it is kept.
    pub payload_bytes_max: usize,
    /// Payloads of this size and above get a file of their own.
    pub spill_bytes: usize,
    /// How many payloads may have a file of their own.
    pub spill_files_max: usize,
    /// A snapshot is wanted when the log has grown to this many times the last snapshot ...
    pub snapshot_ratio: f64,
    /// ... and to at least this.
    pub snapshot_bytes_min: u64,
    /// How much of a snapshot is written before it is synced, so that the log's own syncs are not held up for long.
    pub snapshot_sync_bytes: u64,
    /// After the disk was full, how long until a new file is tried again. Meanwhile what needs one is refused.
    pub full_retry: Duration,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("journal"),
            sync: SyncMode::Group,
            segment_bytes: 16 << 20,
            batch_bytes_max: 4 << 20,
            batch_records_max: 65_536,
            payload_bytes_max: 64 << 20,
            spill_bytes: 64 << 10,
            spill_files_max: 65_536,
            snapshot_ratio: 2.0,
            snapshot_bytes_min: 64 << 20,
            snapshot_sync_bytes: 8 << 20,
            full_retry: Duration::from_millis(100),
        }
    }
}

/// Offsets in a segment are kept in four bytes.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

impl JournalConfig {
    /// Says what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let wrong = |text: String| Err(OpenError::Config(text));
        if self.segment_bytes > SEGMENT_BYTES_MAX {
            let bytes = self.segment_bytes;
            return wrong(format!("segment_bytes: expected at most {SEGMENT_BYTES_MAX}, got {bytes}"));
        }
        // The last frame of a segment says that it was closed, so there must be room for one beside the batch.
        let largest = HEADER_BYTES as u64 + self.batch_bytes_max as u64 + FRAME_BYTES as u64;
        if self.segment_bytes < largest {
            let bytes = self.segment_bytes;
            return wrong(format!(
                "segment_bytes: expected at least {largest}, so that a batch of batch_bytes_max fits, got {bytes}"
            ));
        }
        if framed_bytes(self.spill_bytes) > self.batch_bytes_max {
            return wrong(format!(
                "spill_bytes: expected at most {} (batch_bytes_max without a frame), got {}",
                self.batch_bytes_max.saturating_sub(FRAME_BYTES),
                self.spill_bytes
            ));
        }
        for (field, value) in [
            ("batch_records_max", self.batch_records_max),
            ("payload_bytes_max", self.payload_bytes_max),
            ("spill_bytes", self.spill_bytes),
        ] {
            if value == 0 {
                return wrong(format!("{field}: expected at least 1, got 0"));
            }
        }
        if !(self.snapshot_ratio >= 0.0 && self.snapshot_ratio.is_finite()) {
            return wrong(format!("snapshot_ratio: expected 0 or more, got {}", self.snapshot_ratio));
        }
        Ok(())
    }
}

/// When a record counts as acknowledged, and so what a crash can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When it is on the disk. One sync for everything that arrived during the last one. Nothing is lost.
    Group,
    /// When the operating system has it; the disk is synced this often. A crash of the process loses nothing, one of
    /// the machine what came since the last sync.
    Interval(Duration),
    /// When the operating system has it. It writes to the disk when it likes; a crash of the machine can lose the
    /// records of the last segment, in any selection from its end.
    Off,
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group => f.write_str("group"),
            Self::Interval(time) => write!(f, "interval:{}", time.as_millis()),
            Self::Off => f.write_str("off"),
        }
    }
}

impl FromStr for SyncMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let interval = |text: &str| {
            let milliseconds = text.strip_prefix("interval:")?.parse().ok().filter(|count| *count > 0)?;
            Some(Self::Interval(Duration::from_millis(milliseconds)))
        };
        match text {
            "group" => Ok(Self::Group),
            "off" => Ok(Self::Off),
            _ => interval(text).ok_or_else(|| {
                format!("expected group, interval:<milliseconds> or off, got {:?}", clipped(text))
            }),
        }
    }
}

/// Enough of a text to recognise it by.
fn clipped(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_mode_is_read_as_it_is_written() {
        for mode in [SyncMode::Group, SyncMode::Off, SyncMode::Interval(Duration::from_millis(50))] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for text in ["", "grup", "interval", "interval:", "interval:0", "interval:-1", "interval:5s"] {
            let message = text.parse::<SyncMode>().unwrap_err();
            assert!(message.starts_with("expected group, interval:<milliseconds> or off, got "), "{message}");
        }
    }

    #[test]
    fn the_defaults_are_sound_and_what_cannot_be_meant_is_named() {
        assert!(JournalConfig::default().check().is_ok());
        let message = |change: fn(&mut JournalConfig)| {
            let mut config = JournalConfig::default();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(message(|config| config.segment_bytes = 1024).contains("segment_bytes: expected at least"));
        assert!(message(|config| config.segment_bytes = 1 << 40).contains("segment_bytes: expected at most"));
        assert!(message(|config| config.spill_bytes = 1 << 30).contains("spill_bytes: expected at most"));
        assert!(message(|config| config.batch_records_max = 0).contains("batch_records_max"));
        assert!(message(|config| config.snapshot_ratio = f64::NAN).contains("snapshot_ratio"));
    }
}
