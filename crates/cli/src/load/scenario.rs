//! The two load tests that come with the specification of the connection queue, and what each expects.
//!
//! `normal` must find room: under 1 % of the answers may be refusals. `stress` has more clients than there is
//! room for: refusals are right then, and whoever gets neither an answer nor a refusal is what it looks for.

use clap::ValueEnum;
use millpond_load::Measured;
use std::time::Duration;

/// The largest share of refusals under normal load, in percent.
const REFUSED_PERCENT_MAX: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// 100 clients for 30 s: under 1 % are refused, and everybody is answered
    Normal,
    /// 500 clients for 60 s: everybody is answered, by a result or by a refusal
    Stress,
}

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Stress => "stress",
        }
    }

    pub(super) fn clients(self) -> usize {
        match self {
            Self::Normal => 100,
            Self::Stress => 500,
        }
    }

    pub(super) fn duration(self) -> Duration {
        match self {
            Self::Normal => Duration::from_secs(30),
            Self::Stress => Duration::from_secs(60),
        }
    }

    /// What was expected and did not come true.
    pub(super) fn missed(self, measured: &Measured) -> Vec<String> {
        let (accepted, refused, others) =
            (measured.accepted().count, measured.refused().count, measured.others().count);
        let mut missed = Vec::new();
        if accepted == 0 {
            missed.push("expected accepted requests, got none".to_owned());
        }
        let percent = 100.0 * refused as f64 / measured.answered().max(1) as f64;
        if self == Self::Normal && percent >= REFUSED_PERCENT_MAX {
            missed.push(format!("expected under {REFUSED_PERCENT_MAX} % refused, got {percent:.2} %"));
        }
        if others > 0 {
            let statuses: Vec<String> = measured.statuses.keys().map(u16::to_string).collect();
            let statuses = statuses.join(", ");
            missed.push(format!("expected 2xx and 503 only, got {others} others among {statuses}"));
        }
        let faults = &measured.faults;
        if faults.count() > 0 {
            missed.push(format!(
                "expected an answer for everybody, got {} timeouts, {} resets, {} cut short, {} unconnected, \
                 {} garbled",
                faults.timeouts, faults.resets, faults.cut_short, faults.unconnected, faults.garbled
            ));
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_load::Answers;

    fn measured(counts: &[(u16, u64)]) -> Measured {
        let statuses =
            counts.iter().map(|(status, count)| (*status, Answers { count: *count, ..Answers::default() }));
        Measured { statuses: statuses.collect(), ..Measured::default() }
    }

    #[test]
    fn normal_load_may_be_refused_in_less_than_one_of_a_hundred() {
        assert!(Scenario::Normal.missed(&measured(&[(200, 9_901), (503, 99)])).is_empty());
        let missed = Scenario::Normal.missed(&measured(&[(200, 9_900), (503, 100)]));
        assert_eq!(missed, ["expected under 1 % refused, got 1.00 %"]);
    }

    #[test]
    fn stress_may_be_refused_but_not_lost() {
        let mut stressed = measured(&[(200, 100), (503, 9_900)]);
        assert!(Scenario::Stress.missed(&stressed).is_empty());
        stressed.faults.resets = 1;
        assert_eq!(Scenario::Stress.missed(&stressed).len(), 1);
        assert_eq!(Scenario::Stress.missed(&measured(&[(200, 1), (500, 1)])).len(), 1);
    }

    #[test]
    fn nothing_accepted_is_nothing_shown() {
        assert_eq!(
            Scenario::Stress.missed(&measured(&[(503, 10)])),
            ["expected accepted requests, got none"]
        );
    }
}
