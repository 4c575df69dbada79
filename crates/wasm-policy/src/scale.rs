//! More workers, or fewer: the settings and a sample of the load come over the slate, the answer is a number.
//!
//! Above 0: start so many; below 0: let so many retire. The sample is JavaScript's, which knows what waits where.

use crate::brain::{self, Brain};
use crate::number::{duration, moment, nanos, optional};
use core::time::Duration;
use millpond_policy::scale::{Decision, Load, Predict, Reason, ScaleSettings, Scaler};

impl Brain {
    /// The settings as they stand on the slate: numbers, one behind the other, times in nanoseconds.
    fn scale_settings(&self) -> ScaleSettings {
        let number = |at| self.slate.float(at);
        let count = |at| number(at) as u32;
        let predict = Predict {
            horizon: duration(number(12)),
            half_life: duration(number(13)),
            utilisation: number(14),
        };
        ScaleSettings {
            workers_min: count(0),
            workers_max: count(1),
            scale_up_threshold: number(2),
            scale_down_threshold: number(3),
            scale_down_idle: duration(number(4)),
            step_up: count(5),
            step_down: count(6),
            cooldown: duration(number(7)),
            samples: count(8),
            wait_max: optional(number(9)),
            interval: duration(number(10)),
            predict: (number(11) != 0.0).then_some(predict),
        }
    }

    fn decide_scale(&mut self, load: &Load, now: f64) -> i32 {
        self.decision = self.scaler.as_mut().map(|scaler| scaler.decide(load, moment(now)));
        let steps = |by: u32| i32::try_from(by).unwrap_or(i32::MAX);
        match self.decision {
            None | Some(Decision::Stay(_)) => 0,
            Some(Decision::Up { by, .. }) => steps(by),
            Some(Decision::Down { by, .. }) => -steps(by),
        }
    }
}

/// Takes the settings from the slate, in the order of the README: fifteen numbers. Keeps what it has seen. 0 if
/// they cannot work.
#[unsafe(no_mangle)]
pub extern "C" fn scale_configure() -> u32 {
    brain::with(|brain| {
        let settings = brain.scale_settings();
        let is_taken = match &mut brain.scaler {
            Some(scaler) => scaler.set_silently(settings),
            none => {
                *none = Scaler::new_silently(settings);
                none.is_some()
            }
        };
        is_taken.into()
    })
}

/// Decides from the load on the slate: workers, waiting, running, idle for long, the longest wait, arrivals in total,
/// the mean run time. 0 before it is configured.
#[unsafe(no_mangle)]
pub extern "C" fn scale_decide(now: f64) -> i32 {
    brain::with(|brain| {
        let number = |at| brain.slate.float(at);
        let load = Load {
            workers: number(0) as u32,
            waiting: number(1) as u64,
            running: number(2) as u64,
            idle_long: number(3) as u32,
            oldest_wait: duration(number(4)),
            arrivals_total: number(5) as u64,
            run_mean_ns: nanos(number(6)),
        };
        brain.decide_scale(&load, now)
    })
}

/// Why the last decision was made: the place of the reason among those of `millpond_policy::scale`, with its numbers
/// on the slate; -1 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn scale_reason() -> i32 {
    brain::with(|brain| {
        let Some(decision) = brain.decision else { return -1 };
        let time = |time: Duration| time.as_nanos() as u64;
        let (place, numbers) = match decision.reason() {
            Reason::BelowMin { least } => (0, [least.into(), 0, 0]),
            Reason::AboveMax { most } => (1, [most.into(), 0, 0]),
            Reason::Load { load, threshold } => (2, [load, threshold, 0]),
            Reason::OldestWait { waited, limit } => (3, [time(waited), time(limit), 0]),
            Reason::Forecast { needed, horizon } => (4, [needed.into(), time(horizon), 0]),
            Reason::Idle { workers, load, threshold } => (5, [workers.into(), load, threshold]),
            Reason::Steady { load } => (6, [load, 0, 0]),
            Reason::TooFewSamples { seen, wanted } => (7, [seen.into(), wanted.into(), 0]),
            Reason::Cooldown { left } => (8, [time(left), 0, 0]),
            Reason::AtMax { most } => (9, [most.into(), 0, 0]),
            Reason::AtMin { least } => (10, [least.into(), 0, 0]),
            Reason::NobodyIdle { idle } => (11, [time(idle), 0, 0]),
            Reason::Needed { workers } => (12, [workers.into(), 0, 0]),
            _ => return -1,
        };
        brain.slate.put_all(&numbers);
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;

    /// The default settings, with at least `least` workers and one sample.
    fn configure(least: f64) -> u32 {
        assert_ne!(slate_at(0), 0);
        let numbers = [least, 8.0, 2.0, 0.5, 30e9, 1.0, 1.0, 5e9, 1.0, -1.0, 1e9, 0.0, 10e9, 3e9, 0.8];
        brain::with(|brain| {
            numbers.into_iter().enumerate().for_each(|(at, number)| brain.slate.put_float(at, number))
        });
        scale_configure()
    }

    fn decide(workers: f64, waiting: f64, idle_long: f64, now: f64) -> i32 {
        let numbers = [workers, waiting, 0.0, idle_long, 0.0, 0.0, 0.0];
        brain::with(|brain| {
            numbers.into_iter().enumerate().for_each(|(at, number)| brain.slate.put_float(at, number))
        });
        scale_decide(now)
    }

    fn reason() -> (i32, u64, u64) {
        let place = scale_reason();
        brain::with(|brain| (place, brain.slate.read(0), brain.slate.read(1)))
    }

    #[test]
    fn nothing_is_decided_before_it_is_configured() {
        assert_ne!(slate_at(0), 0);
        assert_eq!((decide(1.0, 100.0, 0.0, 0.0), scale_reason()), (0, -1));
    }

    #[test]
    fn it_says_how_many_come_and_how_many_go() {
        assert_eq!(configure(1.0), 1);
        assert_eq!(decide(2.0, 9.0, 0.0, 0.0), 1);
        assert_eq!(reason(), (2, 4_500, 2_000));
        assert_eq!(decide(3.0, 0.0, 3.0, 6e9), -1);
        assert_eq!(decide(2.0, 9.0, 0.0, 7e9), 0, "it cools down");
        assert_eq!(reason(), (8, 4_000_000_000, 0));
        assert_eq!(configure(4.0), 1);
        assert_eq!(decide(2.0, 0.0, 0.0, 8e9), 2, "there must be four");
    }

    #[test]
    fn settings_that_cannot_work_are_refused_and_the_old_ones_stay() {
        assert_eq!(configure(1.0), 1);
        assert_eq!(configure(9.0), 0, "at least nine of at most eight");
        assert_eq!(decide(2.0, 0.0, 0.0, 0.0), 0, "two are enough");
    }
}
