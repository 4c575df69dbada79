//! `Gate` while it is open: the cases of the specification of the connection queue, waiting with and without a limit,
//! and what it tells about itself.
//!
//! The specification's own queue reported a full queue as empty, woke no producers, and could not tell a time-out from
//! an end. Each of those is a test here or in `gate_close.rs`.

use crate::eventually::{Sleeper, eventually};
use millpond_queue::{CAPACITY_MAX, CapacityError, Gate, GateConfig, NoValue, Refusal};
use std::thread;
use std::time::Duration;

fn gate(capacity: usize) -> Gate<usize> {
    Gate::with_capacity(capacity).unwrap()
}

fn fill(gate: &Gate<usize>) {
    for value in 0..gate.capacity() {
        assert_eq!(gate.try_enqueue(value), Ok(()));
    }
}

#[test]
fn what_goes_in_comes_out() {
    let gate = Gate::start(GateConfig::default()).unwrap();
    assert_eq!(gate.capacity(), 100);
    assert_eq!(gate.try_enqueue(10), Ok(()));
    assert_eq!(gate.dequeue(), Some(10));
    assert_eq!(gate.len(), 0);
}

#[test]
fn a_hundred_fit_and_the_next_is_handed_back() {
    let gate = gate(100);
    fill(&gate);
    assert_eq!(gate.try_enqueue(100), Err(Refusal::Full(100)));
    assert_eq!((gate.len(), gate.is_full()), (100, true), "a full gate says so");
}

#[test]
fn a_value_is_made_in_its_place_only_if_there_is_one() {
    let gate = gate(2);
    let mut made = 0;
    let answers = [7, 8, 9].map(|seed| {
        gate.enqueue_at_once(seed, |seed| {
            made += 1;
            seed * 10
        })
    });
    assert_eq!(answers, [Ok(()), Ok(()), Err(9)], "what is not made is handed back as it came");
    assert_eq!(made, 2);
    assert_eq!((gate.dequeue(), gate.dequeue(), gate.len()), (Some(70), Some(80), 0));
    gate.close();
    assert_eq!(gate.enqueue_at_once(10, |_| unreachable!("a closed gate makes nothing")), Err(10));
}

#[test]
fn a_consumer_that_sleeps_is_woken_for_a_value_that_was_handed_back_and_came_again() {
    let gate = gate(2);
    let sleeper = Sleeper::default();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            sleeper.about_to_sleep();
            gate.dequeue()
        });
        eventually("the consumer sleeps", || sleeper.is_asleep());
        // The quick way leaves sleepers to the slow one.
        let Err(seed) = gate.enqueue_at_once(5, |seed| seed) else { panic!("a sleeper is owed a wake-up") };
        assert_eq!(gate.try_enqueue(seed), Ok(()));
        assert_eq!(consumer.join().unwrap(), Some(5));
    });
}

#[test]
fn values_keep_their_order_around_the_end_of_the_slots() {
    let gate = gate(100);
    fill(&gate);
    for value in 0..50 {
        assert_eq!(gate.dequeue(), Some(value));
    }
    for value in 100..150 {
        assert_eq!(gate.try_enqueue(value), Ok(()));
    }
    assert_eq!((gate.len(), gate.is_full()), (100, true));
    for value in 50..150 {
        assert_eq!(gate.dequeue(), Some(value));
    }
    assert_eq!(gate.try_dequeue(), Err(NoValue::Empty));
}

#[test]
fn any_capacity_is_honoured_exactly_and_len_is_right_at_every_level() {
    for capacity in [1, 2, 3, 100, 1000] {
        let gate = gate(capacity);
        for lap in 0..3 {
            for value in 0..capacity {
                assert_eq!(gate.len(), value, "of {capacity} in lap {lap}");
                assert_eq!(gate.try_enqueue(value), Ok(()));
            }
            assert_eq!((gate.len(), gate.is_full(), gate.is_empty()), (capacity, true, false));
            assert_eq!(gate.try_enqueue(9), Err(Refusal::Full(9)));
            for value in 0..capacity {
                assert_eq!(gate.try_dequeue(), Ok(value));
            }
            assert_eq!((gate.len(), gate.is_full(), gate.is_empty()), (0, false, true));
        }
    }
}

#[test]
fn a_capacity_out_of_range_is_refused_in_words() {
    let refusal = |capacity| Gate::<u8>::with_capacity(capacity).unwrap_err();
    assert_eq!(refusal(0).to_string(), "capacity: expected 1 to 67108864, got 0");
    assert_eq!(refusal(CAPACITY_MAX + 1), CapacityError::TooLarge { asked: CAPACITY_MAX + 1 });
    assert_eq!(refusal(usize::MAX), CapacityError::TooLarge { asked: usize::MAX });
}

#[test]
fn a_wait_that_runs_out_hands_the_value_back() {
    for spins in [0, 20] {
        let gate = Gate::start(GateConfig { capacity: 1, spins, ..GateConfig::default() }).unwrap();
        for wait in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(5)] {
            assert_eq!(gate.dequeue_timeout(wait), Err(NoValue::TimedOut));
        }
        assert_eq!(gate.enqueue_timeout(1, Duration::ZERO), Ok(()), "room now is room in time");
        for wait in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(5)] {
            assert_eq!(gate.enqueue_timeout(2, wait), Err(Refusal::TimedOut(2)));
        }
        assert_eq!(gate.dequeue_timeout(Duration::ZERO), Ok(1), "a value now is a value in time");
    }
}

#[test]
fn sleepers_whose_time_ran_out_leave_nothing_behind() {
    // A time-out takes the sleeper off the word; a wake-up that was already on its way must not go astray.
    let gate = Gate::start(GateConfig { capacity: 1, spins: 0, ..GateConfig::default() }).unwrap();
    let passed = 2_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            for value in 0..passed {
                let mut value = value;
                while let Err(refusal) = gate.enqueue_timeout(value, Duration::from_micros(20)) {
                    assert!(matches!(refusal, Refusal::TimedOut(_)));
                    value = refusal.into_inner();
                }
            }
        });
        for expected in 0..passed {
            let taken = loop {
                match gate.dequeue_timeout(Duration::from_micros(20)) {
                    Ok(value) => break value,
                    Err(reason) => assert_eq!(reason, NoValue::TimedOut),
                }
            };
            assert_eq!(taken, expected);
        }
    });
    // Nobody is left on the words, so nobody is owed anything: the gate works as new.
    assert_eq!(gate.try_enqueue(7), Ok(()));
    assert_eq!(gate.enqueue_timeout(8, Duration::from_millis(1)), Err(Refusal::TimedOut(8)));
    assert_eq!(gate.dequeue(), Some(7));
    assert_eq!(gate.dequeue_timeout(Duration::from_millis(1)), Err(NoValue::TimedOut));
}

#[test]
fn a_wait_of_all_eternity_is_a_wait_without_limit() {
    let gate = gate(1);
    let sleeper = Sleeper::default();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            sleeper.about_to_sleep();
            gate.dequeue_timeout(Duration::MAX)
        });
        eventually("the consumer sleeps", || sleeper.is_asleep());
        assert_eq!(gate.enqueue_timeout(5, Duration::MAX), Ok(()));
        assert_eq!(consumer.join().unwrap(), Ok(5));
    });
}

#[test]
fn a_sleeping_consumer_gets_the_value_and_a_sleeping_producer_the_room() {
    for spins in [0, 20] {
        let gate = Gate::start(GateConfig { capacity: 1, spins, ..GateConfig::default() }).unwrap();
        let sleeper = Sleeper::default();
        thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                sleeper.about_to_sleep();
                gate.dequeue()
            });
            eventually("the consumer sleeps", || sleeper.is_asleep());
            assert_eq!(gate.enqueue(1), Ok(()));
            assert_eq!(consumer.join().unwrap(), Some(1));
        });
        let sleeper = Sleeper::default();
        assert_eq!(gate.enqueue(2), Ok(()));
        thread::scope(|scope| {
            let producer = scope.spawn(|| {
                sleeper.about_to_sleep();
                gate.enqueue(3)
            });
            eventually("the producer sleeps", || sleeper.is_asleep());
            assert_eq!(gate.dequeue(), Some(2));
            assert_eq!(producer.join().unwrap(), Ok(()));
        });
        assert_eq!(gate.dequeue(), Some(3));
    }
}

#[test]
fn every_value_passes_once_and_in_its_producers_order() {
    const EACH: usize = 20_000;
    const STRIDE: usize = 1 << 32;
    for (capacity, spins) in [(1, 0), (3, 20), (100, 20)] {
        let gate = Gate::start(GateConfig { capacity, spins, ..GateConfig::default() }).unwrap();
        let each = if capacity == 1 { EACH / 10 } else { EACH };
        let taken: Vec<Vec<usize>> = thread::scope(|scope| {
            let gate = &gate;
            let take = move || std::iter::from_fn(|| gate.dequeue()).collect::<Vec<usize>>();
            let consumers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let put = move |producer| {
                (0..each).for_each(|number| gate.enqueue(producer * STRIDE + number).unwrap())
            };
            let producers: Vec<_> = (0..4).map(|producer| scope.spawn(move || put(producer))).collect();
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            gate.close();
            consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
        });
        for values in &taken {
            for producer in 0..4 {
                assert!(
                    values.iter().filter(|value| **value / STRIDE == producer).is_sorted(),
                    "out of order"
                );
            }
        }
        let mut all: Vec<usize> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        let expected = (0..4).flat_map(|producer| (0..each).map(move |number| producer * STRIDE + number));
        assert!(all.into_iter().eq(expected), "lost or doubled");
        let stats = gate.stats();
        assert_eq!((stats.enqueued, stats.dequeued, stats.len), (4 * each as u64, 4 * each as u64, 0));
        assert!((1..=capacity).contains(&stats.len_max));
    }
}

#[test]
fn the_high_water_mark_is_the_most_that_ever_waited() {
    let gate = gate(10);
    let len_max = || gate.stats().len_max;
    assert_eq!(len_max(), 0);
    for lap in 0..20 {
        // Always two or three waiting, at every place of the slots.
        assert_eq!(gate.try_enqueue(lap), Ok(()));
        if lap >= 2 {
            assert_eq!(gate.try_dequeue(), Ok(lap - 2));
        }
    }
    assert_eq!((len_max(), gate.len()), (3, 2));
    for value in 0..5 {
        assert_eq!(gate.try_enqueue(value), Ok(()));
    }
    assert_eq!(len_max(), 7);
    while gate.try_dequeue().is_ok() {}
    assert_eq!(gate.try_enqueue(1), Ok(()));
    assert_eq!(len_max(), 7, "it never goes down");
    for value in 1..10 {
        assert_eq!(gate.try_enqueue(value), Ok(()));
    }
    assert!(gate.try_enqueue(10).is_err());
    assert_eq!(len_max(), 10);
}

#[test]
fn what_passes_and_what_is_turned_away_is_counted() {
    let gate = gate(3);
    for value in 0..10 {
        let _ = gate.try_enqueue(value);
    }
    assert_eq!(gate.enqueue_timeout(10, Duration::ZERO), Err(Refusal::TimedOut(10)));
    assert_eq!(gate.try_dequeue(), Ok(0));
    let stats = gate.stats();
    assert_eq!((stats.enqueued, stats.dequeued, stats.rejected), (3, 1, 7));
    assert_eq!((stats.len, stats.capacity, stats.len_max), (2, 3, 3));
    gate.close();
    assert_eq!(gate.try_enqueue(11), Err(Refusal::Closed(11)));
    assert_eq!(gate.stats().rejected, 7, "closed is not full");
}

#[test]
fn waits_are_measured_as_often_as_asked_for() {
    let passed = 64;
    for (measure_every, expected) in [(1, 64), (2, 32), (32, 2), (0, 0)] {
        let gate = Gate::start(GateConfig { capacity: 64, measure_every, ..GateConfig::default() }).unwrap();
        for value in 0..passed {
            assert_eq!(gate.try_enqueue(value), Ok(()));
        }
        assert_eq!(gate.stats().waits_measured, 0, "a wait is measured when it ends");
        while gate.try_dequeue().is_ok() {}
        let stats = gate.stats();
        assert_eq!(stats.waits_measured, expected, "one in {measure_every}");
        assert!(stats.wait_mean <= stats.wait_max);
        assert_eq!(stats.wait_max > Duration::ZERO, expected > 0);
    }
}

#[test]
fn every_wait_is_measured_while_somebody_sleeps() {
    let config = GateConfig { capacity: 8, spins: 0, measure_every: 1 << 20 };
    let gate = Gate::start(config).unwrap();
    assert_eq!(gate.try_enqueue(0), Ok(()));
    assert_eq!(gate.try_dequeue(), Ok(0));
    let before = gate.stats().waits_measured;
    for value in 1..=5 {
        let sleeper = Sleeper::default();
        thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                sleeper.about_to_sleep();
                gate.dequeue()
            });
            eventually("the consumer sleeps", || sleeper.is_asleep());
            assert_eq!(gate.enqueue(value), Ok(()));
            assert_eq!(consumer.join().unwrap(), Some(value));
        });
    }
    if cfg!(target_os = "linux") {
        assert_eq!(gate.stats().waits_measured - before, 5);
    }
}

#[test]
fn refusals_say_what_to_do() {
    assert_eq!(Refusal::Full(1).to_string(), "gate is full; try again later or raise its capacity");
    assert_eq!(
        Refusal::TimedOut(1).to_string(),
        "gate stayed full for the whole wait; try again later or raise its capacity"
    );
    assert_eq!(Refusal::Closed(1).to_string(), "gate is closed; it takes nothing more");
    assert_eq!(NoValue::Empty.to_string(), "gate is empty");
    assert_eq!(NoValue::TimedOut.to_string(), "gate stayed empty for the whole wait");
    assert_eq!(NoValue::Closed.to_string(), "gate is closed and drained");
}
