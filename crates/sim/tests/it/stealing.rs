//! Stealing makes any choice of workers nearly as good as one queue for all.
//!
//! While nobody idles next to a task that waits, the mean wait is that of one queue, whatever the order in which tasks
//! are taken: Erlang C holds for it too. So this also shows that the stealing policy never sends an idle thief away.

use crate::theory::mmc_wait;
use millpond_policy::steal::{StealSettings, StealSize};
use millpond_sim::{Scenario, simulate};
use std::time::Duration;

fn scenario(strategy: &str) -> Scenario {
    let strategy = strategy.into();
    Scenario { workers: 8, load: 0.8, tasks: 5_000_000, seed: 2, strategy, ..Scenario::default() }
}

#[test]
fn with_stealing_a_bad_choice_waits_no_longer_than_one_queue() {
    let theory = mmc_wait(8, 0.8);
    for strategy in ["random", "round-robin"] {
        let stealing = Some(StealSettings::default());
        let outcome = simulate(&Scenario { stealing, ..scenario(strategy) }).unwrap();
        let measured = outcome.wait_mean_ns / 1e6;
        assert!((measured / theory - 1.0).abs() < 0.03, "{strategy}: {measured}, by theory {theory}");
        assert!(outcome.robberies > 0 && outcome.stolen >= outcome.robberies, "{strategy}");
    }
    let without = simulate(&Scenario { tasks: 200_000, ..scenario("random") }).unwrap();
    assert!(without.wait_mean_ns / 1e6 > 8.0 * theory, "{}", without.wait_mean_ns);
    assert_eq!((without.robberies, without.stolen), (0, 0));
}

#[test]
fn sizes_and_cooldowns_move_more_or_fewer_tasks_and_none_is_left_behind() {
    let run = |size, cooldown| {
        let stealing = Some(StealSettings { size, cooldown, ..StealSettings::default() });
        simulate(&Scenario { stealing, tasks: 200_000, ..scenario("random") }).unwrap()
    };
    let one = run(StealSize::One, Duration::ZERO);
    assert_eq!(one.robberies, one.stolen, "one at a time");
    let half = run(StealSize::Half, Duration::ZERO);
    assert!(half.stolen > half.robberies && half.robberies < one.robberies);
    let calm = run(StealSize::Half, Duration::from_secs(3600));
    assert!(
        calm.stolen * half.robberies < half.stolen * calm.robberies,
        "smaller robberies while it cools down"
    );
    let (low, high) = (one.wait_mean_ns.min(calm.wait_mean_ns), one.wait_mean_ns.max(calm.wait_mean_ns));
    assert!(high / low < 1.02, "a cooldown keeps nobody waiting: {low} {high}");
}

#[test]
fn one_queue_for_all_leaves_nothing_to_steal() {
    let outcome =
        simulate(&Scenario { stealing: Some(StealSettings::default()), tasks: 50_000, ..scenario("shared") });
    assert_eq!(outcome.unwrap().robberies, 0);
}
