//! What follows from the end of an attempt, as a value: a result, another attempt, a dead letter, or giving it back.
//!
//! ```text
//!  success ─────────────────────────────────────────► result (if wanted) ► ack
//!  cancelled ───────────────────────────────────────► result ► ack
//!  the daemon stops, or let go of it unrun ─────────► give back: nack
//!  failure that may pass, attempts left ────────────► entry "retrying" ► nack with a pause, or moved to `later`
//!  any other failure ───────────────────────────────► dead letter ► result ► term
//! ```
//!
//! Not here: carrying it out (`writing.rs`), who may replace which entry (`record.rs`).

use millpond_tasks::config::NatsResults;
use millpond_tasks::{ErrorCode, TaskFailure};
use std::time::Duration;

/// How an attempt ended, and what is known of the task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    /// Why it failed, if it did.
    pub(crate) failure: Option<&'a TaskFailure>,
    /// How many attempts had failed before.
    pub(crate) failures: u32,
    /// How many failures are allowed.
    pub(crate) retries: u32,
    /// Whether the daemon stops.
    pub(crate) is_stopping: bool,
    /// Which results are wanted.
    pub(crate) results: NatsResults,
    /// How long to wait before another attempt.
    pub(crate) pause: Duration,
    /// The longest wait on the lane.
    pub(crate) nack_max: Duration,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The end for good.
    Final {
        /// Whether the end is written down.
        record: bool,
        /// Whether it becomes a dead letter.
        buried: bool,
    },
    /// Another attempt follows after this pause.
    Retry { pause: Duration, is_long: bool },
    /// It counts as never run here.
    GiveBack { pause: Duration },
}

/// How long a task stays away that a full queue here has dropped.
const DROPPED_PAUSE: Duration = Duration::from_secs(1);

/// Decides.
pub(crate) fn decide(end: &End<'_>) -> Ending {
    // Whoever counts failures has written an entry, which must not stand there for ever.
    let has_entry = end.failures > 0;
    let Some(failure) = end.failure else {
        return Ending::Final { record: end.results == NatsResults::All || has_entry, buried: false };
    };
    let record = end.results != NatsResults::None || has_entry;
    match failure.code {
        ErrorCode::Draining => Ending::GiveBack { pause: Duration::ZERO },
        ErrorCode::Cancelled if end.is_stopping => Ending::GiveBack { pause: Duration::ZERO },
        ErrorCode::Dropped | ErrorCode::QueueFull => Ending::GiveBack { pause: DROPPED_PAUSE },
        // Nobody wants these again.
        ErrorCode::Cancelled | ErrorCode::Expired => Ending::Final { record, buried: false },
        code if code.retry_may_help() && end.failures < end.retries => {
            Ending::Retry { pause: end.pause, is_long: end.pause > end.nack_max }
        }
        _ => Ending::Final { record, buried: true },
    }
}

/// What is told if the last of several attempts failed.
pub(crate) fn last_word(end: &End<'_>, failure: &TaskFailure) -> TaskFailure {
    if end.retries == 0 || !failure.code.retry_may_help() || end.failures < end.retries {
        return failure.clone();
    }
    let message = format!("{} attempts failed; the last: {failure}", end.failures.saturating_add(1));
    TaskFailure { code: ErrorCode::RetriesExhausted, message, at: failure.at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(failure: Option<&TaskFailure>) -> End<'_> {
        End {
            failure,
            failures: 0,
            retries: 2,
            is_stopping: false,
            results: NatsResults::All,
            pause: Duration::from_secs(1),
            nack_max: Duration::from_secs(10),
        }
    }

    fn failure(code: ErrorCode) -> TaskFailure {
        TaskFailure::new(code, "so it is")
    }

    #[test]
    fn a_success_is_written_down_if_results_are_wanted() {
        let with = |results, failures| decide(&End { results, failures, ..end(None) });
        assert_eq!(with(NatsResults::All, 0), Ending::Final { record: true, buried: false });
        assert_eq!(with(NatsResults::Failures, 0), Ending::Final { record: false, buried: false });
        assert_eq!(with(NatsResults::None, 0), Ending::Final { record: false, buried: false });
        assert_eq!(
            with(NatsResults::None, 1),
            Ending::Final { record: true, buried: false },
            "nothing may say retrying for ever"
        );
    }

    #[test]
    fn a_failure_that_may_pass_is_tried_again_as_often_as_allowed() {
        let crash = failure(ErrorCode::HandlerCrashed);
        let after = |failures| decide(&End { failures, ..end(Some(&crash)) });
        let retry = Ending::Retry { pause: Duration::from_secs(1), is_long: false };
        assert_eq!((after(0), after(1)), (retry, retry));
        assert_eq!(after(2), Ending::Final { record: true, buried: true });
        let long = decide(&End { pause: Duration::from_secs(11), ..end(Some(&crash)) });
        assert_eq!(long, Ending::Retry { pause: Duration::from_secs(11), is_long: true });
    }

    #[test]
    fn a_failure_that_stays_is_a_dead_letter_at_once() {
        for code in [ErrorCode::BadArguments, ErrorCode::NotAllowed, ErrorCode::TooLarge] {
            let told = failure(code);
            assert_eq!(decide(&end(Some(&told))), Ending::Final { record: true, buried: true }, "{code}");
        }
    }

    #[test]
    fn what_the_daemon_did_not_run_is_given_back_and_what_somebody_cancelled_is_not() {
        let give_back = Ending::GiveBack { pause: Duration::ZERO };
        assert_eq!(decide(&end(Some(&failure(ErrorCode::Draining)))), give_back);
        let cancelled = failure(ErrorCode::Cancelled);
        assert_eq!(decide(&End { is_stopping: true, ..end(Some(&cancelled)) }), give_back);
        assert_eq!(decide(&end(Some(&cancelled))), Ending::Final { record: true, buried: false });
        assert!(matches!(decide(&end(Some(&failure(ErrorCode::Dropped)))), Ending::GiveBack { .. }));
    }

    #[test]
    fn the_last_of_several_attempts_says_how_many_there_were() {
        let crash = failure(ErrorCode::HandlerCrashed);
        let told = last_word(&End { failures: 2, ..end(Some(&crash)) }, &crash);
        assert_eq!(told.code, ErrorCode::RetriesExhausted);
        assert!(told.message.starts_with("3 attempts failed; the last: handler-crashed"), "{}", told.message);
        assert_eq!(
            last_word(&End { retries: 0, ..end(Some(&crash)) }, &crash).code,
            ErrorCode::HandlerCrashed
        );
    }
}
