//! How fair a comparison is: rounds that alternate between the peers, and what is kept of them.
//!
//! A shared machine is fast in one minute and slow in the next, and what a peer leaves behind (caches, threads on
//! their way out) is its successor's burden. So each round runs every peer of a group once, in an order in which
//! each comes at every place, and after every other, equally often. The median stands for a peer; the minimum and
//! the maximum say how far to trust it.
//!
//! Not here: what one round does (`groups/`), how the figures look (`report.rs`, `plot.rs`).

use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::time::{Duration, Instant};

/// The name of our own row, which the others are compared with.
pub(crate) const OURS: &str = "millpond";

/// One question, and the peers that answer it.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) question: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) pace: Pace,
    pub(crate) contestants: Vec<Contestant>,
}

/// How many rounds a group needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As many as the plan says, after one that warms up.
    Rounds,
    /// One, for a figure that time and neighbours do not touch: further rounds would only repeat it.
    Once,
}

/// One peer in one group.
pub(crate) struct Contestant {
    pub(crate) peer: &'static str,
    pub(crate) round: RunRound,
    /// Brings what the peer needs, such as a program, or says why it cannot be had.
    pub(crate) prepare: Prepare,
}

/// Runs one round and gives what it came to, or says what went wrong.
type RunRound = Box<dyn Fn(&Round) -> Result<Figures, String>>;
type Prepare = Box<dyn Fn() -> Result<(), String>>;

impl Contestant {
    pub(crate) fn new<F: Into<Figures>>(
        peer: &'static str,
        round: impl Fn(&Round) -> Result<F, String> + 'static,
    ) -> Self {
        let round: RunRound = Box::new(move |given| round(given).map(Into::into));
        Self { peer, round, prepare: Box::new(|| Ok(())) }
    }

    /// A peer that is no crate and may be missing. It is then named in the table, with the reason.
    pub(crate) fn needing(self, prepare: impl Fn() -> Result<(), String> + 'static) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }
}

/// What one round came to: the figure in the group's unit, and those that stand beside it, by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) main: f64,
    pub(crate) beside: Vec<(&'static str, f64)>,
}

impl From<f64> for Figures {
    fn from(main: f64) -> Self {
        Self { main, beside: Vec::new() }
    }
}

/// What every peer is told in every round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) items: u64,
    pub(crate) pinned: bool,
}

/// Which end of the scale is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) items: u64,
    pub(crate) pinned: bool,
    /// After this long a group starts no further round, provided it has `ROUNDS_MIN`.
    pub(crate) group_time_max: Duration,
}

/// Fewer rounds than this have no middle.
const ROUNDS_MIN: usize = 3;

impl Plan {
    pub(crate) fn full() -> Self {
        Self { rounds: 25, items: 1_000_000, pinned: false, group_time_max: Duration::from_secs(60) }
    }

    pub(crate) fn quick() -> Self {
        Self { rounds: 25, items: 400_000, group_time_max: Duration::from_secs(7), ..Self::full() }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pinned = if self.pinned { "pinned" } else { "not pinned" };
        write!(f, "at most {} rounds of {} items, threads {pinned}", self.rounds, self.items)
    }
}

/// What is kept of one peer in one group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) peer: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
    /// The medians of what stands beside the figure.
    pub(crate) beside: Vec<(&'static str, f64)>,
}

/// A peer that could not be had on this machine, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Absent {
    pub(crate) peer: &'static str,
    pub(crate) reason: String,
}

/// Runs a group and gives a row for each of its peers, best first, and names those that are not there.
pub(crate) fn run(group: &Group, plan: &Plan) -> Result<(Vec<Row>, Vec<Absent>), String> {
    let (contestants, absent) = gather(group)?;
    let round = Round { items: plan.items, pinned: plan.pinned };
    let peers = contestants.len();
    let mut samples: Vec<Vec<Figures>> = vec![Vec::with_capacity(plan.rounds); peers];
    // One round more than asked for: the first warms the allocator and the processor up, and is not kept.
    let turns = match group.pace {
        Pace::Rounds => 0..=plan.rounds,
        Pace::Once => 1..=1,
    };
    let progress = progress_bar(group.name, peers * turns.clone().count());
    let started = Instant::now();
    for turn in turns {
        if turn > ROUNDS_MIN && started.elapsed() > plan.group_time_max {
            break;
        }
        for step in 0..peers {
            let index = who_comes(turn, step, peers);
            let contestant = contestants[index];
            progress.set_message(contestant.peer);
            let figure = (contestant.round)(&round)
                .map_err(|fault| format!("{}: {}: {fault}", group.name, contestant.peer))?;
            if turn > 0 {
                samples[index].push(figure);
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let mut rows: Vec<Row> = contestants
        .iter()
        .zip(samples)
        .filter_map(|(contestant, samples)| row(group, contestant.peer, &samples))
        .collect();
    sort_best_first(&mut rows);
    Ok((rows, absent))
}

/// Which of the peers comes at this place of a round: by turns from the front and from the back of a list that moves on
/// by one from round to round. Neighbours are then one apart, two, three and so on; of an odd number of peers, every
/// second round goes backwards, as else the same distances came twice and the others never.
fn who_comes(round: usize, place: usize, peers: usize) -> usize {
    let place = if peers % 2 == 1 && round % 2 == 1 { peers - 1 - place } else { place };
    let in_list = if place.is_multiple_of(2) { place / 2 } else { peers - place.div_ceil(2) };
    (round + in_list) % peers
}

/// Those who can take part, and those who cannot. Without us there is nothing to compare with.
fn gather(group: &Group) -> Result<(Vec<&Contestant>, Vec<Absent>), String> {
    let (mut present, mut absent) = (Vec::new(), Vec::new());
    for contestant in &group.contestants {
        match (contestant.prepare)() {
            Ok(()) => present.push(contestant),
            Err(reason) if is_ours(contestant.peer) => {
                return Err(format!("{}: {}: {reason}", group.name, contestant.peer));
            }
            Err(reason) => absent.push(Absent { peer: contestant.peer, reason }),
        }
    }
    Ok((present, absent))
}

/// Hidden by itself when standard error is no terminal.
fn progress_bar(name: &'static str, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64).with_prefix(name);
    match ProgressStyle::with_template("{prefix:20} {bar:30} {pos:>4}/{len} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn row(group: &Group, peer: &'static str, samples: &[Figures]) -> Option<Row> {
    let rounds = samples.len();
    let main: Vec<f64> = samples.iter().map(|sample| sample.main).collect();
    let min = main.iter().copied().min_by(f64::total_cmp)?;
    let max = main.iter().copied().max_by(f64::total_cmp)?;
    let median_beside = |(index, (name, _)): (usize, &(&'static str, f64))| {
        let column = samples.iter().filter_map(|sample| sample.beside.get(index).map(|(_, figure)| *figure));
        Some((*name, median(column.collect())?))
    };
    let beside = samples.first()?.beside.iter().enumerate().filter_map(median_beside).collect();
    let median = median(main)?;
    let (unit, better) = (group.unit, group.better);
    Some(Row { group: group.name, peer, unit, better, median, min, max, rounds, beside })
}

fn sort_best_first(rows: &mut [Row]) {
    rows.sort_by(|a, b| match a.better {
        Better::Lower => a.median.total_cmp(&b.median),
        Better::Higher => b.median.total_cmp(&a.median),
    });
}

/// The middle of the samples; of an even number of them, the mean of the two in the middle.
pub(crate) fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let upper = *samples.get(middle)?;
    if samples.len() % 2 == 1 { Some(upper) } else { Some(samples[middle - 1].midpoint(upper)) }
}

/// This row's median as a multiple of ours, if the group has a row of ours.
pub(crate) fn ratio_to_ours(row: &Row, rows: &[Row]) -> Option<f64> {
    let ours = rows.iter().find(|other| other.group == row.group && other.peer == OURS)?;
    Some(row.median / ours.median)
}

/// Whether the row is ours, in any variant.
pub(crate) fn is_ours(peer: &str) -> bool {
    peer == OURS || peer.strip_prefix(OURS).is_some_and(|rest| rest.starts_with(' '))
}

/// The figure of most groups.
pub(crate) fn ns_per_item(elapsed: Duration, items: u64) -> f64 {
    elapsed.as_nanos() as f64 / items as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn plan(rounds: usize) -> Plan {
        Plan { rounds, items: 10, pinned: false, group_time_max: Duration::from_secs(60) }
    }

    fn group(contestants: Vec<Contestant>) -> Group {
        Group {
            name: "test-1",
            question: "does it?",
            unit: "ns/item",
            better: Better::Lower,
            pace: Pace::Rounds,
            contestants,
        }
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![7.0]), Some(7.0));
        assert_eq!(median(vec![9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(vec![4.0, 100.0, 1.0, 2.0]), Some(3.0));
    }

    #[test]
    fn each_peer_comes_at_every_place_and_after_every_other_equally_often() {
        for peers in 2..=15 {
            let (mut at, mut after) = (vec![vec![0; peers]; peers], vec![vec![0; peers]; peers]);
            for round in 0..2 * peers {
                let order: Vec<_> = (0..peers).map(|place| who_comes(round, place, peers)).collect();
                order.iter().enumerate().for_each(|(place, &peer)| at[place][peer] += 1);
                order.windows(2).for_each(|pair| after[pair[0]][pair[1]] += 1);
            }
            assert!(at.iter().flatten().all(|&times| times == 2), "{peers} peers: {at:?}");
            let follows = |before: usize, peer: usize| if before == peer { 0 } else { 2 };
            for (before, times) in after.iter().enumerate() {
                let fair: Vec<_> = (0..peers).map(|peer| follows(before, peer)).collect();
                assert_eq!(times, &fair, "{peers} peers, after {before}");
            }
        }
    }

    #[test]
    fn every_round_runs_each_peer_once_and_the_order_changes() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let contestants = ["a", "b", "c"].map(|peer| {
            let log = Rc::clone(&log);
            Contestant::new(peer, move |_| {
                log.borrow_mut().push(peer);
                Ok(1.0)
            })
        });
        let (rows, _) = run(&group(contestants.into()), &plan(2)).unwrap();
        assert_eq!(log.borrow().join(""), "acbcabcba");
        assert!(rows.iter().all(|row| row.rounds == 2));
    }

    #[test]
    fn the_warming_round_is_not_kept() {
        let figures = RefCell::new(vec![2.0, 4.0, 3.0, 1000.0]);
        let contestant = Contestant::new(OURS, move |_| Ok(figures.borrow_mut().pop().unwrap()));
        let (rows, _) = run(&group(vec![contestant]), &plan(3)).unwrap();
        assert_eq!((rows[0].min, rows[0].median, rows[0].max), (2.0, 3.0, 4.0));
    }

    #[test]
    fn a_group_that_needs_one_round_gets_one_and_no_warming() {
        let figures = RefCell::new(vec![5.0]);
        let contestant = Contestant::new(OURS, move |_| Ok(figures.borrow_mut().pop().unwrap()));
        let once = Group { pace: Pace::Once, ..group(vec![contestant]) };
        let (rows, _) = run(&once, &plan(3)).unwrap();
        assert_eq!((rows[0].rounds, rows[0].median), (1, 5.0));
    }

    #[test]
    fn a_failing_peer_fails_the_run_by_name() {
        let contestant = Contestant::new("sieve", |_| Err::<f64, _>("3 of 10 items were lost".to_owned()));
        let message = run(&group(vec![contestant]), &plan(1)).unwrap_err();
        assert_eq!(message, "test-1: sieve: 3 of 10 items were lost");
    }

    #[test]
    fn the_ratio_is_to_our_row_and_the_best_row_comes_first() {
        let contestants = vec![
            Contestant::new("slow", |_| Ok(30.0)),
            Contestant::new(OURS, |_| Ok(10.0)),
            Contestant::new("~limit", |_| Ok(5.0)),
        ];
        let (rows, _) = run(&group(contestants), &plan(1)).unwrap();
        let seen: Vec<_> = rows.iter().map(|row| (row.peer, ratio_to_ours(row, &rows).unwrap())).collect();
        assert_eq!(seen, [("~limit", 0.5), (OURS, 1.0), ("slow", 3.0)]);
    }

    #[test]
    fn a_peer_that_cannot_be_had_is_named_and_the_others_run() {
        let missing = || Contestant::new("far", |_| Ok(1.0)).needing(|| Err("no such program".to_owned()));
        let (rows, absent) =
            run(&group(vec![missing(), Contestant::new(OURS, |_| Ok(2.0))]), &plan(1)).unwrap();
        assert_eq!(rows.iter().map(|row| row.peer).collect::<Vec<_>>(), [OURS]);
        assert_eq!(absent, [Absent { peer: "far", reason: "no such program".to_owned() }]);
        let ours = Contestant::new(OURS, |_| Ok(1.0)).needing(|| Err("not built".to_owned()));
        assert_eq!(run(&group(vec![ours]), &plan(1)).unwrap_err(), "test-1: millpond: not built");
    }

    #[test]
    fn what_stands_beside_the_figure_has_a_median_of_its_own() {
        let turns = RefCell::new(vec![(1.0, 30.0), (2.0, 10.0), (3.0, 20.0), (9.0, 90.0)]);
        let contestant = Contestant::new(OURS, move |_| {
            let (main, p99) = turns.borrow_mut().pop().unwrap();
            Ok(Figures { main, beside: vec![("p99", p99)] })
        });
        let (rows, _) = run(&group(vec![contestant]), &plan(3)).unwrap();
        assert_eq!((rows[0].median, rows[0].beside.as_slice()), (2.0, [("p99", 20.0)].as_slice()));
    }

    #[test]
    fn a_variant_of_ours_is_ours_and_a_namesake_is_not() {
        assert!(is_ours("millpond"));
        assert!(is_ours("millpond batch-32"));
        assert!(!is_ours("millponds"));
    }
}
