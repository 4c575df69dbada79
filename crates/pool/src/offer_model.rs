//! Models of an offer: it is run once, by its taker or by its owner, and the owner gets what the taker left.
//!
//! The frame is a watched cell, as a joiner's is not: who touches it out of turn is reported as a race.

use crate::model::{Parcel, explore};
use crate::offer::Offer;
use crate::sync::{Arc, UnsafeCell, thread};

/// An owner's frame: an offer, and room for what comes of it.
struct Frame {
    offer: Offer,
    outcome: UnsafeCell<Option<Parcel>>,
}

// SAFETY: as in `join.rs`: the room belongs to whoever wins the claim, and to the owner after `finish`.
unsafe impl Sync for Frame {}

impl Frame {
    fn leave(&self, number: u32) {
        // SAFETY: the caller has won the claim, so the room is its own.
        self.outcome.with_mut(|outcome| unsafe { *outcome = Some(Parcel::new(number)) });
    }
}

#[test]
fn an_offer_is_run_by_its_owner_or_by_its_taker_and_its_outcome_arrives() {
    explore(3, || {
        let frame = Arc::new(Frame { offer: Offer::new(), outcome: UnsafeCell::new(None) });
        let takers_view = Arc::clone(&frame);
        let taker = thread::spawn(move || {
            if takers_view.offer.claim() {
                takers_view.leave(1);
                takers_view.offer.finish();
            }
        });
        let ran_by = if frame.offer.claim() {
            frame.leave(2);
            2
        } else {
            while !frame.offer.is_done() {
                frame.offer.wait(None);
            }
            1
        };
        // SAFETY: the owner has run it itself, or has seen that the taker is done.
        let outcome = frame.outcome.with_mut(|outcome| unsafe { (*outcome).take() });
        assert_eq!(outcome.expect("somebody ran it").open(), ran_by);
        taker.join().unwrap();
    });
}

#[test]
fn an_owner_that_sleeps_is_woken() {
    explore(3, || {
        let offer = Arc::new(Offer::new());
        assert!(offer.claim());
        let takers_view = Arc::clone(&offer);
        let taker = thread::spawn(move || takers_view.finish());
        while !offer.is_done() {
            offer.wait(None);
        }
        taker.join().unwrap();
    });
}
