//! A body that is made while it is sent: written as a function, read as a stream.
//!
//! The function lives inside the body. It goes on only when hyper wants more, so a slow reader holds back
//! whoever makes the body and nothing piles up; and it ends when the connection does, with all that it holds.

use crate::reply::Reply;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Where the function puts what it has made.
pub(super) struct Out(mpsc::Sender<Bytes>);

impl Out {
    /// Hands on one piece, and waits until the one before is on its way.
    pub(super) async fn send(&self, piece: impl Into<Bytes>) {
        // The other end lives as long as this one: both are in the body.
        let _ = self.0.send(piece.into()).await;
    }
}

/// The body that `make` writes.
pub(super) fn flow<F: Future<Output = ()> + Send + 'static>(make: impl FnOnce(Out) -> F) -> Reply {
    let (sender, ready) = mpsc::channel(1);
    Reply::Stream(Box::pin(Flow { making: Some(Box::pin(make(Out(sender)))), ready }))
}

struct Flow {
    /// None once it has returned.
    making: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    ready: mpsc::Receiver<Bytes>,
}

impl Body for Flow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // What lies there goes first, and makes room for more.
        if let Poll::Ready(Some(piece)) = self.ready.poll_recv(context) {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(making) = &mut self.making
            && making.as_mut().poll(context).is_ready()
        {
            self.making = None;
        }
        self.ready.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[test]
    fn a_flow_is_all_that_was_sent_and_then_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = flow(|out| async move {
            for piece in ["one ", "two ", "three"] {
                out.send(piece).await;
                tokio::task::yield_now().await;
            }
        });
        let whole = runtime.block_on(body.collect()).unwrap().to_bytes();
        assert_eq!(whole, "one two three");
        let empty = runtime.block_on(flow(|_| async {}).collect()).unwrap().to_bytes();
        assert_eq!(empty, "");
    }

    #[test]
    fn a_flow_that_is_not_read_is_not_made() {
        let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&made);
        let mut body = flow(move |out| async move {
            loop {
                out.send("x").await;
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..10 {
            assert!(runtime.block_on(body.frame()).is_some());
        }
        let made = made.load(std::sync::atomic::Ordering::Relaxed);
        assert!((10..=12).contains(&made), "{made} were made for 10 that were read");
    }
}
