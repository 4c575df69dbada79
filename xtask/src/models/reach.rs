//! Which models reached the number of schedules that was asked for, and which ran out of time.
//!
//! A model that ran out of time has held as far as it went, so it is no failure. But a number that was not reached must
//! not be taken for one that was: the last line of the command names every model that stopped short.
//!
//! Not here: stopping it, which the models do themselves (`model.rs` of each crate).

use super::explore::{Explored, Outcome};
use super::make::Make;

/// What became of the number asked for, over all crates.
pub(crate) struct Reach {
    goal: u64,
    reached: usize,
    /// Path of the model, and how far it came.
    short: Vec<(String, u64)>,
}

impl Reach {
    pub(crate) fn new(goal: u64) -> Self {
        Self { goal, reached: 0, short: Vec::new() }
    }

    /// Counts what was explored under shuttle and held.
    pub(crate) fn add(&mut self, baseline: &[Explored<'_>]) {
        for explored in baseline.iter().filter(|explored| explored.make() == Make::Shuttle) {
            if let Outcome::Held { extent } = &explored.outcome {
                self.count(explored.test, extent);
            }
        }
    }

    fn count(&mut self, test: &str, extent: &str) {
        match schedules(extent) {
            schedules if schedules >= self.goal => self.reached += 1,
            schedules => self.short.push((test.to_owned(), schedules)),
        }
    }

    /// The last line, if there is anything to say.
    pub(crate) fn line(&self) -> Option<String> {
        let all = self.reached + self.short.len();
        if all == 0 {
            return None;
        }
        if self.short.is_empty() {
            return Some(format!("schedules: all {all} models reached {}", self.goal));
        }
        let short: Vec<_> =
            self.short.iter().map(|(test, schedules)| format!("{test} ({schedules})")).collect();
        let count = short.len();
        let names = short.join(", ");
        Some(format!("schedules: {count} of {all} models stopped SHORT of {}: {names}", self.goal))
    }
}

/// How many schedules a model says it explored. One with several explorations is as good as its shortest; one that
/// does not say has explored none.
fn schedules(extent: &str) -> u64 {
    let explorations = extent.split("explored ").skip(1);
    let words = |exploration: &str| exploration.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let count = |exploration: &str| {
        let words = words(exploration);
        let before = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
        };
        before("random").unwrap_or(0) + before("priority").unwrap_or(0)
    };
    explorations.map(count).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_as_good_as_its_shortest_exploration() {
        assert_eq!(schedules("explored 50 random and 49 priority schedules"), 99);
        let two = "explored 50 random and 50 priority schedules, explored 50 random and 7 priority schedules";
        assert_eq!(schedules(two), 57);
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        for extent in ["", "explored 12 executions", "explored random and many priority schedules"] {
            assert_eq!(schedules(extent), 0, "{extent}");
        }
    }

    #[test]
    fn the_last_line_names_every_model_that_stopped_short() {
        let mut reach = Reach::new(100);
        assert_eq!(reach.line(), None);
        reach.count("ring_model::a", "explored 50 random and 50 priority schedules");
        assert_eq!(reach.line().as_deref(), Some("schedules: all 1 models reached 100"));
        reach.count("ring_model::b", "explored 50 random and 49 priority schedules");
        let line = reach.line().unwrap();
        assert_eq!(line, "schedules: 1 of 2 models stopped SHORT of 100: ring_model::b (99)");
    }
}
