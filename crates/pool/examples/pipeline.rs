//! Packs the files of a folder with gzip on all processors, counts their words, and checks what it packed.
//!
//! ```text
//!               submit               join                                 ticket
//!  this thread ───────► worker ┬─ compress ─────────┬──────────────────────────► this thread
//!  reads, cuts          queue  └─ count: join, join ┤                            writes in order
//!  into blocks          is full:                    │ submit, low priority
//!                       it waits                    └─► unpack again, compare ──► ticket
//! ```
//!
//! However large the files are, only so many blocks are in memory: the reader waits when `--queue` of them
//! wait to be packed. A check is less urgent than the next block, so it has a lane of its own; when that is
//! full as well, the worker that asks for it does it on the spot. A file packed block by block is one that
//! `gunzip` reads. It has its name when all of it is written and checked, and not before: Ctrl-C ends the
//! pool, and of what was not whole by then nothing is left.
//!
//! ```sh
//! cargo run --release --example pipeline -p millpond -- --help
//! ```
//!
//! Without a folder it packs text that it makes up, whose words it knows, so it can check its own work. It
//! ends with an error if anything is lost. `MILLPOND_EXAMPLE_QUICK=1` makes it short.

#[path = "pipeline/archive.rs"]
mod archive;
mod command_line;
mod folders;
mod interrupt;

use archive::{Archive, Part};
use command_line::{CommandLine, say};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use interrupt::Interrupt;
use millpond::{Pool, PoolConfig, PoolHandle, Priority, TaskOptions, Ticket};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

const HELP: &str = "
Packs every file of a folder with gzip, on all processors, and counts the words.

usage: pipeline [FOLDER] [options]

  FOLDER           pack the files in it, but not those in folders below; without it, text that is made up
  --output FOLDER  write NAME.gz for every file there; without it, what is packed is measured and forgotten
  --mib N          how much text to make up (default 48, at most 1048576)
  --block-kib N    cut files into blocks of so many KiB (default 512, at most 65536)
  --queue N        how many blocks may wait to be packed (default 8)
  --workers N      how many workers (default: one for each processor)
  --words N        how many of the most frequent words to show (default 5)

An archive is called NAME.gz.part until it is whole. Ctrl-C removes those; a second Ctrl-C ends at once.
";

/// Longer than any block takes: a pipeline that stands still must not stand for ever.
const PATIENCE: Duration = Duration::from_secs(60);
/// Below this a half is counted here and not offered to another worker.
const COUNT_BYTES_MIN: usize = 32 << 10;
/// More than anybody waits for: 1 TiB.
const MADE_MIB_MAX: usize = 1 << 20;
/// Each worker holds a block and the queue some more; a larger one could take longer than `PATIENCE`, too.
const BLOCK_KIB_MAX: usize = 64 << 10;

type Words = HashMap<Box<[u8]>, u64>;

struct Settings {
    folder: Option<PathBuf>,
    output: Option<PathBuf>,
    made_bytes: u64,
    block_bytes: usize,
    queue: usize,
    workers: usize,
    words: usize,
}

impl Settings {
    fn read() -> Result<Self, Box<dyn Error>> {
        let quick = env::var_os("MILLPOND_EXAMPLE_QUICK").is_some();
        let mut words = CommandLine::read(HELP)?;
        Ok(Self {
            output: words.value("--output")?.map(PathBuf::from),
            // Neither overflows, also where `usize` is short: that is what the limits are for, among other things.
            made_bytes: (words.count_up_to("--mib", if quick { 6 } else { 48 }, MADE_MIB_MAX)? as u64) << 20,
            block_bytes: words.count_up_to("--block-kib", 512, BLOCK_KIB_MAX)? << 10,
            queue: words.count("--queue", 8)?,
            workers: words.count("--workers", thread::available_parallelism().map_or(1, usize::from))?,
            words: words.count("--words", 5)?,
            folder: words.last()?.map(PathBuf::from),
        })
    }
}

fn main() -> ExitCode {
    command_line::end("pipeline", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let settings = Settings::read()?;
    let interrupt = Interrupt::listen()?;
    let start = Instant::now();
    // Before anything is made: a folder that cannot be read leaves no trace.
    let files = settings.folder.as_deref().map(files_of).transpose()?;
    let mut pipeline = Pipeline::start(&settings, &interrupt)?;
    let expected = match files {
        Some(files) => {
            pipeline.pack_files(&files)?;
            None
        }
        None => {
            let mut text = MadeText::new(settings.made_bytes);
            pipeline.pack("made-up.txt".as_ref(), &mut text)?;
            Some(text.counted())
        }
    };
    let totals = pipeline.finish()?;
    let said = totals.print(&settings, start.elapsed());
    match expected {
        // Nobody may be reading any more, but what is wrong is wrong.
        Some(expected) if expected != totals.words => {
            Err("the words that were counted are not the words that were made up".into())
        }
        Some(expected) => {
            said.and_then(|()| say!("result     all {} words are as they were made up", expected.len()))
        }
        None => said,
    }
}

/// The files directly in `folder`, by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let entry = entry.map_err(told)?;
        if entry.file_type().map_err(told)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// What a worker makes of one block.
struct Packed {
    bytes: Arc<[u8]>,
    words: Words,
    /// Whether it unpacks to what it was made of. It may still be waiting to be looked at.
    checked: Ticket<bool>,
}

#[derive(Default)]
struct Totals {
    files: u64,
    blocks: u64,
    bytes_read: u64,
    bytes_packed: u64,
    words: Words,
    blocks_waiting_max: usize,
    checked_in_place: u64,
    done_while_draining: u64,
}

/// A file whose blocks are all packed and written, though some may still be waiting to be checked.
struct Written {
    name: String,
    part: Option<Part>,
    checks: Vec<Ticket<bool>>,
}

struct Pipeline<'a> {
    pool: Pool,
    settings: &'a Settings,
    interrupt: &'a Interrupt,
    written: VecDeque<Written>,
    totals: Totals,
}

impl<'a> Pipeline<'a> {
    fn start(settings: &'a Settings, interrupt: &'a Interrupt) -> Result<Self, Box<dyn Error>> {
        let config = PoolConfig {
            workers: settings.workers,
            queue_capacity: settings.queue,
            name: "packer".to_owned(),
            ..PoolConfig::default()
        };
        let pool = Pool::start(config)?;
        if let Some(output) = &settings.output {
            folders::open_output(output, settings.folder.as_deref())?;
        }
        Ok(Self { pool, settings, interrupt, written: VecDeque::new(), totals: Totals::default() })
    }

    fn pack_files(&mut self, paths: &[PathBuf]) -> Result<(), Box<dyn Error>> {
        for path in paths {
            if self.interrupt.came() {
                break;
            }
            let mut file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            self.pack(path.file_name().expect("a file in a folder has a name"), &mut file)?;
            self.publish_checked(false)?;
        }
        Ok(())
    }

    /// Reads `input` to its end, has its blocks packed, and writes them in their order. Stops at Ctrl-C.
    fn pack(&mut self, name: &OsStr, input: &mut dyn Read) -> Result<(), Box<dyn Error>> {
        let output = self.settings.output.as_deref();
        let mut archive = output.map(|folder| Archive::create(folder, name)).transpose()?;
        let name = name.to_string_lossy().into_owned();
        let mut waiting: VecDeque<Ticket<Result<Packed, String>>> = VecDeque::new();
        let mut checks = Vec::new();
        // What is packed and waits to be written takes memory too.
        let waiting_max = self.settings.queue + self.settings.workers;
        let mut cut = Cutter { block_bytes: self.settings.block_bytes, rest: Vec::new(), is_begun: false };
        while !self.interrupt.came()
            && let Some(block) = cut.next(input).map_err(|error| format!("{name}: {error}"))?
        {
            self.totals.bytes_read += block.len() as u64;
            let pool = self.pool.handle();
            // Waits while the queue is full: so the reader is never far ahead of the workers.
            waiting.push_back(self.pool.submit(move || pack_block(&pool, block))?);
            while waiting.len() > waiting_max || waiting.front().is_some_and(Ticket::is_done) {
                let oldest = waiting.pop_front().expect("there is one in front");
                checks.push(self.write(oldest, archive.as_mut())?);
            }
        }
        for oldest in waiting {
            if self.interrupt.came() {
                break;
            }
            checks.push(self.write(oldest, archive.as_mut())?);
        }
        // What was given up half-way is removed with its archive.
        if !self.interrupt.came() {
            self.written.push_back(Written { name, part: archive.map(Archive::close), checks });
        }
        Ok(())
    }

    fn write(
        &mut self,
        ticket: Ticket<Result<Packed, String>>,
        archive: Option<&mut Archive>,
    ) -> Result<Ticket<bool>, Box<dyn Error>> {
        let packed = ticket.wait()??;
        if let Some(archive) = archive {
            archive.write(&packed.bytes)?;
        }
        self.totals.blocks += 1;
        self.totals.bytes_packed += packed.bytes.len() as u64;
        for (word, count) in packed.words {
            *self.totals.words.entry(word).or_default() += count;
        }
        Ok(packed.checked)
    }

    /// Looks at the checks, file by file, and gives those that are well their names. Stops at a file that is
    /// not checked yet, unless it is to `wait` for it.
    fn publish_checked(&mut self, wait: bool) -> Result<(), Box<dyn Error>> {
        let is_checked = |file: &Written| file.checks.iter().all(Ticket::is_done);
        while self.written.front().is_some_and(|file| wait || is_checked(file)) {
            let Written { name, part, checks } = self.written.pop_front().expect("there is one in front");
            for (block, check) in checks.into_iter().enumerate() {
                if !check.wait()? {
                    let wrong = "does not unpack to what it was made of";
                    return Err(format!("{name}: block {block} {wrong}").into());
                }
            }
            part.map_or(Ok(()), Part::publish)?;
            self.totals.files += 1;
        }
        Ok(())
    }

    /// Lets the pool finish what it has, looks at the checks, and sees whether the books balance.
    fn finish(mut self) -> Result<Totals, Box<dyn Error>> {
        let completed_before = self.pool.metrics().completed;
        let Some(report) = self.interrupt.drain(&self.pool, PATIENCE) else { return Err(self.give_up()) };
        if !report.is_finished() {
            return Err(format!("not everything was done after {PATIENCE:?}: {report:?}").into());
        }
        self.publish_checked(true)?;
        let metrics = self.pool.metrics();
        // Each block is two tasks: one packs it, one checks it. Nothing else was submitted.
        if metrics.completed != 2 * self.totals.blocks || metrics.ended() != metrics.completed {
            return Err(format!("{} blocks, but the pool says: {metrics:?}", self.totals.blocks).into());
        }
        self.totals.blocks_waiting_max = metrics.lanes[Priority::Normal as usize].len_max;
        self.totals.checked_in_place = metrics.workers.iter().map(|worker| worker.ran_in_place).sum();
        self.totals.done_while_draining = metrics.completed - completed_before;
        Ok(self.totals)
    }

    /// After Ctrl-C: ends the pool without what still waits, and says what there is now.
    fn give_up(mut self) -> Box<dyn Error> {
        if let Err(error) = self.publish_checked(false) {
            return error;
        }
        let report = self.pool.stop(PATIENCE);
        if !report.is_finished() {
            return format!("not everything had ended {PATIENCE:?} after Ctrl-C: {report:?}").into();
        }
        let (files, done, cancelled) = (self.totals.files, report.completed, report.cancelled);
        let told = format!(
            "{files} files are whole, of the others nothing is left; \
             {done} tasks were let finish, {cancelled} were cancelled"
        );
        self.interrupt.end(&told).into()
    }
}

/// Runs on a worker. The words are counted on another one, if there is one with nothing to do.
fn pack_block(pool: &PoolHandle, block: Vec<u8>) -> Result<Packed, String> {
    let (packed, words) = millpond::join(|| compress(&block), || count_words(&block));
    let bytes: Arc<[u8]> = packed.into();
    let later = TaskOptions { priority: Priority::Low, name: Some("check".into()), ..TaskOptions::default() };
    let copy = Arc::clone(&bytes);
    // A task may submit to its own pool, even a full one: then the check is done here and now.
    let checked = pool.with(&later).submit(move || unpacks_to(&copy, &block));
    Ok(Packed { bytes, words, checked: checked.map_err(|refused| refused.to_string())? })
}

fn compress(block: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(block.len() / 2), Compression::default());
    encoder.write_all(block).and_then(|()| encoder.finish()).expect("memory takes every byte")
}

fn unpacks_to(packed: &[u8], block: &[u8]) -> bool {
    let mut unpacked = Vec::with_capacity(block.len());
    GzDecoder::new(packed).read_to_end(&mut unpacked).is_ok() && unpacked == block
}

/// Counts the words of a block, half by half.
fn count_words(block: &[u8]) -> Words {
    let middle = block.len() / 2;
    let gap = block[middle..].iter().position(|byte| !byte.is_ascii_alphabetic());
    match gap {
        Some(gap) if block.len() > COUNT_BYTES_MIN => {
            let (left, right) = block.split_at(middle + gap);
            let (mut words, more) = millpond::join(|| count_words(left), || count_words(right));
            for (word, count) in more {
                *words.entry(word).or_default() += count;
            }
            words
        }
        _ => {
            let mut words = Words::new();
            for word in block.split(|byte| !byte.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
                match words.get_mut(word) {
                    Some(count) => *count += 1,
                    None => drop(words.insert(word.into(), 1)),
                }
            }
            words
        }
    }
}

/// Cuts what is read into blocks that end with a line, where there are lines.
struct Cutter {
    block_bytes: usize,
    /// The beginning of a line whose end is in the next block.
    rest: Vec<u8>,
    is_begun: bool,
}

impl Cutter {
    /// The next block. An empty input is one empty block, since an archive without a member is none.
    fn next(&mut self, input: &mut dyn Read) -> io::Result<Option<Vec<u8>>> {
        let mut block = std::mem::take(&mut self.rest);
        let wanted = self.block_bytes.saturating_sub(block.len());
        let read = input.take(wanted as u64).read_to_end(&mut block)?;
        if read == wanted
            && let Some(line_end) = block.iter().rposition(|byte| *byte == b'\n')
        {
            self.rest = block.split_off(line_end + 1);
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        Ok((is_first || !block.is_empty()).then_some(block))
    }
}

/// Text of made-up words, few of them frequent and many rare. It counts them as it makes them.
struct MadeText {
    vocabulary: Vec<String>,
    counts: Vec<u64>,
    random: u64,
    bytes_left: u64,
    /// Made and not read yet.
    line: VecDeque<u8>,
}

impl MadeText {
    fn new(bytes: u64) -> Self {
        const SYLLABLES: [&str; 16] = [
            "mil", "pon", "ra", "tok", "se", "lan", "ti", "vor", "ge", "nu", "wei", "dro", "ba", "fis", "ku",
            "hem",
        ];
        let word = |number: usize| -> String {
            // Odd, so that every word still comes once, but neighbours are not alike.
            let number = number * 1237 % 4096;
            [number % 16, number / 16 % 16, number / 256].map(|syllable| SYLLABLES[syllable]).concat()
        };
        let vocabulary: Vec<_> = (0..2048).map(word).collect();
        let counts = vec![0; vocabulary.len()];
        Self { vocabulary, counts, random: 0x9E37_79B9_7F4A_7C15, bytes_left: bytes, line: VecDeque::new() }
    }

    /// How often each word was made.
    fn counted(&self) -> Words {
        let counted = self.vocabulary.iter().zip(&self.counts).filter(|(_, count)| **count > 0);
        counted.map(|(word, count)| (word.as_bytes().into(), *count)).collect()
    }

    fn make_line(&mut self) {
        for place in 0..12 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let share = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
            let word = (share.powi(4) * self.vocabulary.len() as f64) as usize;
            self.counts[word] += 1;
            self.line.extend(self.vocabulary[word].as_bytes());
            self.line.push_back(if place == 11 { b'\n' } else { b' ' });
        }
        self.bytes_left = self.bytes_left.saturating_sub(self.line.len() as u64);
    }
}

impl Read for MadeText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.is_empty() && self.bytes_left > 0 {
            self.make_line();
        }
        self.line.read(buffer)
    }
}

impl Totals {
    fn print(&self, settings: &Settings, elapsed: Duration) -> Result<(), Box<dyn Error>> {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        say!("files      {}, {:.1} MiB, in {} blocks", self.files, mib(self.bytes_read), self.blocks)?;
        say!(
            "packed     to {:.1} MiB in {:.2} s, {:.1} MiB a second",
            mib(self.bytes_packed),
            elapsed.as_secs_f64(),
            mib(self.bytes_read) / elapsed.as_secs_f64()
        )?;
        let (waiting, queue) = (self.blocks_waiting_max, settings.queue);
        say!("queue      at most {waiting} of {queue} blocks waited")?;
        say!("checked    every block, {} at once because the lane was full", self.checked_in_place)?;
        say!("drained    {} tasks that were left when the last block was written", self.done_while_draining)?;
        let mut words: Vec<_> = self.words.iter().collect();
        words.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), (*word).clone()));
        let all: u64 = self.words.values().sum();
        say!("words      {all}, {} of them different", words.len())?;
        for (word, count) in words.into_iter().take(settings.words) {
            say!("           {count:>9} {}", String::from_utf8_lossy(word))?;
        }
        Ok(())
    }
}
