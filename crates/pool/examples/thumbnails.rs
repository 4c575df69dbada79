//! Makes a thumbnail of every picture in a folder, with a progress bar, in bounded memory.
//!
//! ```text
//!   this thread reads a file ──► submit ──► queue of --queue files ──► worker: decode, shrink, write
//!                                waits when it is full                    │ on_done
//!                                progress bar, list of what failed ◄──────┘
//! ```
//!
//! Reading is faster than decoding, so without a bound the whole folder would end up in memory. Here at most
//! `--queue` files wait, one for each worker is worked on, and one is in the reader's hands; the program
//! counts them and ends with an error if there were ever more. A picture that cannot be read, even one that
//! makes the decoder panic, costs that picture alone: it is reported in the end, and the others are done.
//!
//! ```sh
//! cargo run --release --example thumbnails -p millpond -- --help
//! cargo run --release --example thumbnails -p millpond -- ~/Pictures --output /tmp/thumbnails
//! ```
//!
//! Without a folder it makes samples, one of them broken, in a temporary folder that it removes again, and
//! looks at every thumbnail. `MILLPOND_EXAMPLE_QUICK=1` makes fewer. Ctrl-C cancels the pictures that wait and
//! lets those finish that are worked on, so no thumbnail is half a thumbnail.

mod command_line;
mod folders;
mod interrupt;

use command_line::{CommandLine, say};
use image::{DynamicImage, ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use indicatif::{ProgressBar, ProgressStyle};
use interrupt::Interrupt;
use millpond::{BatchError, Pool, PoolConfig, TaskError, TaskOptions};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use std::{env, thread};

const HELP: &str = "
Makes a thumbnail of every PNG and JPEG picture in a folder.

usage: thumbnails [FOLDER] [options]

  FOLDER            where the pictures are; without it, samples are made
  --output FOLDER   where the thumbnails go (default: FOLDER/thumbnails)
  --size N          how long the longer side of a thumbnail is, in pixels (default 160, at most 4096)
  --queue N         how many files may wait in memory (default 4)
  --workers N       how many workers (default: one for each processor)
  --make-samples N  how many samples to make when there is no FOLDER (default 100, at most 10000)

It ends with an error if a picture of yours failed; the others are done all the same. A thumbnail
has the name of its picture, so it may not go where the pictures are. Ctrl-C ends it when the pictures are
done that are worked on; a second Ctrl-C ends it at once.
";

/// What a picture may take when it is unpacked. A file of a few bytes can claim to be enormous.
const PICTURE_BYTES_MAX: u64 = 512 << 20;
/// Longer than this is no thumbnail, and takes seconds and some 50 MiB for each worker.
const SIZE_MAX: usize = 4096;
/// These already take some GiB of the disk, for a while.
const SAMPLES_MAX: usize = 10_000;
/// So many are submitted at once; between two batches Ctrl-C is looked at.
const SAMPLES_IN_BATCH: u32 = 16;
/// Longer than any batch of pictures that is left in the queue takes.
const PATIENCE: Duration = Duration::from_secs(120);
const BROKEN_SAMPLE: &str = "broken.png";

struct Settings {
    size: u32,
    queue: usize,
    workers: usize,
    samples: u32,
    output: Option<PathBuf>,
    folder: Option<PathBuf>,
}

fn main() -> ExitCode {
    command_line::end("thumbnails", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let quick = env::var_os("MILLPOND_EXAMPLE_QUICK").is_some();
    let mut words = CommandLine::read(HELP)?;
    let settings = Settings {
        size: words.count_up_to("--size", 160, SIZE_MAX)? as u32,
        queue: words.count("--queue", 4)?,
        workers: words.count("--workers", thread::available_parallelism().map_or(1, usize::from))?,
        samples: words.count_up_to("--make-samples", if quick { 12 } else { 100 }, SAMPLES_MAX)? as u32,
        output: words.value("--output")?.map(PathBuf::from),
        folder: words.last()?.map(PathBuf::from),
    };
    let interrupt = Interrupt::listen()?;
    let pool = Pool::start(PoolConfig {
        workers: settings.workers,
        queue_capacity: settings.queue,
        name: "thumbnails".to_owned(),
        ..PoolConfig::default()
    })?;
    match &settings.folder {
        Some(folder) => shrink_folder(pool, folder, &settings, &interrupt),
        None => shrink_samples(pool, &settings, &interrupt),
    }
}

fn shrink_folder(
    pool: Pool,
    folder: &Path,
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<(), Box<dyn Error>> {
    if pictures_of(folder)?.is_empty() {
        return say!("there are no pictures in {}: nothing there ends in png, jpg or jpeg", folder.display());
    }
    let output = settings.output.clone().unwrap_or_else(|| folder.join("thumbnails"));
    let batch = Batch::run(pool, folder, &output, settings, interrupt)?;
    let said = batch.print(settings);
    // Nobody may be reading any more, but what failed has failed.
    match batch.failed.len() {
        0 => said,
        failed => Err(format!("{failed} of {} pictures failed", failed + batch.done.len()).into()),
    }
}

/// Makes samples, shrinks them, and looks whether everything came out as it must.
fn shrink_samples(pool: Pool, settings: &Settings, interrupt: &Interrupt) -> Result<(), Box<dyn Error>> {
    let folder = TemporaryFolder::new()?;
    // Dropped before the folder is: by then nobody makes a sample any more, whatever went wrong.
    let pool = pool;
    let sizes = make_samples(&pool, &folder.0, settings.samples, interrupt)?;
    let output = settings.output.clone().unwrap_or_else(|| folder.0.join("thumbnails"));
    let batch = Batch::run(pool, &folder.0, &output, settings, interrupt)?;
    batch.print(settings)?;
    if batch.done.len() != sizes.len() {
        return Err(format!("{} samples, but {} thumbnails", sizes.len(), batch.done.len()).into());
    }
    for (name, (width, height)) in sizes {
        let thumbnail = image::open(output.join(&name))?;
        let longer = thumbnail.width().max(thumbnail.height());
        // Small pictures are made larger too, as `thumbnail` does it.
        let is_alike = (thumbnail.width() > thumbnail.height()) == (width > height);
        if longer != settings.size || !is_alike {
            let (width, height) = (thumbnail.width(), thumbnail.height());
            let wanted = settings.size;
            return Err(format!("{name}: expected a longer side of {wanted}, got {width} x {height}").into());
        }
    }
    match &batch.failed[..] {
        [(name, _)] if name == BROKEN_SAMPLE => {
            say!("result    every sample but the broken one is there")
        }
        failed => Err(format!("expected {BROKEN_SAMPLE} alone to fail, got {failed:?}").into()),
    }
}

/// A thumbnail that was written.
struct Done {
    bytes_read: usize,
}

/// What became of the pictures of one folder.
struct Batch {
    done: Vec<Done>,
    /// By name, with the reason.
    failed: Vec<(String, String)>,
    files_held_max: usize,
    elapsed: Duration,
}

/// What a picture came to, on its way from the worker to whoever adds it up.
type Outcome = (String, Result<Result<Done, String>, TaskError>);

impl Batch {
    fn run(
        pool: Pool,
        folder: &Path,
        output: &Path,
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Self, Box<dyn Error>> {
        let start = Instant::now();
        let pictures = pictures_of(folder)?;
        folders::open_output(output, Some(folder))?;
        let bar = ProgressBar::new(pictures.len() as u64);
        bar.set_style(ProgressStyle::with_template("{bar:40} {pos} of {len}, {eta} left  {msg}")?);
        let (sender, outcomes) = mpsc::channel();
        let held = Arc::new(Held::default());
        for picture in pictures.iter().take_while(|_| !interrupt.came()) {
            submit(&pool, picture, output, settings.size, &held, &bar, &sender)?;
        }
        drop(sender);
        let Some(report) = interrupt.drain(&pool, PATIENCE) else {
            bar.finish_and_clear();
            return Err(give_up(pool, &outcomes, pictures.len(), interrupt));
        };
        bar.finish_and_clear();
        if !report.is_finished() {
            return Err(format!("not every picture was done after {PATIENCE:?}: {report:?}").into());
        }
        let mut batch = Self {
            done: Vec::new(),
            failed: Vec::new(),
            files_held_max: held.files_max.load(Relaxed),
            elapsed: start.elapsed(),
        };
        for (name, outcome) in outcomes {
            match outcome {
                Ok(Ok(done)) => batch.done.push(done),
                Ok(Err(reason)) => batch.failed.push((name, reason)),
                Err(error) => batch.failed.push((name, error.to_string())),
            }
        }
        batch.failed.sort();
        batch.balance(pictures.len(), settings)?;
        Ok(batch)
    }

    /// Whether every picture was seen to, and memory was as bounded as promised.
    fn balance(&self, pictures: usize, settings: &Settings) -> Result<(), String> {
        let (done, failed) = (self.done.len(), self.failed.len());
        if done + failed != pictures {
            return Err(format!("{pictures} pictures, but {done} done and {failed} failed; some were lost"));
        }
        let bound = settings.queue + settings.workers + 1;
        if self.files_held_max > bound {
            return Err(format!(
                "{} files were in memory at once, {bound} is the bound",
                self.files_held_max
            ));
        }
        Ok(())
    }

    fn print(&self, settings: &Settings) -> Result<(), Box<dyn Error>> {
        let bytes: usize = self.done.iter().map(|done| done.bytes_read).sum();
        let seconds = self.elapsed.as_secs_f64();
        say!(
            "pictures  {} done in {seconds:.2} s, {:.1} a second, {:.1} MiB",
            self.done.len(),
            self.done.len() as f64 / seconds,
            bytes as f64 / f64::from(1 << 20)
        )?;
        let Settings { queue, workers, .. } = settings;
        say!(
            "memory    at most {} files at once: {queue} may wait, {workers} are worked on, 1 is being read",
            self.files_held_max
        )?;
        say!("failed    {}", self.failed.len())?;
        for (name, reason) in &self.failed {
            say!("          {name}: {reason}")?;
        }
        Ok(())
    }
}

/// After Ctrl-C: ends the pool without the pictures that still wait, and says what there is now.
fn give_up(
    pool: Pool,
    outcomes: &Receiver<Outcome>,
    pictures: usize,
    interrupt: &Interrupt,
) -> Box<dyn Error> {
    let report = pool.stop(PATIENCE);
    if !report.is_finished() {
        return format!("not everything had ended {PATIENCE:?} after Ctrl-C: {report:?}").into();
    }
    let done = outcomes.try_iter().filter(|(_, outcome)| matches!(outcome, Ok(Ok(_)))).count();
    let told =
        format!("{done} of {pictures} pictures are done, {} that waited were cancelled", report.cancelled);
    interrupt.end(&told).into()
}

/// Reads a picture and gives it to the pool. Waits while the queue is full, which is what bounds the memory.
fn submit(
    pool: &Pool,
    picture: &Path,
    output: &Path,
    size: u32,
    held: &Arc<Held>,
    bar: &ProgressBar,
    sender: &Sender<Outcome>,
) -> Result<(), Box<dyn Error>> {
    let name = picture.file_name().expect("a file in a folder has a name");
    // Joined as it is and shown as it can be: two names that are not Unicode may look the same.
    let output = output.join(name);
    let name = name.to_string_lossy().into_owned();
    let file = held.hold(picture);
    let options = TaskOptions { name: Some(name.clone().into()), ..TaskOptions::default() };
    let ticket = pool.with(&options).submit(move || shrink(file?, &output, size))?;
    let (bar, sender) = (bar.clone(), sender.clone());
    // Called on the worker that has done it: also if it panicked.
    ticket.on_done(move |outcome| {
        bar.inc(1);
        bar.set_message(name.clone());
        // Whoever adds up is gone only if the program is about to end with an error.
        let _ = sender.send((name, outcome));
    });
    Ok(())
}

/// Runs on a worker.
fn shrink(file: HeldFile, output: &Path, size: u32) -> Result<Done, String> {
    let mut reader =
        ImageReader::new(Cursor::new(&file.bytes)).with_guessed_format().map_err(|e| e.to_string())?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(PICTURE_BYTES_MAX);
    reader.limits(limits);
    let picture: DynamicImage = reader.decode().map_err(|error| error.to_string())?;
    let format = ImageFormat::from_path(output).map_err(|error| error.to_string())?;
    let mut thumbnail = Cursor::new(Vec::new());
    picture.thumbnail(size, size).write_to(&mut thumbnail, format).map_err(|error| error.to_string())?;
    write(output, thumbnail.get_ref())?;
    Ok(Done { bytes_read: file.bytes.len() })
}

/// Writes a thumbnail, or nothing: half of one is not left behind on a full disk.
fn write(output: &Path, thumbnail: &[u8]) -> Result<(), String> {
    let told = |error| format!("{}: {error}", output.display());
    File::create(output).map_err(told)?.write_all(thumbnail).map_err(|error| {
        // If it cannot be removed either, the other error is the one to tell.
        let _ = fs::remove_file(output);
        told(error)
    })
}

/// How many files are in memory, from being read to being done with.
#[derive(Default)]
struct Held {
    files: AtomicUsize,
    files_max: AtomicUsize,
}

/// A file in memory. It counts for as long as it lives.
struct HeldFile {
    bytes: Vec<u8>,
    held: Arc<Held>,
}

impl Held {
    fn hold(self: &Arc<Self>, path: &Path) -> Result<HeldFile, String> {
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        self.files_max.fetch_max(self.files.fetch_add(1, Relaxed) + 1, Relaxed);
        Ok(HeldFile { bytes, held: Arc::clone(self) })
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        self.held.files.fetch_sub(1, Relaxed);
    }
}

/// The pictures directly in `folder`, by name.
fn pictures_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_picture = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        path.is_file() && ending.is_some_and(|ending| ["png", "jpg", "jpeg"].contains(&ending.as_str()))
    };
    let mut pictures: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_picture).collect();
    pictures.sort();
    Ok(pictures)
}

/// Names and sizes of the samples that can be read.
type Samples = Vec<(String, (u32, u32))>;

/// Makes so many samples, and one more that is broken.
fn make_samples(
    pool: &Pool,
    folder: &Path,
    count: u32,
    interrupt: &Interrupt,
) -> Result<Samples, Box<dyn Error>> {
    write(&folder.join(BROKEN_SAMPLE), b"\x89PNG\r\n\x1a\nand then nothing of the kind")?;
    let mut samples = Vec::new();
    for first in (0..count).step_by(SAMPLES_IN_BATCH as usize) {
        let numbers = first..count.min(first + SAMPLES_IN_BATCH);
        let tasks = numbers.map(|number| {
            let folder = folder.to_owned();
            move || make_sample(&folder, number)
        });
        for ticket in pool.submit_batch(tasks).map_err(BatchError::forget)? {
            if interrupt.came() {
                return Err(interrupt.end("not all samples were made, and none is left").into());
            }
            samples.push(ticket.wait()?.map_err(|error| format!("cannot make a sample: {error}"))?);
        }
    }
    Ok(samples)
}

fn make_sample(folder: &Path, number: u32) -> image::ImageResult<(String, (u32, u32))> {
    let (width, height) = (480 + 40 * (number % 16), 840 - 30 * (number % 13));
    let picture = RgbImage::from_fn(width, height, |x, y| {
        let ring = (x.abs_diff(width / 2).pow(2) + y.abs_diff(height / 2).pow(2)) / (400 + 60 * number);
        Rgb([(255 * x / width) as u8, (255 * y / height) as u8, (ring % 256) as u8])
    });
    let name = format!("sample-{number:03}.{}", if number.is_multiple_of(2) { "png" } else { "jpg" });
    picture.save(folder.join(&name))?;
    Ok((name, (width, height)))
}

/// A folder that goes when it is dropped, with everything in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self, String> {
        let path = env::temp_dir().join(format!("millpond-thumbnails-{}", process::id()));
        // Not `create_dir_all`: a folder that is there already is somebody else's.
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            // There is nowhere left to say that this cannot be said.
            let _ = writeln!(io::stderr(), "{}: could not be removed: {error}", self.0.display());
        }
    }
}
