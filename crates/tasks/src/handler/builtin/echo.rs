//! `echo`: answers with its arguments. What it costs is what a task costs.
//!
//! The arguments are handed back as they came, without being read: this is the handler with which the way
//! through the daemon is measured.

use super::about;
use crate::call::Call;
use crate::error::TaskFailure;
use crate::handler::{About, Handler};
use serde_json::value::RawValue;

pub(super) struct Echo;

impl Handler for Echo {
    fn start(&self, call: Call) {
        call.finish_with_args();
    }

    fn answer(&self, args: &RawValue, out: &mut Vec<u8>) -> Option<Result<(), TaskFailure>> {
        out.extend_from_slice(args.get().as_bytes());
        Some(Ok(()))
    }

    fn is_quick(&self) -> bool {
        true
    }

    fn about(&self) -> About {
        about("Answers with its arguments.", r#"{"text": "hello"}"#)
    }
}
