//! One task at a time for each unique key: a second request is given the first one's task, until that has ended.
//!
//! This is how a job that is asked for every minute and may take two is never run beside itself.

use crate::toys::{Mill, Scribe, ended, small};
use millpond_tasks::{ErrorCode, Submit, Wants};
use std::sync::{Arc, Barrier};
use std::thread;

const UNIQUE: &str = r#"{"handler":"hold","unique_key":"nightly"}"#;

#[test]
fn while_a_task_has_the_key_others_are_given_that_task_and_after_its_end_the_key_is_free() {
    let mill = Mill::start(small());
    let first = mill.accept(UNIQUE);
    assert!(first.is_new);
    for text in [UNIQUE, r#"{"handler":"echo","args":{"n":1},"unique_key":"nightly","task_id":7}"#] {
        let again = mill.accept(text);
        assert!(!again.is_new && Arc::ptr_eq(&again.task, &first.task), "{text}");
    }
    assert_eq!(
        (mill.handle.stats().unique_keys, first.task.detail().unique_key.as_deref()),
        (1, Some("nightly"))
    );
    mill.call().finish_with_args();
    ended(&first.task);
    let second = mill.accept(UNIQUE);
    assert!(second.is_new && !Arc::ptr_eq(&second.task, &first.task));
    mill.handle.cancel(second.task.id()).unwrap();
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.unique_keys), (2, 0));
}

#[test]
fn whoever_comes_second_is_told_of_the_end() {
    let mill = Mill::start(small());
    let first = mill.submit(UNIQUE);
    let scribe = Scribe::new();
    let how = Submit { reader: Some(scribe.reader(3, Wants::Result)), keep: false, ..Submit::default() };
    let again = mill.handle.submit(UNIQUE.as_bytes(), how).unwrap();
    assert!(again.watching.is_some());
    mill.call().finish_with_args();
    ended(&first);
    crate::toys::until("the second is told", || scribe.count(3) == 1);
    mill.settle();
}

#[test]
fn an_idempotency_key_beside_it_stands_for_the_task_that_was_given() {
    let mill = Mill::start(small());
    let first = mill.submit(UNIQUE);
    let both = r#"{"handler":"hold","unique_key":"nightly","idempotency_key":"k"}"#;
    assert!(Arc::ptr_eq(&mill.accept(both).task, &first));
    mill.call().finish_with_args();
    ended(&first);
    let again = mill.accept(both);
    assert!(!again.is_new && Arc::ptr_eq(&again.task, &first), "the unique key is free, the other is not");
    mill.settle();
}

#[test]
fn a_task_that_found_no_room_leaves_its_key_behind() {
    let mut config = small();
    config.tasks_max = 1;
    let mill = Mill::start(config);
    let plugs = mill.plug();
    assert_eq!(mill.refuse(UNIQUE).failure.code, ErrorCode::QueueFull);
    assert_eq!(mill.handle.stats().unique_keys, 0);
    mill.unplug();
    ended(&plugs[0]);
    mill.settle();
}

#[test]
fn of_many_that_come_at_once_one_is_new() {
    let mill = Mill::start(small());
    let barrier = Barrier::new(8);
    let new: usize = thread::scope(|scope| {
        let submit = || {
            barrier.wait();
            usize::from(mill.accept(UNIQUE).is_new)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(submit)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(new, 1);
    mill.call().finish_with_args();
    mill.settle();
}
