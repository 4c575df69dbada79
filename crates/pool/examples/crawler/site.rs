//! A web site to be crawled: an HTTP server on a pool of its own, whose pages and links follow from their
//! numbers.
//!
//! One link in seven leads nowhere, and one page in forty never comes: its connection is held open until the
//! site is closed. As the links are known, so is what a crawler must find.
//!
//! Not here: the crawler's side of HTTP (`web.rs`).

use crate::command_line::say;
use crate::web::Address;
use crate::{Crawl, PATIENCE};
use async_io::{Async, Timer};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use millpond::{Pool, PoolConfig, PoolHandle};
use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A request line and its headers are shorter, or are no request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Longer than any crawler waits.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Site {
    pool: Pool,
    pages: usize,
    address: Address,
}

impl Site {
    /// Serves a site of so many pages on the loopback.
    pub(crate) fn open(pages: usize) -> Result<Self, Box<dyn Error>> {
        let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0))?;
        let address = Address::new(listener.get_ref().local_addr()?);
        let pool = Pool::start(PoolConfig { workers: 1, name: "site".to_owned(), ..PoolConfig::default() })?;
        // Nobody waits for the server: it serves until its pool is stopped.
        drop(pool.spawn_async(serve(listener, pool.handle(), pages))?);
        say!("serving {pages} pages at {address}/page/0\n")?;
        Ok(Self { pool, pages, address })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Stops serving, and says how many connections were still open.
    pub(crate) fn close(self) -> Result<u64, String> {
        let report = self.pool.stop(PATIENCE);
        if !report.is_finished() {
            return Err(format!("the site did not stop within {PATIENCE:?}: {report:?}"));
        }
        // One that was cancelled is the server itself.
        Ok(report.cancelled.saturating_sub(1))
    }

    /// Whether a crawl without a limit found all there is, and nothing else.
    pub(crate) fn expect_whole(&self, crawl: &Crawl) -> Result<(), String> {
        self.expect_pages_as_served(crawl)?;
        // What did not come in time was not followed, neither by the crawler nor here.
        let (mut reached, mut frontier) = (BTreeSet::from([0]), VecDeque::from([0]));
        let mut broken = BTreeSet::new();
        while let Some(page) = frontier.pop_front() {
            if crawl.slow.contains(&path_of(page)) {
                continue;
            }
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                links(page, self.pages).into_iter().partition(|link| *link < self.pages);
            broken.extend(outside.into_iter().map(path_of));
            frontier.extend(inside.into_iter().filter(|link| reached.insert(*link)));
        }
        // A link that leads nowhere may be too slow to say so.
        let (slow_pages, slow_broken): (BTreeSet<String>, BTreeSet<String>) = crawl
            .slow
            .iter()
            .cloned()
            .partition(|path| number_of(path).is_some_and(|page| page < self.pages));
        let expected: BTreeSet<_> = reached.into_iter().map(path_of).collect();
        expect_same("pages", &expected, &crawl.pages.keys().cloned().chain(slow_pages).collect())?;
        expect_same("broken links", &broken, &crawl.broken.keys().cloned().chain(slow_broken).collect())
    }

    /// Whether a crawl with a limit found exactly so many pages. There may be fewer if a page that comes did not
    /// come in time, as on a machine that is busy with other things; what hangs on it was not reached then.
    pub(crate) fn expect_part(&self, crawl: &Crawl, pages: usize) -> Result<(), String> {
        self.expect_pages_as_served(crawl)?;
        let found = crawl.pages.len();
        if found == pages || (found < pages && Self::was_held_up(crawl)) {
            return Ok(());
        }
        Err(format!("expected exactly {pages} pages, got {found}"))
    }

    /// Whether a page that comes did not come in time.
    pub(crate) fn was_held_up(crawl: &Crawl) -> bool {
        crawl.slow.iter().filter_map(|path| number_of(path)).any(comes)
    }

    fn expect_pages_as_served(&self, crawl: &Crawl) -> Result<(), String> {
        for (path, page) in &crawl.pages {
            let number = number_of(path).filter(|page| *page < self.pages && comes(*page));
            let title =
                number.map(title_of).ok_or_else(|| format!("{path}: was found, but is never served"))?;
            if page.title != title {
                return Err(format!("{path}: expected the title {title:?}, got {:?}", page.title));
            }
        }
        Ok(())
    }
}

fn expect_same(what: &str, expected: &BTreeSet<String>, found: &BTreeSet<String>) -> Result<(), String> {
    let missing: Vec<_> = expected.difference(found).take(5).collect();
    let surplus: Vec<_> = found.difference(expected).take(5).collect();
    if missing.is_empty() && surplus.is_empty() {
        return Ok(());
    }
    Err(format!("{what}: not found although there: {missing:?}; found although not there: {surplus:?}"))
}

fn path_of(page: usize) -> String {
    format!("/page/{page}")
}

fn number_of(path: &str) -> Option<usize> {
    path.strip_prefix("/page/")?.parse().ok()
}

fn title_of(page: usize) -> String {
    format!("Page number {page}")
}

/// Whether a page comes at all.
fn comes(page: usize) -> bool {
    page % 40 != 39
}

/// Where a page leads: a tree, so that most pages can be reached, and something across it.
fn links(page: usize, pages: usize) -> Vec<usize> {
    let across = page.wrapping_mul(7919) % pages;
    let mut links = vec![2 * page + 1, 2 * page + 2, across];
    links.retain(|link| *link < pages);
    if page % 7 == 3 {
        links.push(pages + page);
    }
    links
}

/// Takes connections for as long as the pool lives.
async fn serve(listener: Async<TcpListener>, pool: PoolHandle, pages: usize) {
    loop {
        // A connection that fails before it is taken concerns nobody but its caller.
        let Ok((stream, _)) = listener.accept().await else { continue };
        if pool.spawn_async(answer(stream, pages)).is_err() {
            return;
        }
    }
}

async fn answer(mut stream: Async<TcpStream>, pages: usize) -> io::Result<()> {
    let path = read_path(&mut stream).await?;
    let page = number_of(&path).filter(|page| *page < pages);
    if page.is_some_and(|page| !comes(page)) {
        Timer::after(NEVER).await;
    }
    let (status, body) = match page {
        Some(page) => ("200 OK", body_of(page, pages)),
        None => ("404 Not Found", "<title>Not found</title>".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.close().await
}

async fn read_path(stream: &mut Async<TcpStream>) -> io::Result<String> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut part).await?;
        if read == 0 || request.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&part[..read]);
    }
    let request = String::from_utf8_lossy(&request);
    Ok(request.split(' ').nth(1).unwrap_or_default().to_owned())
}

fn body_of(page: usize, pages: usize) -> String {
    let mut body = format!("<!doctype html><title>{}</title>\n", title_of(page));
    for link in links(page, pages) {
        body += &format!("<p>See <a href=\"{}\">page {link}</a>.</p>\n", path_of(link));
    }
    body
}
