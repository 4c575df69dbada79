//! Every interleaving of creating and attaching: there is no region, or there is a whole one.
//!
//! The magic number is written last and read first; a header with blank fields must never pass for a region.

use super::error::RegionError;
use super::v1::{Queue, model_memory};
use crate::model::explore;
use crate::sync::thread;
use alloc::sync::Arc;

#[test]
fn an_attacher_sees_no_region_or_a_whole_one() {
    explore(3, || {
        let memory = Arc::new(model_memory(1));
        let attached = Arc::clone(&memory);
        let attacher = thread::spawn(move || match Queue::attach(attached) {
            Ok(queue) => assert_eq!(queue.allocate(), Ok(0)),
            Err(refusal) => assert_eq!(refusal, RegionError::InvalidMagic { found: 0 }),
        });
        Queue::create(memory, 1).unwrap();
        attacher.join().unwrap();
    });
}
