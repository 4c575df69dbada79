//! Crawls a web site: many pages at once on a few workers, each with a time-out, and not a page more than
//! asked for.
//!
//! ```text
//!   frontier ──► spawn_async(fetch), with a timeout ──► ticket ─┐
//!      ▲                                                        │ at most --at-once, awaited together
//!      └── links not seen before ◄── page, broken or too slow ◄─┘
//! ```
//!
//! A fetch waits for the network most of the time, and while it waits it holds no worker: its socket belongs
//! to async-io, whose reactor wakes it. A page that does not answer in time is dropped in the middle of its
//! wait, and its socket is closed. When enough pages are found, the fetches under way are cancelled in the
//! same way.
//!
//! ```sh
//! cargo run --release --example crawler -p millpond -- --help
//! cargo run --release --example crawler -p millpond -- http://localhost:8000/ --pages 100
//! ```
//!
//! Without an address it serves a site of its own, on a second pool, with links that lead nowhere and pages
//! that never come. Then it knows what it must find, and ends with an error if it finds anything else.
//! `MILLPOND_EXAMPLE_QUICK=1` makes that site small.

mod command_line;
#[path = "crawler/site.rs"]
mod site;
#[path = "crawler/web.rs"]
mod web;

use command_line::{CommandLine, say};
use futures_util::stream::{FuturesUnordered, StreamExt};
use millpond::{Metrics, Pool, PoolConfig, PoolHandle, TaskError, TaskOptions, Ticket};
use site::Site;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::env;
use std::error::Error;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use web::{Address, Page};

const HELP: &str = "
Crawls the pages of a web site that can be reached from one of them.

usage: crawler [ADDRESS] [options]

  ADDRESS         where to begin, as http://host:port/path; only this host is visited, and only without TLS.
                  Redirects are not followed: a page that answers with one counts as broken.
                  Without an address, a site of its own is served and crawled, twice
  --pages N       stop when so many pages of ADDRESS have been fetched (default 1000)
  --at-once N     how many fetches may be under way (default 32)
  --timeout-ms N  how long a page may take, from asking to its last byte (default 2000)
  --workers N     how many workers (default 2)
  --show N        how many of the pages to list (default 5)
";

/// How long what is under way may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Limits {
    pages: usize,
    at_once: usize,
    timeout: Duration,
}

fn main() -> ExitCode {
    command_line::end("crawler", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let quick = env::var_os("MILLPOND_EXAMPLE_QUICK").is_some();
    let mut words = CommandLine::read(HELP)?;
    let limits = Limits {
        pages: words.count("--pages", 1000)?,
        at_once: words.count("--at-once", 32)?,
        timeout: Duration::from_millis(words.count("--timeout-ms", if quick { 1000 } else { 2000 })? as u64),
    };
    let workers = words.count("--workers", 2)?;
    let show = words.count("--show", 5)?;
    let address = words.last()?;
    let pool = Pool::start(PoolConfig { workers, name: "crawler".to_owned(), ..PoolConfig::default() })?;
    match address {
        Some(address) => crawl_site_of_others(&pool, &address.to_string_lossy(), &limits, show)?,
        None => crawl_own_site(&pool, &limits, if quick { 120 } else { 600 }, show)?,
    }
    let report = pool.drain(PATIENCE);
    if !report.is_finished() {
        return Err(format!("some fetches did not end within {PATIENCE:?}: {report:?}").into());
    }
    print_metrics(&pool.metrics())
}

fn crawl_site_of_others(
    pool: &PoolHandle,
    address: &str,
    limits: &Limits,
    show: usize,
) -> Result<(), Box<dyn Error>> {
    let (address, path) = Address::parse(address)?;
    let crawl = Crawl::run(pool, &address, &path, limits)?;
    let said = crawl.print(&address.to_string(), show);
    match crawl.broken.get(&path) {
        Some(reason) => Err(format!("{address}{path}: {reason}").into()),
        None if crawl.pages.is_empty() => Err(format!("{address}{path}: no answer in time").into()),
        // Only now: nobody may be reading any more, but what is broken is broken.
        None => said,
    }
}

/// Crawls all of a site whose links are known, then half of it, and looks whether that is what was found.
fn crawl_own_site(
    pool: &PoolHandle,
    limits: &Limits,
    pages: usize,
    show: usize,
) -> Result<(), Box<dyn Error>> {
    let site = Site::open(pages)?;
    let whole = Crawl::run(pool, site.address(), "/page/0", &Limits { pages: usize::MAX, ..limits.clone() })?;
    whole.print("the whole site", show)?;
    site.expect_whole(&whole)?;
    let half = Crawl::run(
        pool,
        site.address(),
        "/page/0",
        &Limits { pages: whole.pages.len() / 2, ..limits.clone() },
    )?;
    half.print("half of it", 0)?;
    site.expect_part(&half, whole.pages.len() / 2)?;
    let cancelled = site.close()?;
    say!("the site is closed; {cancelled} connections were still open")?;
    if Site::was_held_up(&whole) || Site::was_held_up(&half) {
        say!("pages that come were too slow, so not all of the site was reached; raise --timeout-ms\n")?;
    } else {
        say!("both crawls found what the site serves, and not a page more\n")?;
    }
    Ok(())
}

/// What was found, by path.
#[derive(Default)]
struct Crawl {
    pages: BTreeMap<String, Page>,
    /// Paths that were answered otherwise than with a page, or not understood.
    broken: BTreeMap<String, String>,
    /// Paths that did not answer in time.
    slow: BTreeSet<String>,
    /// Paths whose fetch was called off, as enough pages had been found.
    cancelled: BTreeSet<String>,
    /// Paths whose answer came after that all the same, and was not looked at.
    surplus: BTreeSet<String>,
    asked: usize,
    elapsed: Duration,
}

/// A fetch under way: its ticket, and what it is for.
struct Fetch {
    path: String,
    ticket: Ticket<Result<Page, String>>,
}

impl Future for Fetch {
    type Output = (String, Result<Result<Page, String>, TaskError>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // By its full name, since a ticket has a `poll` of its own.
        let result = std::task::ready!(Future::poll(Pin::new(&mut self.ticket), context));
        Poll::Ready((std::mem::take(&mut self.path), result))
    }
}

impl Crawl {
    /// Crawls from `first` on. What is counted here must be what the pool has counted.
    fn run(
        pool: &PoolHandle,
        address: &Address,
        first: &str,
        limits: &Limits,
    ) -> Result<Self, Box<dyn Error>> {
        let (start, before) = (Instant::now(), pool.metrics());
        let mut crawl = millpond::block_on(Self::follow_links(pool, address, first, limits))?;
        crawl.elapsed = start.elapsed();
        let after = pool.metrics();
        let late = after.timed_out - before.timed_out + after.expired - before.expired;
        let counted = [after.completed - before.completed, late, after.cancelled - before.cancelled];
        let answered = crawl.pages.len() + crawl.broken.len() + crawl.surplus.len();
        let found = [answered, crawl.slow.len(), crawl.cancelled.len()];
        if counted != found.map(|count| count as u64) || found.iter().sum::<usize>() != crawl.asked {
            let asked = crawl.asked;
            return Err(
                format!("{asked} asked for, ended as {found:?}, but the pool counts {counted:?}").into()
            );
        }
        Ok(crawl)
    }

    async fn follow_links(
        pool: &PoolHandle,
        address: &Address,
        first: &str,
        limits: &Limits,
    ) -> Result<Self, Box<dyn Error>> {
        let mut crawl = Self::default();
        let mut seen = BTreeSet::from([first.to_owned()]);
        let mut frontier = VecDeque::from([first.to_owned()]);
        let mut fetches = FuturesUnordered::new();
        loop {
            while fetches.len() < limits.at_once
                && let Some(path) = frontier.pop_front()
            {
                crawl.asked += 1;
                fetches.push(begin_fetch(pool, address, path, limits.timeout)?);
            }
            let Some((path, result)) = fetches.next().await else { return Ok(crawl) };
            match result {
                // It was faster than its cancellation.
                Ok(_) if crawl.pages.len() >= limits.pages => drop(crawl.surplus.insert(path)),
                Ok(Ok(page)) => {
                    frontier.extend(page.links.iter().filter(|link| seen.insert((*link).clone())).cloned());
                    crawl.pages.insert(path, page);
                }
                Ok(Err(reason)) => drop(crawl.broken.insert(path, reason)),
                Err(TaskError::TimedOut | TaskError::Expired) => drop(crawl.slow.insert(path)),
                Err(TaskError::Cancelled) => drop(crawl.cancelled.insert(path)),
                Err(unexpected) => return Err(format!("{path}: {unexpected}").into()),
            }
            if crawl.pages.len() >= limits.pages {
                frontier.clear();
                for fetch in fetches.iter() {
                    // Whatever the answer is, the ticket will say how the fetch has ended.
                    let _ = fetch.ticket.cancel();
                }
            }
        }
    }

    fn print(&self, what: &str, show: usize) -> Result<(), Box<dyn Error>> {
        say!(
            "{what}: {} pages, {} broken, {} too slow, {} cancelled, {} not needed, in {:.2} s",
            self.pages.len(),
            self.broken.len(),
            self.slow.len(),
            self.cancelled.len(),
            self.surplus.len(),
            self.elapsed.as_secs_f64()
        )?;
        for (path, page) in self.pages.iter().take(show) {
            say!("  {path:<16} {:>6} bytes, {:>2} links  {}", page.bytes, page.links.len(), page.title)?;
        }
        for (path, reason) in self.broken.iter().take(show) {
            say!("  {path:<16} {reason}")?;
        }
        say!("")
    }
}

fn begin_fetch(
    pool: &PoolHandle,
    address: &Address,
    path: String,
    timeout: Duration,
) -> Result<Fetch, String> {
    let options =
        TaskOptions { name: Some(path.clone().into()), timeout: Some(timeout), ..TaskOptions::default() };
    let fetch = web::fetch(address.clone(), path.clone());
    let ticket = pool.with(&options).spawn_async(fetch).map_err(|refused| format!("{path}: {refused}"))?;
    Ok(Fetch { path, ticket })
}

fn print_metrics(metrics: &Metrics) -> Result<(), Box<dyn Error>> {
    say!("workers    {} wanted, {} asleep", metrics.workers_wanted, metrics.workers_asleep)?;
    say!(
        "fetches    {} completed, {} too slow, {} cancelled, {} still live",
        metrics.completed,
        metrics.timed_out + metrics.expired,
        metrics.cancelled,
        metrics.futures_live
    )?;
    for (number, worker) in metrics.workers.iter().enumerate() {
        say!("worker {number}   {} fetches ended here, {} stolen", worker.completed, worker.stolen)?;
    }
    Ok(())
}
