//! Reading a body: within its own limit, within what all bodies may take together, and in time.
//!
//! A body that says how long it is, is refused before any of it is read. Nearly every body comes in one piece
//! and is used where hyper left it; only one that comes in several is copied.
//!
//! A body that is not read to its end leaves bytes on the connection that nobody wants, so those answers say
//! that the connection ends.

use super::Api;
use super::ask::Ask;
use super::limit::Held;
use super::problem::{Fault, Problem};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

/// How much of a body is passed over where none is expected, before it counts as unread.
const PASSED_OVER_MAX: usize = 16 << 10;

/// How much is made room for because a client says that it will come.
const BELIEVED_MAX: usize = 64 << 10;

/// A whole body. It counts among all bodies until it is dropped.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: Bytes,
    _held: Held,
}

impl std::ops::Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the whole body.
pub(super) async fn whole(api: &Api, ask: &mut Ask) -> Result<Whole, Box<Problem>> {
    let bytes_max = api.settings.body_bytes_max;
    let told = ask.body.as_ref().map_or(0, |body| body.size_hint().lower());
    if told > bytes_max as u64 {
        let detail = format!(
            "expected a body of at most {bytes_max} bytes, got {told}; send less, or raise \
            web.body_bytes_max"
        );
        return Err(Problem::new(Fault::BodyTooLarge, detail).closing());
    }
    let until = Instant::now() + api.settings.body_timeout;
    let first = next_of(api, ask, until).await?.unwrap_or_default();
    // What is only promised takes no memory, and whoever promises much and sends nothing keeps out nobody.
    let mut held = api.take_body(first.len())?;
    if ask.is_read && first.len() <= bytes_max {
        return Ok(Whole { bytes: first, _held: held });
    }
    let mut bytes = Vec::with_capacity((told as usize).min(BELIEVED_MAX).max(first.len()));
    bytes.extend_from_slice(&first);
    drop(first);
    while bytes.len() <= bytes_max {
        let Some(piece) = next_of(api, ask, until).await? else {
            return Ok(Whole { bytes: bytes.into(), _held: held });
        };
        held.join(api.take_body(piece.len())?);
        bytes.extend_from_slice(&piece);
    }
    let detail = format!(
        "expected a body of at most {bytes_max} bytes, got more; send less, or raise \
        web.body_bytes_max"
    );
    Err(Problem::new(Fault::BodyTooLarge, detail).closing())
}

/// Reads what little may be there where nothing is expected.
pub(super) async fn pass_over(api: &Api, ask: &mut Ask) {
    let until = Instant::now() + api.settings.body_timeout;
    let mut passed = 0;
    while !ask.is_read && passed <= PASSED_OVER_MAX {
        match next_of(api, ask, until).await {
            Ok(Some(piece)) => passed += piece.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

/// The next bytes of a request's body, and whether they were the last.
async fn next_of(api: &Api, ask: &mut Ask, until: Instant) -> Result<Option<Bytes>, Box<Problem>> {
    let Some(body) = &mut ask.body else { return Ok(None) };
    let piece = next_piece(api, body, until).await?;
    ask.is_read = piece.is_none() || body.is_end_stream();
    Ok(piece)
}

/// The next bytes; none at the end.
pub(super) async fn next_piece(
    api: &Api,
    body: &mut Incoming,
    until: Instant,
) -> Result<Option<Bytes>, Box<Problem>> {
    loop {
        match timeout_at(until, body.frame()).await {
            Ok(None) => return Ok(None),
            // What is no data are trailers, which say nothing here.
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => {
                let detail = format!("expected a whole body, got an error: {error}");
                return Err(Problem::new(Fault::BrokenBody, detail).closing());
            }
            Err(_) => {
                let detail = format!(
                    "expected the body within {:?}; send faster, or raise web.body_timeout",
                    api.settings.body_timeout
                );
                return Err(Problem::new(Fault::BodyTimeout, detail).closing());
            }
        }
    }
}
