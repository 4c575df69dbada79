//! One file of a mailbox: its lines go out as letters, and it knows which of them have ended.
//!
//! A mailbox has one file at a time under its name, but older ones may have lines under way: a file that was
//! rotated is read to its end, and beyond that for a while, because whoever had it open may still append to
//! it. A file that was cut short is a new source; of the old one only the lines under way are left.
//!
//! Not here: noticing any of this (`mailbox_file.rs`).

use super::bookmark::Bookmark;
use super::cutter::{Cut, Cutter, Step};
use super::outbox::{Correspondent, Outbox};
use super::private_file;
use super::window::{Place, Window};
use millpond_tasks::mailbox::{Letter, Reply};
use millpond_tasks::{Limits, Refused, Request};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One file, or what is left of one.
pub(super) struct Source {
    /// Its number among the sources of this mailbox.
    pub(super) id: u64,
    file: Arc<File>,
    identity: (u64, u64),
    cutter: Cutter,
    window: Window,
    /// Lines that ended in an earlier process, by first and last number.
    ended_before: VecDeque<(u64, u64)>,
    reply: Arc<dyn Reply>,
    stage: Stage,
}

/// What a file is to its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has the name.
    Current,
    /// Another file has the name. Nothing came since its end was seen at this moment, if it was.
    PutAside { end_seen: Option<Instant> },
    /// What it was cannot be read any more.
    Gone,
}

/// The next thing in a file.
pub(super) enum Next {
    /// A line to be run.
    Letter(Letter),
    /// A line that cannot be.
    Refused(u64, Refused),
    /// A line that ended in an earlier process.
    EndedBefore,
    /// Nothing for now.
    End,
    /// What was read of the file is there no more.
    CutShort,
}

impl Source {
    /// A file from its start.
    pub(super) fn new(id: u64, file: Arc<File>, outbox: &Arc<Outbox>, limits: &Limits) -> io::Result<Self> {
        Self::at(id, file, Place::START, Vec::new(), outbox, limits)
    }

    /// A file from a bookmark on. None if what stands before the bookmark is not what stood there.
    pub(super) fn resume(
        id: u64,
        file: Arc<File>,
        bookmark: &Bookmark,
        outbox: &Arc<Outbox>,
        limits: &Limits,
    ) -> io::Result<Option<Self>> {
        let Some(tail) = bookmark.find_in(&file)? else { return Ok(None) };
        let mut source = Self::at(id, file, bookmark.place(), tail, outbox, limits)?;
        source.ended_before = bookmark.ended.iter().copied().collect();
        Ok(Some(source))
    }

    fn at(
        id: u64,
        file: Arc<File>,
        place: Place,
        tail: Vec<u8>,
        outbox: &Arc<Outbox>,
        limits: &Limits,
    ) -> io::Result<Self> {
        let line_bytes_max = usize::try_from(limits.request_bytes_max).unwrap_or(usize::MAX - 1);
        Ok(Self {
            id,
            identity: private_file::identity(&file)?,
            file,
            cutter: Cutter::new(place, tail, line_bytes_max),
            window: Window::default(),
            ended_before: VecDeque::new(),
            reply: Arc::new(Correspondent { outbox: Arc::clone(outbox), source: id }),
            stage: Stage::Current,
        })
    }

    /// The next line, if there is one.
    pub(super) fn next(&mut self, limits: &Limits, now: Instant) -> io::Result<Next> {
        if self.stage == Stage::Gone {
            return Ok(Next::End);
        }
        let step = self.cutter.next(&self.file)?;
        if let Stage::PutAside { end_seen } = &mut self.stage {
            *end_seen = if step == Step::End { end_seen.or(Some(now)) } else { None };
        }
        Ok(match step {
            Step::Line(cut) => self.take(cut, limits),
            Step::End => Next::End,
            Step::Changed => Next::CutShort,
        })
    }

    /// The last line of a file to which nobody will append, if it has no line break.
    pub(super) fn finish(&mut self, limits: &Limits) -> Next {
        self.cutter.finish().map_or(Next::End, |cut| self.take(cut, limits))
    }

    fn take(&mut self, cut: Cut, limits: &Limits) -> Next {
        let Cut { place, text } = cut;
        if self.has_ended_before(place.line) {
            self.window.pass_over(place);
            return Next::EndedBefore;
        }
        self.window.begin(place);
        if text.len() as u64 > limits.request_bytes_max {
            // Reading it says why it is refused, and for whom, without looking at more than its length.
            if let Err(error) = Request::parse(&text, limits) {
                return Next::Refused(place.line, error.into());
            }
        }
        Next::Letter(Letter { text, tag: place.line, reply: Arc::clone(&self.reply) })
    }

    fn has_ended_before(&mut self, line: u64) -> bool {
        while self.ended_before.front().is_some_and(|(_, last)| *last < line) {
            self.ended_before.pop_front();
        }
        self.ended_before.front().is_some_and(|(first, _)| *first <= line)
    }

    /// A line has ended, or is left to the next process.
    pub(super) fn done(&mut self, line: u64, was_run: bool) {
        if was_run { self.window.end(line) } else { self.window.leave(line) }
    }

    /// Lines from the first that has not ended to the last that was read.
    pub(super) fn window_len(&self) -> usize {
        self.window.len()
    }

    /// Lines that may still end.
    pub(super) fn under_way(&self) -> usize {
        self.window.under_way()
    }

    /// Whether it is this file.
    pub(super) fn is_file(&self, identity: (u64, u64)) -> bool {
        self.identity == identity && self.stage != Stage::Gone
    }

    /// Another file has its name now.
    pub(super) fn put_aside(&mut self) {
        if self.stage == Stage::Current {
            self.stage = Stage::PutAside { end_seen: None };
        }
    }

    /// It has its name back.
    pub(super) fn make_current(&mut self) {
        self.stage = Stage::Current;
    }

    /// Whether it was put aside and may still grow.
    pub(super) fn may_grow_aside(&self) -> bool {
        matches!(self.stage, Stage::PutAside { .. })
    }

    /// Whether it was put aside and its end was seen.
    pub(super) fn was_read_aside(&self) -> bool {
        matches!(self.stage, Stage::PutAside { end_seen: Some(_) })
    }

    /// Whether nobody will append to it any more: it was put aside, and since its end was seen nothing came
    /// for so long.
    pub(super) fn is_over(&self, grace: Duration, now: Instant) -> bool {
        match self.stage {
            Stage::Current => false,
            Stage::PutAside { end_seen } => {
                end_seen.is_some_and(|seen| now.saturating_duration_since(seen) >= grace)
            }
            Stage::Gone => true,
        }
    }

    /// Whether every line of it has ended.
    pub(super) fn is_done(&self) -> bool {
        let has_rest = self.stage != Stage::Gone && self.cutter.partial_bytes() > 0;
        self.window.len() == 0 && !has_rest
    }

    /// How far it was read, and how much of that was the beginning of a line.
    pub(super) fn read_to(&self) -> (u64, u64) {
        (self.cutter.read_to(), self.cutter.partial_bytes())
    }

    /// What it was cannot be read any more; a new source for the same file.
    pub(super) fn begin_anew(&mut self, id: u64, outbox: &Arc<Outbox>, limits: &Limits) -> io::Result<Self> {
        let mut new = Self::new(id, Arc::clone(&self.file), outbox, limits)?;
        new.stage = self.stage;
        self.stage = Stage::Gone;
        Ok(new)
    }

    /// How far it is done with, for the next process. None if that could not read it.
    pub(super) fn bookmark(&self) -> io::Result<Option<Bookmark>> {
        if self.stage == Stage::Gone || !self.cutter.is_same(&self.file)? {
            return Ok(None);
        }
        let place = self.window.restart().unwrap_or_else(|| self.cutter.place());
        let mut ended = self.window.ended_behind();
        // Lines that this process has not come to yet.
        ended.extend(&self.ended_before);
        Bookmark::new(self.identity, place, ended, &self.file).map(Some)
    }
}
