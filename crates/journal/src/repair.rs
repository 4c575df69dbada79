//! What is done after damage: sound records are copied, damaged files put aside whole, and what was lost is told.
//!
//! Nothing is deleted. The damaged file is copied under another name first, and the mended one takes its place by one
//! rename, so that a repair that is killed can be begun again. A mended file says so in its header: sequence numbers
//! may be missing in it and behind it.
//!
//! Files that a start would accept are not touched, a torn tail included.

use crate::disk::{Disk, DiskFile, read_up_to, write_all};
use crate::error::{OpenError, RepairError};
use crate::frame::{FRAME_BYTES, Form, Frame};
use crate::header::{FileKind, HEADER_BYTES, Header, HeaderFault, LogId};
use crate::names;
use crate::open::{Found, lock, read_whole};
use crate::record::SpillRef;
use crate::salvage::{Salvage, salvage};
use crate::scan::{Ending, Scan, scan};
use crc32c::crc32c;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A hole in the numbers of segments larger than this has another cause than damage.
const MISSING_MAX: u64 = 1024;
/// An empty segment has room for a mark that it was closed.
const EMPTY_BYTES: usize = HEADER_BYTES + 64;

/// What a repair did.
#[derive(Clone, Debug, Default)]
pub struct RepairReport {
    /// Files that were replaced by what could be saved of them.
    pub files: Vec<RepairedFile>,
    /// Files that are missing, and were replaced by empty ones.
    pub missing: Vec<String>,
    /// Large payloads that no record names any more, or that are damaged, under the names they have now.
    pub spills_put_aside: Vec<String>,
    /// Records in all files that count, now.
    pub records_kept: u64,
    /// Records that are known to be missing: holes in the sequence numbers.
    pub records_lost: u64,
}

impl RepairReport {
    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.missing.is_empty()
    }
}

/// A file that was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairedFile {
    /// Which.
    pub name: String,
    /// What was wrong with it, as a start says it.
    pub why: String,
    /// Where the damaged bytes are now, with everything around them.
    pub put_aside: String,
    /// Records that were saved.
    pub records_kept: u64,
    /// Records missing between those that were saved.
    pub records_lost: u64,
    /// Bytes that were not saved.
    pub bytes_lost: u64,
    /// Where they are; the first hundred pieces.
    pub lost: Vec<Lost>,
}

/// A piece of a file that was not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where in the damaged file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Why.
    pub what: &'static str,
}

/// Mends the journal in a directory that nobody has open.
pub fn repair(directory: &Path, disk: &dyn Disk) -> Result<RepairReport, RepairError> {
    let list = || disk.list(directory).map_err(OpenError::io(directory, "cannot be listed"));
    if Found::new(list()?).is_empty() {
        // A directory of somebody else gets no lock file either.
        return Ok(RepairReport::default());
    }
    let _lock = lock(disk, directory)?;
    let listed = list()?;
    let names: BTreeSet<String> = listed.iter().map(|file| file.name.clone()).collect();
    let found = Found::new(listed);
    let mut repair = Repair { directory, disk, names, found, log: LogId::default(), named: BTreeSet::new() };
    repair.log = repair.find_log()?;
    repair.run()
}

struct Repair<'a> {
    directory: &'a Path,
    disk: &'a dyn Disk,
    /// Every name in the directory, so that nothing put aside replaces anything.
    names: BTreeSet<String>,
    found: Found,
    log: LogId,
    /// Large payloads that kept records name.
    named: BTreeSet<u64>,
}

/// The end of what comes before a segment: the sequence number, and whether some may be missing.
#[derive(Clone, Copy)]
struct Before {
    sequence: u64,
    mended: bool,
}

impl Repair<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, OpenError> {
        let path = self.path(name);
        let file = self.disk.open(&path, false).map_err(OpenError::io(&path, "cannot be opened"))?;
        let mut bytes = Vec::new();
        read_whole(file.as_ref(), &path, &mut bytes)?;
        Ok(bytes)
    }

    /// The first bytes of a file.
    fn block(&self, name: &str) -> Result<Vec<u8>, OpenError> {
        let path = self.path(name);
        let file = self.disk.open(&path, false).map_err(OpenError::io(&path, "cannot be opened"))?;
        let mut block = vec![0; HEADER_BYTES];
        let read = read_up_to(file.as_ref(), &mut block, 0);
        block.truncate(read.map_err(OpenError::io(&path, "cannot be read"))?);
        Ok(block)
    }

    /// The number of the log that most headers name.
    fn find_log(&self) -> Result<LogId, RepairError> {
        let mut votes: BTreeMap<LogId, u32> = BTreeMap::new();
        let snapshots = self.found.base().map(names::snapshot);
        let segments = self.found.segments.keys().map(|number| names::segment(*number));
        for name in snapshots.into_iter().chain(segments) {
            let block = self.block(&name)?;
            match Header::decode(&block) {
                // Not ours to mend.
                Err(fault @ HeaderFault::Version(_)) => return Err(fault.at(&self.path(&name)).into()),
                _ => header_in(&block).map(|header| *votes.entry(header.log).or_default() += 1),
            };
        }
        let most = votes.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(log, _)| log).ok_or_else(|| RepairError::Unreadable(self.directory.to_owned()))
    }

    fn run(mut self) -> Result<RepairReport, RepairError> {
        let mut report = RepairReport::default();
        let mut before = self.mend_snapshot(&mut report)?;
        let first = before.map_or(1, |(base, _)| base);
        let last = self.found.segments.keys().next_back().copied().unwrap_or(first).max(first);
        let missing = (last - first + 1).saturating_sub(self.found.segments.range(first..).count() as u64);
        if missing > MISSING_MAX {
            let what = format!("{missing} segments are missing; restore a copy");
            let path = self.path(&names::segment(first));
            return Err(OpenError::Damaged { path, offset: 0, what }.into());
        }
        for number in first..=last {
            let known = before.map(|(_, before)| before);
            let now = if self.found.segments.contains_key(&number) {
                self.mend_segment(number, number == last, known, &mut report)?
            } else {
                self.make_empty(number, known.map_or(1, |before| before.sequence), &mut report)?
            };
            before = Some((number, now));
        }
        if !report.is_empty() {
            self.put_spills_aside(&mut report)?;
            let synced = self.disk.sync_directory(self.directory);
            synced.map_err(OpenError::io(self.directory, "cannot be synced"))?;
        }
        Ok(report)
    }

    /// The first segment that counts, and what comes before it. None if the log begins with segment 1.
    fn mend_snapshot(&mut self, report: &mut RepairReport) -> Result<Option<(u64, Before)>, RepairError> {
        let Some(base) = self.found.base() else {
            let first = self.found.segments.keys().next().copied().unwrap_or(1);
            if first == 1 {
                return Ok(None);
            }
            // What came before is gone; an empty snapshot says where the log begins.
            let name = names::snapshot(first);
            self.write_snapshot(&name, first, 0, &[], &Salvage::default())?;
            report.missing.push(name);
            return Ok(Some((first, Before { sequence: 0, mended: true })));
        };
        let name = names::snapshot(base);
        let bytes = self.read(&name)?;
        let header = self.header_of(&bytes, base);
        let mut saved = self.salvage(&bytes);
        let footer = saved.kept.pop_if(|(frame, _)| frame.form == Form::Footer);
        saved.kept.retain(|(frame, _)| frame.form != Form::Footer);
        let count = saved.kept.len() as u64;
        report.records_kept += count;
        let why = match (header, &footer) {
            _ if Header::decode(&bytes).ok() != header || header.is_none() => Some("its header is damaged"),
            (Some(header), _) if header.bytes != bytes.len() as u64 => {
                Some("it is not as long as it was made")
            }
            (_, None) => Some("its end is missing"),
            (_, Some((footer, _))) if footer.sequence != count => Some("records are missing"),
            _ => None,
        };
        let sequence = header.map_or(0, |header| header.sequence);
        let mended = why.is_some() || header.is_some_and(|header| header.mended);
        if let Some(why) = why {
            // A footer counts what was there; without one, the highest number does.
            let there = footer.map(|(frame, _)| frame.sequence).or(saved.span().map(|(_, next)| next));
            saved.records_lost = there.unwrap_or(0).saturating_sub(count);
            let aside = self.put_aside(&name, &bytes)?;
            self.write_snapshot(&name, base, sequence, &bytes, &saved)?;
            self.tell(report, name, why, aside, &saved);
        }
        Ok(Some((base, Before { sequence, mended })))
    }

    fn mend_segment(
        &mut self,
        number: u64,
        is_last: bool,
        before: Option<Before>,
        report: &mut RepairReport,
    ) -> Result<Before, RepairError> {
        let name = names::segment(number);
        let bytes = self.read(&name)?;
        let header = self.header_of(&bytes, number);
        let saved = self.salvage(&bytes);
        let first = before.map_or(1, |before| before.sequence);
        let why = match self.judge(&bytes, header, is_last, &saved, number) {
            Ok(scan) if follows(header, before) => {
                report.records_kept += scan.records;
                let mended = header.is_some_and(|header| header.mended);
                report.records_lost += header.map_or(0, |header| header.sequence.saturating_sub(first));
                return Ok(Before { sequence: scan.sequence, mended });
            }
            Ok(_) => "records before it are missing",
            Err(why) => why,
        };
        let span = saved.span();
        let known = header.map(|header| header.sequence).filter(|sequence| *sequence >= first);
        let begin = known.or(span.map(|(begin, _)| begin)).unwrap_or(first).max(first);
        report.records_kept += saved.kept.iter().filter(|(frame, _)| is_callers(frame)).count() as u64;
        report.records_lost += span.map_or(begin, |(begin, _)| begin).saturating_sub(first);
        let aside = self.put_aside(&name, &bytes)?;
        self.write_segment(&name, number, begin, &bytes, &saved)?;
        self.tell(report, name, why, aside, &saved);
        Ok(Before { sequence: span.map_or(begin, |(_, next)| next), mended: true })
    }

    /// What a start would make of a segment by itself, or what it would say.
    fn judge(
        &self,
        bytes: &[u8],
        header: Option<Header>,
        is_last: bool,
        saved: &Salvage,
        number: u64,
    ) -> Result<Scan, &'static str> {
        let header = header.filter(|header| Header::decode(bytes).is_ok_and(|found| found == *header));
        let header = header.ok_or("its header is damaged")?;
        if header.bytes != bytes.len() as u64 {
            return Err("it is not as long as it was made");
        }
        let scan = scan(bytes, &header);
        match scan.ending {
            Ending::Damaged(why) => return Err(why),
            Ending::Torn if !is_last => return Err("pieces of records, in a segment that was finished"),
            Ending::Torn | Ending::Clean => {}
        }
        let kept = saved.kept.iter().filter(|(frame, at)| *at < scan.end && is_callers(frame)).count() as u64;
        if kept < scan.records {
            return Err("a large payload is missing or damaged");
        }
        let follower = self.header_at(number + 1).filter(|_| !is_last);
        if follower.is_some_and(|next| next.sequence > scan.sequence && !next.mended && !header.mended) {
            return Err("records at its end are missing");
        }
        Ok(scan)
    }

    /// The header of a segment of this log, from either of its places.
    fn header_of(&self, block: &[u8], number: u64) -> Option<Header> {
        header_in(block).filter(|header| (header.log, header.number) == (self.log, number))
    }

    fn header_at(&self, number: u64) -> Option<Header> {
        self.header_of(&self.block(&names::segment(number)).ok()?, number)
    }

    fn salvage(&mut self, bytes: &[u8]) -> Salvage {
        let is_there = |spill: &SpillRef| {
            let content = self.read(&names::spill(spill.id));
            content.is_ok_and(|content| content.len() as u64 == spill.bytes && crc32c(&content) == spill.crc)
        };
        let saved = salvage(bytes, crc32c(&self.log), &is_there);
        let spills = saved.kept.iter().filter(|(frame, _)| frame.form == Form::Spilled);
        let named = spills.filter_map(|(frame, at)| SpillRef::decode(payload(bytes, frame, *at)));
        self.named.extend(named.map(|spill| spill.id));
        saved
    }

    fn make_empty(
        &mut self,
        number: u64,
        sequence: u64,
        report: &mut RepairReport,
    ) -> Result<Before, RepairError> {
        let name = names::segment(number);
        self.write_segment(&name, number, sequence, &[], &Salvage::default())?;
        report.missing.push(name);
        Ok(Before { sequence, mended: true })
    }

    fn tell(
        &self,
        report: &mut RepairReport,
        name: String,
        why: &'static str,
        put_aside: String,
        saved: &Salvage,
    ) {
        report.records_lost += saved.records_lost;
        report.files.push(RepairedFile {
            name,
            why: why.to_owned(),
            put_aside,
            records_kept: saved.kept.iter().filter(|(frame, _)| is_callers(frame)).count() as u64,
            records_lost: saved.records_lost,
            bytes_lost: saved.lost_bytes,
            lost: saved.lost.clone(),
        });
    }

    /// A name that is free, for what was called so.
    fn free_name(&mut self, name: &str) -> String {
        let free =
            (1..=u32::MAX).map(|turn| names::damaged(turn, name)).find(|free| !self.names.contains(free));
        let free = free.unwrap_or_else(|| format!("damaged-{name}"));
        self.names.insert(free.clone());
        free
    }

    fn put_aside(&mut self, name: &str, bytes: &[u8]) -> Result<String, OpenError> {
        let aside = self.free_name(name);
        self.write(&aside, bytes)?;
        Ok(aside)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), OpenError> {
        let path = self.path(name);
        let fill = |file: Box<dyn DiskFile>| {
            write_all(file.as_ref(), bytes, 0)?;
            file.sync_data()
        };
        let written = self.disk.create(&path).and_then(fill);
        written
            .and_then(|()| self.disk.sync_directory(self.directory))
            .map_err(OpenError::io(&path, "cannot be written"))
    }

    /// Puts a file in the place of another, by one step.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), OpenError> {
        self.write(names::REPAIR_PART, bytes)?;
        let path = self.path(name);
        let renamed = self.disk.rename(&self.path(names::REPAIR_PART), &path);
        renamed
            .and_then(|()| self.disk.sync_directory(self.directory))
            .map_err(OpenError::io(&path, "cannot be replaced"))
    }

    fn write_segment(
        &self,
        name: &str,
        number: u64,
        sequence: u64,
        old: &[u8],
        saved: &Salvage,
    ) -> Result<(), OpenError> {
        let mut records = Vec::new();
        for (frame, at) in &saved.kept {
            // Everything before it is on the disk before the file has its name.
            let synced = u32::try_from(HEADER_BYTES + records.len()).unwrap_or(u32::MAX);
            copy(&mut records, &Frame { synced, ..*frame }, payload(old, frame, *at), crc32c(&self.log));
        }
        let length = old.len().max(EMPTY_BYTES).max(HEADER_BYTES + records.len());
        let kind = FileKind::Segment;
        let header = Header { kind, mended: true, log: self.log, number, sequence, bytes: length as u64 };
        let mut file = header.encode();
        file.extend(records);
        file.resize(length, 0);
        self.replace(name, &file)
    }

    fn write_snapshot(
        &self,
        name: &str,
        base: u64,
        sequence: u64,
        old: &[u8],
        saved: &Salvage,
    ) -> Result<(), OpenError> {
        let seed = crc32c(&self.log);
        let mut records = Vec::new();
        for (index, (frame, at)) in saved.kept.iter().enumerate() {
            let frame = Frame { sequence: index as u64, synced: 0, more: 0, ..*frame };
            copy(&mut records, &frame, payload(old, &frame, *at), seed);
        }
        let count = (saved.kept.len() as u64).to_le_bytes();
        let footer = Frame { sequence: saved.kept.len() as u64, ..Frame::new(0, 0, Form::Footer, &count) };
        copy(&mut records, &footer, &count, seed);
        let bytes = (HEADER_BYTES + records.len()) as u64;
        let header =
            Header { kind: FileKind::Snapshot, mended: true, log: self.log, number: base, sequence, bytes };
        let mut file = header.encode();
        file.extend(records);
        self.replace(name, &file)
    }

    /// A start removes large payloads that no record names; those of lost records are kept.
    fn put_spills_aside(&mut self, report: &mut RepairReport) -> Result<(), OpenError> {
        let unnamed: Vec<u64> =
            self.found.spills.keys().filter(|id| !self.named.contains(id)).copied().collect();
        for id in unnamed {
            let name = names::spill(id);
            let aside = self.free_name(&name);
            let renamed = self.disk.rename(&self.path(&name), &self.path(&aside));
            renamed.map_err(OpenError::io(&self.path(&name), "cannot be put aside"))?;
            report.spills_put_aside.push(aside);
        }
        Ok(())
    }
}

/// Whether nothing is missing before a segment, or a repair has already said so.
fn follows(header: Option<Header>, before: Option<Before>) -> bool {
    let before = before.unwrap_or(Before { sequence: 1, mended: false });
    header.is_some_and(|header| {
        let gap_allowed = header.mended || before.mended;
        header.sequence == before.sequence || (gap_allowed && header.sequence > before.sequence)
    })
}

fn is_callers(frame: &Frame) -> bool {
    matches!(frame.form, Form::Plain | Form::Spilled)
}

fn header_in(block: &[u8]) -> Option<Header> {
    Header::decode(block).or_else(|_| Header::decode_copy(block)).ok()
}

fn payload<'a>(bytes: &'a [u8], frame: &Frame, at: usize) -> &'a [u8] {
    let begin = at + FRAME_BYTES;
    bytes.get(begin..begin + frame.payload_bytes as usize).unwrap_or_default()
}

fn copy(buffer: &mut Vec<u8>, frame: &Frame, payload: &[u8], seed: u32) {
    let end = buffer.len() + frame.bytes();
    buffer.extend_from_slice(&frame.encode(seed));
    buffer.extend_from_slice(payload);
    buffer.resize(end, 0);
}
