//! What every strategy promises of any picture, and what each one promises of many choices in a row.
//!
//! Pictures and events are random: workers come, go and change their state, with and without the strategy
//! being told. A failed run prints its seed; `MILLPOND_SEED` repeats it.

use millpond_policy::Moment;
use millpond_policy::choose::{
    Choose, FairShare, InterleavedWeighted, LeastUtilised, RoundRobin, WeightedRoundRobin,
};
use millpond_policy::registry::{STRATEGIES, by_name};
use millpond_policy::view::{TaskView, Views, WorkerState, WorkerView};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers for the tests; the constants are Knuth's.
struct Chance(u64);

impl Chance {
    /// From `MILLPOND_SEED`, or new for every run; printed, so that a failure can be repeated.
    fn seeded() -> Self {
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        let given = std::env::var("MILLPOND_SEED").ok();
        let seed = given.map_or_else(clock, |seed| seed.parse().expect("MILLPOND_SEED: expected a number"));
        println!("MILLPOND_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn state(&mut self) -> WorkerState {
        use WorkerState::{Busy, Cold, Ready, Terminated, Terminating, Warming};
        [Ready, Busy, Busy, Cold, Warming, Terminating, Terminated][self.below(7) as usize]
    }

    /// A worker with any figures, now and then with those at the end of the numbers.
    fn worker(&mut self, id: u32) -> WorkerView {
        let mut figure = |usual: u64| match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => self.below(usual),
        };
        WorkerView {
            id,
            running: figure(3) as u32,
            queued: figure(9) as u32,
            completed: figure(1_000),
            run_total_ns: figure(1_000_000_000),
            run_mean_ns: figure(1_000_000),
            utilisation: figure(10_000) as u16,
            weight: figure(5) as u32,
            state: self.state(),
            idle_since: Moment::ZERO,
        }
    }
}

fn ready(workers: u32) -> Views {
    let mut views = Views::default();
    for id in 0..workers {
        views.push(WorkerView { id, state: WorkerState::Ready, ..WorkerView::default() });
    }
    views
}

fn announce(strategy: &mut dyn Choose, workers: &Views) {
    workers.rows().for_each(|worker| strategy.worker_added(&worker, Moment::ZERO));
}

/// One change of the crew. The strategy is told of most of them, and not of all.
fn change(
    chance: &mut Chance,
    crew: &mut Vec<WorkerView>,
    strategy: &mut dyn Choose,
    id: &mut u32,
    now: Moment,
) {
    let is_told = chance.below(4) != 0;
    let somebody = chance.below(crew.len().max(1) as u64) as usize;
    match chance.below(8) {
        0 | 1 if crew.len() < 200 => {
            let worker = chance.worker(*id);
            *id += 1;
            crew.insert(somebody.min(crew.len()), worker);
            if is_told {
                strategy.worker_added(&worker, now);
            }
        }
        2 if !crew.is_empty() => {
            let gone = crew.remove(somebody);
            if is_told {
                strategy.worker_removed(gone.id);
            }
        }
        3 if !crew.is_empty() => crew.rotate_left(somebody),
        4 if chance.below(20) == 0 => strategy.reset(),
        5 if chance.below(20) == 0 => crew.clear(),
        _ if !crew.is_empty() => crew[somebody] = chance.worker(crew[somebody].id),
        _ => {}
    }
}

#[test]
fn whoever_is_chosen_takes_tasks_and_somebody_is_if_anybody_does_without_allocating() {
    let mut chance = Chance::seeded();
    for known in STRATEGIES {
        for _ in 0..20 {
            let mut strategy = by_name(known.name, chance.below(u64::MAX >> 1)).expect("a known strategy");
            let (mut crew, mut id, mut now) = (Vec::new(), 0, Moment::ZERO);
            for _ in 0..400 {
                change(&mut chance, &mut crew, strategy.as_mut(), &mut id, now);
                now = Moment::from_nanos(now.as_nanos() + chance.below(50_000_000));
                let mut workers = Views::default();
                crew.iter().for_each(|worker| workers.push(*worker));
                let mut choice = None;
                let memory = allocation_counter::measure(|| {
                    choice = strategy.choose(&workers, &TaskView::default(), now);
                });
                assert_eq!(memory.count_total, 0, "{} allocates", known.name);
                let anybody = crew.iter().any(|worker| worker.state.takes_tasks());
                assert_eq!(choice.is_some(), anybody, "{}: {choice:?} of {crew:?}", known.name);
                if let Some(choice) = choice {
                    let chosen = crew[choice.at];
                    assert!(chosen.state.takes_tasks(), "{}: chose {chosen:?}", known.name);
                    assert_eq!(chosen.id, choice.worker, "{}: place and number differ", known.name);
                }
            }
        }
    }
}

#[test]
fn a_large_crew_that_changes_is_chosen_from_without_allocating() {
    let mut chance = Chance::seeded();
    for (known, is_told) in STRATEGIES.iter().flat_map(|known| [(known, true), (known, false)]) {
        let mut strategy = by_name(known.name, 3).expect("a known strategy");
        let mut workers = ready(1_000);
        if is_told {
            announce(strategy.as_mut(), &workers);
        }
        for step in 0..2_000_u64 {
            let (at, row) = (chance.below(1_000) as usize, chance.worker(0));
            workers.set_run_time(at, row.run_total_ns, row.run_mean_ns);
            workers.set_load(at, row.running, row.queued);
            if step % 100 == 0 {
                // From now on another picture is shown, which looks the same.
                workers = workers.clone();
            }
            let now = Moment::from_nanos(step * 100_000);
            let mut choice = None;
            let memory = allocation_counter::measure(|| {
                choice = strategy.choose(&workers, &TaskView::default(), now);
            });
            assert_eq!(memory.count_total, 0, "{} allocates", known.name);
            let at = choice.expect("all are ready").at;
            workers.set_load(at, 1, workers.load()[at]);
        }
    }
}

#[test]
fn a_picture_with_room_grows_without_allocating() {
    let mut workers = Views::with_capacity(1_000);
    let memory = allocation_counter::measure(|| {
        for id in 0..1_000 {
            workers.push(WorkerView { id, ..WorkerView::default() });
        }
    });
    assert_eq!((workers.len(), memory.count_total), (1_000, 0));
}

#[test]
fn the_same_seed_and_pictures_give_the_same_choices() {
    let mut chance = Chance::seeded();
    let mut workers = Views::default();
    (0..50).for_each(|id| workers.push(chance.worker(id)));
    workers.set_state(0, WorkerState::Ready);
    let choices = |strategy: &mut dyn Choose| -> Vec<u32> {
        announce(strategy, &workers);
        let one =
            |at: u64| strategy.choose(&workers, &TaskView::default(), Moment::from_nanos(at * 1_000_000));
        (0..200_u64).map(one).map(|choice| choice.expect("one is ready").worker).collect()
    };
    for known in STRATEGIES {
        let mut strategy = by_name(known.name, 7).expect("a known strategy");
        let first = choices(strategy.as_mut());
        strategy.reset();
        assert_eq!(choices(strategy.as_mut()), first, "{}: a reset begins anew", known.name);
        assert_eq!(choices(by_name(known.name, 7).expect("known").as_mut()), first, "{}", known.name);
    }
}

#[test]
fn round_robin_is_even_over_those_that_take_tasks() {
    let mut chance = Chance::seeded();
    for workers in 1..40 {
        let mut views = ready(workers);
        (1..workers as usize).for_each(|at| views.set_state(at, chance.state()));
        let mut counts = vec![0_u32; workers as usize];
        let mut strategy = RoundRobin::new();
        for _ in 0..500 {
            let choice = strategy.choose(&views, &TaskView::default(), Moment::ZERO);
            counts[choice.expect("the first is ready").at] += 1;
            let taking = || (0..workers as usize).filter(|at| views.takes_tasks(*at)).map(|at| counts[at]);
            let (fewest, most) = (taking().min().expect("one"), taking().max().expect("one"));
            assert!(most - fewest <= 1, "{fewest} to {most} tasks");
        }
    }
}

/// Who is chosen in how many choices, one after the other.
fn row(strategy: &mut dyn Choose, workers: &Views, choices: u32) -> Vec<usize> {
    let one = |_| strategy.choose(workers, &TaskView::default(), Moment::ZERO);
    (0..choices).map(one).map(|choice| choice.expect("all are ready").at).collect()
}

#[test]
fn weights_are_kept_exactly_in_every_round() {
    let mut chance = Chance::seeded();
    for _ in 0..200 {
        let mut workers = ready(1 + chance.below(30) as u32);
        (0..workers.len()).for_each(|at| workers.set_weight(at, 1 + chance.below(40) as u32));
        let round: u32 = workers.weights().iter().sum();
        let strategies: [Box<dyn Choose>; 2] =
            [Box::new(WeightedRoundRobin::new()), Box::new(InterleavedWeighted::new())];
        for mut strategy in strategies {
            announce(strategy.as_mut(), &workers);
            for _ in 0..3 {
                let mut counts = vec![0; workers.len()];
                row(strategy.as_mut(), &workers, round).into_iter().for_each(|at| counts[at] += 1);
                assert_eq!(counts, workers.weights(), "{}", strategy.name());
            }
        }
    }
}

/// The most choices of the same worker in a row.
fn longest_run(row: &[usize]) -> usize {
    row.chunk_by(|one, next| one == next).map(<[usize]>::len).max().unwrap_or(0)
}

#[test]
fn interleaving_leaves_no_bursts_where_turns_in_a_row_do() {
    // One worker does half of the work, a hundred do the other half: its tasks should come every second time.
    let mut workers = ready(101);
    (0..101).for_each(|at| workers.set_weight(at, if at == 50 { 100 } else { 1 }));
    let in_a_row = row(&mut WeightedRoundRobin::new(), &workers, 400);
    assert_eq!(longest_run(&in_a_row), 100);
    let interleaved = row(&mut InterleavedWeighted::new(), &workers, 400);
    assert!(longest_run(&interleaved) <= 2, "{interleaved:?}");
}

/// A crew that really runs its tasks, one after the other at each worker, in simulated time.
struct Mill {
    workers: Views,
    /// What each worker is to run, the first of them now, with what is left of that.
    queues: Vec<Vec<u64>>,
    now_ns: u64,
}

impl Mill {
    fn new(workers: u32) -> Self {
        Self { workers: ready(workers), queues: vec![Vec::new(); workers as usize], now_ns: 0 }
    }

    /// Lets time pass, which every worker spends on its tasks.
    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for (at, queue) in self.queues.iter_mut().enumerate() {
            let mut left = ns;
            let mut ran = 0;
            while let Some(task) = queue.first_mut() {
                let step = left.min(*task);
                (left, ran, *task) = (left - step, ran + step, *task - step);
                if *task > 0 {
                    break;
                }
                queue.remove(0);
            }
            let total = self.workers.run_total_ns()[at] + ran;
            self.workers.set_run_time(at, total, 1_000_000);
            self.workers.set_load(at, u32::from(!queue.is_empty()), queue.len().saturating_sub(1) as u32);
        }
    }

    fn give(&mut self, strategy: &mut dyn Choose, task_ns: u64) -> usize {
        let now = Moment::from_nanos(self.now_ns);
        let at = strategy.choose(&self.workers, &TaskView::default(), now).expect("all are ready").at;
        self.queues[at].push(task_ns);
        self.pass(0);
        at
    }

    /// The most run time of a worker against the least, in per cent.
    fn spread(&self) -> u64 {
        let totals = self.workers.run_total_ns();
        let (least, most) = (totals.iter().min().expect("one"), totals.iter().max().expect("one"));
        most * 100 / least.max(&1)
    }
}

/// Four workers get a task every 5 ms for 60 s; every fourth takes 16 ms, the others 100 µs.
fn spread_of(strategy: &mut dyn Choose) -> u64 {
    let mut mill = Mill::new(4);
    announce(strategy, &mill.workers);
    for task in 0..12_000 {
        mill.give(strategy, if task % 4 == 0 { 16_000_000 } else { 100_000 });
        mill.pass(5_000_000);
    }
    mill.spread()
}

#[test]
fn fair_share_gives_equal_time_where_turns_give_equal_numbers() {
    // Turns give all long tasks to the same worker.
    assert!(spread_of(&mut RoundRobin::new()) > 5_000);
    let spread = spread_of(&mut FairShare::new());
    assert!(spread < 105, "the busiest worker ran for {spread} % of the time of the idlest");
}

#[test]
fn one_long_task_is_not_held_against_a_worker_for_ever() {
    let mut mill = Mill::new(2);
    let mut strategy = FairShare::new();
    announce(&mut strategy, &mill.workers);
    let slow = mill.give(&mut strategy, 10_000_000_000);
    mill.pass(10_000_000_000);
    // Of ten seconds that ended now, 1.441 s are left; the other worker gathers 0.9 × 1.443 s × (1 - 2^-t) in
    // t seconds. Both are equal after 1.077 s, which are as many tasks. If nothing were forgotten, it would
    // be after 1601.
    let given: Vec<usize> = (0..100_000)
        .map(|_| {
            let at = mill.give(&mut strategy, 900_000);
            mill.pass(1_000_000);
            at
        })
        .collect();
    let first_to_slow = given.iter().position(|at| *at == slow).expect("its turn comes");
    assert!((1_050..1_110).contains(&first_to_slow), "its turn came after {first_to_slow} tasks");
    let to_slow = given.iter().filter(|at| **at == slow).count();
    assert!((45_000..50_000).contains(&to_slow), "{to_slow} of 100 000 tasks");
}

/// Gives so many tasks to a crew in which nothing ends, and says how many each got.
fn burst(
    strategy: &mut dyn Choose,
    workers: &mut Views,
    tasks: u32,
    mut between: impl FnMut(&mut Views),
) -> Vec<u32> {
    let before = workers.load().to_vec();
    announce(strategy, workers);
    for _ in 0..tasks {
        let at = strategy.choose(workers, &TaskView::default(), Moment::ZERO).expect("all are ready").at;
        workers.set_load(at, 1, workers.load()[at]);
        between(workers);
    }
    workers.load().iter().zip(before).map(|(load, before)| load - before).collect()
}

#[test]
fn least_utilised_spreads_a_burst_though_the_figures_move_with_every_task() {
    let mut workers = ready(4);
    (0..4).for_each(|at| workers.set_utilisation(at, 1_000 + 10 * at as u16));
    let given = burst(&mut LeastUtilised::new(), &mut workers, 100, |workers| {
        // As in a pool that works the busy share out anew for every task, of which a burst shows little.
        (0..4).for_each(|at| workers.set_utilisation(at, workers.utilisation()[at] + 1));
    });
    assert_eq!(given, [25; 4]);
}

#[test]
fn fair_share_does_not_pile_tasks_up_where_the_first_one_was_short() {
    let mut workers = ready(10);
    (0..10).for_each(|at| workers.set_run_time(at, 0, if at == 3 { 100 } else { 1_000_000 }));
    let given = burst(&mut FairShare::new(), &mut workers, 100, |_| {});
    // By its own mean alone, the fourth would be given all.
    assert!(given.iter().all(|given| (9..=12).contains(given)), "{given:?}");
}

#[test]
fn equal_weights_are_plain_round_robin_and_nearly_equal_ones_nearly_so() {
    for weight in [1, 8, 999] {
        let mut workers = ready(5);
        (0..5).for_each(|at| workers.set_weight(at, weight));
        let turns = row(&mut RoundRobin::new(), &workers, 50);
        assert_eq!(row(&mut WeightedRoundRobin::new(), &workers, 50), turns, "weight {weight}");
    }
    let mut workers = ready(5);
    [7, 8, 9, 8, 7].into_iter().enumerate().for_each(|(at, weight)| workers.set_weight(at, weight));
    assert_eq!(longest_run(&row(&mut WeightedRoundRobin::new(), &workers, 500)), 2);
}

/// The longest queue after each of `workers` workers might have been given one task.
fn longest_queue(strategy: &mut dyn Choose, workers: u32) -> u32 {
    let mut views = ready(workers);
    for _ in 0..workers {
        let at = strategy.choose(&views, &TaskView::default(), Moment::ZERO).expect("all are ready").at;
        views.set_load(at, 0, views.load()[at] + 1);
    }
    views.load().iter().copied().max().unwrap_or(0)
}

#[test]
fn two_choices_make_far_shorter_queues_than_one() {
    for seed in 0..20 {
        let one = longest_queue(by_name("random", seed).expect("known").as_mut(), 10_000);
        let two = longest_queue(by_name("power-of-two", seed).expect("known").as_mut(), 10_000);
        // Theory: about log n / log log n against log log n / log 2, plus a constant.
        assert!((5..=12).contains(&one) && (3..=4).contains(&two), "seed {seed}: {one} and {two}");
    }
}
