//! What goes back: a whole body, or one that is made while it is sent.
//!
//! Nearly every answer is whole, so it is kept without a box; streams are rare and long.

use crate::api::Held;
use crate::clients::Client;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much of a large answer is handed over at once.
const PIECE_BYTES: usize = 64 << 10;

/// A body made while it is sent.
pub(crate) type StreamBody = Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>;

/// The body of an answer.
pub(crate) enum Reply {
    /// All of it.
    Whole(Bytes),
    /// All of it, and so much that it is counted until it is written.
    Large { bytes: Bytes, _held: Held },
    /// Piece by piece.
    Stream(StreamBody),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) | Self::Large { bytes, .. } if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            // In pieces, so that hyper asks for the next one when it has written some: what it has not asked for yet
            // is counted, and it takes no second copy of it all.
            Self::Large { bytes, .. } => {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Self::Stream(stream) => stream.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Large { bytes, .. } => bytes.is_empty(),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Large { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(stream) => stream.size_hint(),
        }
    }
}

/// A reply in hyper's hands. When it is let go, hyper has all of it and writes what is left.
pub(crate) struct Sent {
    reply: Reply,
    client: Arc<Client>,
}

impl Sent {
    pub(crate) fn new(reply: Reply, client: Arc<Client>) -> Self {
        Self { reply, client }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.reply).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.reply.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.reply.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.client.was_handed_over();
    }
}
