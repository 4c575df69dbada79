//! One mailbox: the file that has its name, older ones that are not done with, and the answers.
//!
//! Files are read in the order in which they had the name, each to its end before the next. What happens to a
//! file is seen from three facts: whether the name leads to another file (it was rotated), whether the bytes
//! before the place of reading are others (it was cut short), and whether anything came since its end was
//! seen.
//!
//! Not here: when to look (`reader.rs`), and what one file is (`source.rs`).

use super::bookmark::{self, Bookmark};
use super::outbox::{Finished, Outbox};
use super::private_file;
use super::reader::Context;
use super::results_file::ResultsFile;
use super::source::{Next, Source};
use super::watcher::worker_of;
use millpond_tasks::mailbox::{Letter, PostError};
use millpond_tasks::{ErrorCode, Refused, TaskFailure};
use rustix::fs::{AtFlags, Dir, OFlags, statat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Lines that are read from one mailbox before the others have their turn.
const TURN_LINES: usize = 1024;
/// Answers that may wait to be written before no more lines are read.
const ANSWERS_BYTES_MAX: usize = 8 << 20;
/// Files that one mailbox has at a time.
const SOURCES_MAX: usize = 16;

/// One mailbox.
pub(super) struct MailboxFile {
    /// Whose, from 1.
    worker: usize,
    name: String,
    bookmarks_name: String,
    /// In the order in which they had the name.
    sources: VecDeque<Source>,
    next_source: u64,
    /// Read, and not yet posted.
    held: VecDeque<Letter>,
    outbox: Arc<Outbox>,
    /// Taken from the outbox, and not yet written.
    finished: Finished,
    results: ResultsFile,
    /// The bookmarks as they were last saved.
    saved: Vec<Bookmark>,
    /// Its files may have changed.
    pub(super) has_changed: bool,
    /// There may be lines to read.
    pub(super) has_unread: bool,
    /// Something happened since the bookmarks were saved.
    pub(super) has_moved: bool,
    /// The service has begun to refuse lines because it stops; what is not read now is for the next process.
    is_closed: bool,
    /// The last trouble that was told; each is told once.
    trouble: String,
}

/// How far reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// To the end.
    End,
    /// The others have their turn.
    More,
    /// There is no room. A bell will ring when there is.
    Blocked,
    /// No more lines are taken.
    Closed,
}

impl MailboxFile {
    /// Opens a mailbox and goes on where an earlier process stopped. A file that is missing is made.
    pub(super) fn open(context: &Context, worker: usize, outbox: Arc<Outbox>) -> io::Result<Self> {
        let directory = &context.directory;
        let name = format!("mailbox-{worker}.json");
        let bookmarks_name = format!("mailbox-{worker}.offset");
        let saved = bookmark::read(directory, &bookmarks_name)?;
        let results_name = format!("mailbox-{worker}.results.json");
        let mut this = Self {
            worker,
            sources: VecDeque::new(),
            next_source: 0,
            held: VecDeque::new(),
            outbox,
            finished: Finished::default(),
            results: ResultsFile::new(results_name, context.settings.files.results_bytes_max),
            has_changed: false,
            has_unread: true,
            has_moved: true,
            is_closed: false,
            trouble: String::new(),
            name,
            bookmarks_name,
            saved,
        };
        this.resume(context)?;
        Ok(this)
    }

    /// Finds the files of the bookmarks, and the one that has the name.
    fn resume(&mut self, context: &Context) -> io::Result<()> {
        let directory = &context.directory;
        let flags = OFlags::RDONLY | OFlags::CREATE;
        let current = Arc::new(private_file::open(directory, &self.name, flags)?);
        let identity = private_file::identity(&current)?;
        for bookmark in self.saved.clone() {
            // One directory is on one device, whose number may be another since the machine was started.
            let is_current = bookmark.inode == identity.1;
            let file =
                if is_current { Some(Arc::clone(&current)) } else { self.find(context, bookmark.inode)? };
            let id = self.next_source_id();
            let source = match file {
                Some(file) => Source::resume(id, file, &bookmark, &self.outbox, &context.limits)?,
                None => None,
            };
            let Some(mut source) = source else {
                context.log.warn(&format!(
                    "{}: the file with inode {} is gone or was changed; what stood in it from line {} on \
                     was not read",
                    self.path(context),
                    bookmark.inode,
                    bookmark.line
                ));
                continue;
            };
            if !is_current {
                source.put_aside();
            }
            self.sources.push_back(source);
        }
        let source = match self.sources.iter().position(|source| source.is_file(identity)) {
            Some(index) => self.sources.remove(index),
            None => {
                let id = self.next_source_id();
                Some(Source::new(id, current, &self.outbox, &context.limits)?)
            }
        };
        self.sources.extend(source);
        Ok(())
    }

    /// The file with this inode, under whatever name it was put aside in the same directory.
    fn find(&self, context: &Context, inode: u64) -> io::Result<Option<Arc<File>>> {
        for entry in Dir::read_from(context.directory.fd())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if entry.ino() == inode {
                let file = private_file::open(&context.directory, name, OFlags::RDONLY)?;
                // It may have been exchanged since.
                let is_it = private_file::identity(&file)?.1 == inode;
                return Ok(is_it.then(|| Arc::new(file)));
            }
        }
        Ok(None)
    }

    fn next_source_id(&mut self) -> u64 {
        self.next_source += 1;
        self.next_source
    }

    fn path(&self, context: &Context) -> String {
        context.directory.path().join(&self.name).display().to_string()
    }

    /// Looks what became of its files.
    pub(super) fn look(&mut self, context: &Context) {
        self.has_changed = false;
        self.has_unread = true;
        let looked = self.look_at_name(context);
        self.tell_trouble(context, looked);
    }

    /// Whether the name leads to another file.
    fn look_at_name(&mut self, context: &Context) -> io::Result<()> {
        let found = match statat(context.directory.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // It was renamed, and the next one is not there yet.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let identity = private_file::identity_of(&found);
        if self.sources.back().is_some_and(|last| last.is_file(identity)) {
            return Ok(());
        }
        let source = match self.sources.iter().position(|source| source.is_file(identity)) {
            Some(index) => self.sources.remove(index),
            None if !self.make_room() => return Ok(()),
            None => {
                let file = private_file::open(&context.directory, &self.name, OFlags::RDONLY)?;
                let id = self.next_source_id();
                Some(Source::new(id, Arc::new(file), &self.outbox, &context.limits)?)
            }
        };
        context.counters.rotations.fetch_add(1, Relaxed);
        context
            .log
            .info(&format!("{}: is another file now; the old one is read to its end", self.path(context)));
        if let Some(last) = self.sources.back_mut() {
            last.put_aside();
        }
        self.sources.extend(source);
        self.sources.back_mut().expect("it was just added").make_current();
        self.has_moved = true;
        Ok(())
    }

    /// Whether one more file may be open. Of those that were put aside, one that is done with makes room.
    fn make_room(&mut self) -> bool {
        if self.sources.len() >= SOURCES_MAX {
            let done = self.sources.iter().position(|source| source.was_read_aside() && source.is_done());
            done.map(|index| self.sources.remove(index));
        }
        self.sources.len() < SOURCES_MAX
    }

    /// What was read of a file is there no more: its lines that are under way go on, and the file is a new
    /// one.
    fn begin_anew(&mut self, index: usize, context: &Context) -> io::Result<()> {
        let (read_to, partial_bytes) = self.sources[index].read_to();
        context.counters.truncations.fetch_add(1, Relaxed);
        context.log.warn(&format!(
            "{}: had been read to byte {read_to} and was cut short or written over; it is read anew from \
             its first line{}",
            self.path(context),
            if partial_bytes > 0 { ", and the other half of a line is lost" } else { "" }
        ));
        let rest = self.sources[index].finish(&context.limits);
        self.accept(index, rest, context);
        let id = self.next_source_id();
        let new = self.sources[index].begin_anew(id, &self.outbox, &context.limits)?;
        self.sources.insert(index + 1, new);
        self.has_moved = true;
        Ok(())
    }

    /// Reads lines and posts them, as many as a turn has.
    pub(super) fn read(&mut self, context: &Context, now: Instant) -> Reading {
        match self.read_turn(context, now) {
            Ok(reading) => {
                self.has_unread = reading != Reading::End;
                reading
            }
            Err(error) => {
                self.tell_trouble(context, Err(error));
                // It will be looked at again with the next change.
                self.has_unread = false;
                Reading::End
            }
        }
    }

    fn read_turn(&mut self, context: &Context, now: Instant) -> io::Result<Reading> {
        if self.is_closed {
            return Ok(Reading::Closed);
        }
        if self.finished.text.len() + self.outbox.bytes() > ANSWERS_BYTES_MAX {
            return Ok(Reading::Blocked);
        }
        let mut index = 0;
        for _ in 0..TURN_LINES {
            if let Some(reading) = self.post_held(context) {
                return Ok(reading);
            }
            if self.window_len() >= context.settings.window_lines_max {
                return Ok(Reading::Blocked);
            }
            let Some(source) = self.sources.get_mut(index) else { return Ok(Reading::End) };
            let next = match source.next(&context.limits, now)? {
                Next::End if source.is_over(context.settings.rotation_grace, now) => {
                    source.finish(&context.limits)
                }
                next => next,
            };
            match next {
                Next::End => index += 1,
                Next::CutShort => self.begin_anew(index, context)?,
                next => self.accept(index, next, context),
            }
        }
        Ok(Reading::More)
    }

    /// Deals with what a source gave.
    fn accept(&mut self, index: usize, next: Next, context: &Context) {
        match next {
            Next::Letter(letter) => self.held.push_back(letter),
            Next::Refused(line, refused) => self.outbox.refuse(self.sources[index].id, line, refused),
            Next::EndedBefore | Next::End | Next::CutShort => return,
        }
        context.counters.lines.fetch_add(1, Relaxed);
        self.has_moved = true;
    }

    /// Posts what is held; says what stands in the way, if anything does.
    fn post_held(&mut self, context: &Context) -> Option<Reading> {
        while let Some(letter) = self.held.pop_front() {
            match context.mailboxes.post(self.worker - 1, letter) {
                Ok(()) => (),
                Err(PostError::Full(letter)) => {
                    self.held.push_front(letter);
                    return Some(Reading::Blocked);
                }
                Err(PostError::TooLarge(letter)) => {
                    let message = format!(
                        "expected at most {} bytes, got {}; raise mailbox.bytes_max",
                        context.settings.files.bytes_max,
                        letter.text.len()
                    );
                    let failure = TaskFailure::new(ErrorCode::TooLarge, message);
                    letter.reply.refused(letter.tag, Refused { failure, id: None, retry_after: None });
                }
                Err(PostError::Closed(letter) | PostError::Unknown(letter)) => {
                    self.held.push_front(letter);
                    return Some(Reading::Closed);
                }
            }
        }
        None
    }

    /// Writes the answers that came, and notes which lines have ended. Says whether none is left over.
    pub(super) fn settle(&mut self, context: &Context) -> bool {
        if self.finished.lines.is_empty() {
            self.finished = self.outbox.take();
        }
        if let Err(error) = self.results.append(&context.directory, &mut self.finished.text) {
            let text = format!("its answers cannot be written, and no more is read until they can: {error}");
            self.tell_trouble(context, Err(io::Error::new(error.kind(), text)));
            return false;
        }
        for done in self.finished.lines.drain(..) {
            if let Some(source) = self.sources.iter_mut().find(|source| source.id == done.source) {
                source.done(done.line, done.was_run);
            }
            context.counters.answers.fetch_add(u64::from(done.was_run), Relaxed);
            self.is_closed |= !done.was_run;
            self.has_moved = true;
        }
        true
    }

    /// Lets go of files that are done with.
    pub(super) fn tidy(&mut self, context: &Context, now: Instant) {
        let grace = context.settings.rotation_grace;
        let before = self.sources.len();
        self.sources.retain(|source| !(source.is_over(grace, now) && source.is_done()));
        self.has_moved |= self.sources.len() != before;
    }

    /// Saves how far its files are done with, if that has changed.
    pub(super) fn save(&mut self, context: &Context) {
        let saved = self.try_save(context);
        self.has_moved = saved.is_err();
        self.tell_trouble(context, saved);
    }

    fn try_save(&mut self, context: &Context) -> io::Result<()> {
        let mut bookmarks = Vec::new();
        for source in &self.sources {
            bookmarks.extend(source.bookmark()?);
        }
        if bookmarks != self.saved {
            bookmark::write(&context.directory, &self.bookmarks_name, &bookmarks)?;
            self.saved = bookmarks;
        }
        Ok(())
    }

    /// Lines that may still end; those that are held will not.
    pub(super) fn under_way(&self) -> usize {
        self.sources.iter().map(Source::under_way).sum::<usize>() - self.held.len()
    }

    fn window_len(&self) -> usize {
        self.sources.iter().map(Source::window_len).sum()
    }

    /// Whether it has a file that no watch may tell of, because it has another name.
    pub(super) fn must_be_visited(&self) -> bool {
        self.sources.iter().any(Source::may_grow_aside)
    }

    fn tell_trouble(&mut self, context: &Context, result: io::Result<()>) {
        let Err(error) = result else { return };
        let text = format!("{}: {error}", self.path(context));
        if text != self.trouble {
            context.log.error(&text);
            self.trouble = text;
        }
    }
}

/// Warns of mailboxes that no worker has: fewer workers than in an earlier process, perhaps.
pub(super) fn warn_of_others(context: &Context) -> io::Result<()> {
    for entry in Dir::read_from(context.directory.fd())? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let Some(worker) = worker_of(name).filter(|_| name.ends_with(".json")) else { continue };
        let found = statat(context.directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !(1..=context.settings.workers).contains(&worker) && found.st_size > 0 {
            let path = context.directory.path().join(name);
            let workers = context.settings.workers;
            context
                .log
                .warn(&format!("{}: nobody reads it, since there are {workers} workers", path.display()));
        }
    }
    Ok(())
}
