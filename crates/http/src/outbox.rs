//! The small answers of one turn of a worker, written together at its end.
//!
//! A worker that has many requests before it reads them all and then writes all the answers. With 50 clients that
//! was measured to cost less than to change between the two for each; with two it makes an answer some
//! microseconds later (`docs/bench-http.md`). The turn has an end: when so many answers lie here, they go out, so
//! none waits for more than some dozens of others.
//!
//! Not here: what happens to an answer for which a socket has no room (`link.rs`).

use crate::link::Link;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// How many answers may lie here.
const ANSWERS_MAX: usize = 64;
/// The longest that is put here: to copy a longer one costs more than is won.
const ANSWER_BYTES_MAX: usize = 2 << 10;
/// How many bytes may lie here before they go out.
const BYTES_MAX: usize = 32 << 10;

thread_local! {
    static OUTBOX: RefCell<Outbox> = const { RefCell::new(Outbox::EMPTY) };
}

/// Answers of this thread's connections, in the order in which they came.
struct Outbox {
    bytes: Vec<u8>,
    /// To whom, and how many of the bytes.
    answers: Vec<(Arc<Link>, usize)>,
    /// Whoever empties it at the end of the turn; none while it is told.
    waker: Option<Waker>,
    is_attended: bool,
}

impl Outbox {
    const EMPTY: Self = Self { bytes: Vec::new(), answers: Vec::new(), waker: None, is_attended: false };

    fn send(&mut self) {
        let mut start = 0;
        for (link, count) in self.answers.drain(..) {
            let end = start + count;
            link.send(&self.bytes[start..end]);
            start = end;
        }
        self.bytes.clear();
    }
}

/// Empties the outbox of this thread at the end of every turn.
pub(crate) async fn attend() -> Infallible {
    poll_fn(|context| {
        OUTBOX.with_borrow_mut(|outbox| {
            outbox.send();
            outbox.is_attended = true;
            outbox.waker = Some(context.waker().clone());
        });
        Poll::Pending
    })
    .await
}

/// Takes in an answer. False if it is too long, or if nobody would send it.
pub(crate) fn put(link: &Arc<Link>, bytes: &[u8]) -> bool {
    OUTBOX.with_borrow_mut(|outbox| {
        if bytes.len() > ANSWER_BYTES_MAX || !outbox.is_attended {
            return false;
        }
        outbox.bytes.extend_from_slice(bytes);
        match outbox.answers.last_mut() {
            // To requests that came together: they are answered together.
            Some((last, count)) if Arc::ptr_eq(last, link) => *count += bytes.len(),
            _ => outbox.answers.push((Arc::clone(link), bytes.len())),
        }
        if outbox.answers.len() == ANSWERS_MAX || outbox.bytes.len() >= BYTES_MAX {
            outbox.send();
        } else if let Some(waker) = outbox.waker.take() {
            // Behind those that are ready now.
            waker.wake();
        }
        true
    })
}

/// Sends what there is now.
pub(crate) fn send() {
    OUTBOX.with_borrow_mut(Outbox::send);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::socket::Socket;
    use crate::visit::Peer;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use tokio::task::yield_now;

    /// A connection and its other end.
    fn link() -> (Arc<Link>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let entry = Clients::new(10, 10).open(Peer::Unix, true).unwrap();
        (Arc::new(Link::new(Socket::Unix(ours), Arc::clone(entry.client())).unwrap()), theirs)
    }

    /// What has come by now.
    fn come(stream: &mut UnixStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        // It ends with an error, since there is nothing more and the other end is open.
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }

    /// On a thread of its own, as every worker: the outbox is the thread's.
    fn on_a_worker<F: Future<Output = ()>>(act: impl FnOnce() -> F + Send + 'static) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        std::thread::spawn(move || runtime.block_on(act())).join().unwrap();
    }

    #[test]
    fn answers_of_a_turn_go_out_at_its_end_each_to_its_own_client() {
        on_a_worker(|| async {
            let ((one, mut first), (two, mut second)) = (link(), link());
            assert!(!put(&one, b"nobody would send it"));
            tokio::spawn(attend());
            yield_now().await;
            assert!(put(&one, b"a") && put(&two, b"b") && put(&one, b"c") && put(&one, b"d"));
            assert_eq!((come(&mut first), come(&mut second)), (vec![], vec![]), "the turn goes on");
            yield_now().await;
            assert_eq!((come(&mut first), come(&mut second)), (b"acd".to_vec(), b"b".to_vec()));
            assert_eq!(Arc::strong_count(&one), 1, "nothing is left of it");
            assert!(!put(&one, &[0; ANSWER_BYTES_MAX + 1]), "too long");
        });
    }

    #[test]
    fn a_long_turn_does_not_hold_answers_back() {
        on_a_worker(|| async {
            tokio::spawn(attend());
            yield_now().await;
            let mut links: Vec<_> = (0..ANSWERS_MAX).map(|_| link()).collect();
            assert!(links.iter().all(|(link, _)| put(link, b"x")));
            assert!(links.iter_mut().all(|(_, client)| come(client) == b"x"), "as many as may lie here");
            let (link, client) = &mut links[0];
            let answer = [b'y'; ANSWER_BYTES_MAX];
            assert!((0..BYTES_MAX / ANSWER_BYTES_MAX).all(|_| put(link, &answer)));
            assert_eq!(come(client).len(), BYTES_MAX, "as many bytes as may lie here");
        });
    }

    #[test]
    fn what_there_is_no_room_for_is_kept_in_order_and_written_when_there_is() {
        on_a_worker(|| async {
            tokio::spawn(attend());
            yield_now().await;
            let (link, mut client) = link();
            let answer: Vec<u8> = (0..=u8::MAX).cycle().take(ANSWER_BYTES_MAX - 1).collect();
            let mut count = 0;
            while !link.has_rest() {
                assert!(put(&link, &answer));
                count += 1;
                send();
            }
            assert!(put(&link, b"the last"));
            send();
            let mut read = Vec::new();
            while link.has_rest() {
                read.extend(come(&mut client));
                // Other tasks have their turn, so that the selector is asked.
                yield_now().await;
                poll_fn(|context| {
                    let written = link.poll_rest(context);
                    assert!(!matches!(written, Poll::Ready(Err(_))));
                    Poll::Ready(())
                })
                .await;
            }
            read.extend(come(&mut client));
            assert_eq!(read, [answer.repeat(count), b"the last".to_vec()].concat());
        });
    }
}
