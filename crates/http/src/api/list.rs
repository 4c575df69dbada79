//! Tasks a page at a time, newest first, narrowed down by what they are and what is in them.
//!
//! Not here: how a page stays where it is while tasks come and go (the crate `millpond-tasks`).

use super::Api;
use super::ask::{Answered, Ask, json_of};
use super::query::{bad, cut};
use super::view::TaskView;
use hyper::StatusCode;
use millpond_tasks::error::TABLE;
use millpond_tasks::{Cursor, ErrorCode, ListFilter, ListPage, Stage};
use serde::Serialize;
use std::sync::Arc;

/// The names of the stages.
pub(super) const STAGES: &[&str] = &{
    let mut names = [""; Stage::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Stage::ALL[at].name();
        at += 1;
    }
    names
};
/// The names of the errors, with that of none.
pub(super) const ERRORS: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TABLE[at].name;
        at += 1;
    }
    names
};
/// The most tasks on a page.
pub(super) const LIMIT_MAX: u64 = 1000;

#[derive(Serialize)]
struct Page {
    tasks: Vec<TaskView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    known: usize,
}

/// `GET /v1/tasks`.
pub(super) fn list(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let query = ask.query();
    let stage = query.text("stage")?.map(|name| {
        let wrong = || bad(format!("stage: expected one of {}, got {:?}", STAGES.join(", "), cut(&name)));
        Stage::by_name(&name).ok_or_else(wrong)
    });
    let error = query.text("error")?.map(|name| {
        let wrong = || bad(format!("error: expected a name of docs/errors.md, got {:?}", cut(&name)));
        ErrorCode::from_name(&name).ok_or_else(wrong)
    });
    let before = query.text("cursor")?.map(|text| {
        let wrong = || bad(format!("cursor: expected the next of an earlier page, got {:?}", cut(&text)));
        text.parse::<Cursor>().map_err(|_| wrong())
    });
    let filter = ListFilter {
        stage: stage.transpose()?,
        handler: query.text("handler")?.map(Into::into),
        error: error.transpose()?,
        query: query.text("q")?.map(Into::into),
        max: query.number("limit", 1, LIMIT_MAX)?.map(|limit| limit as usize),
        before: before.transpose()?,
    };
    let ListPage { tasks, next, known, .. } = api.service.list_page(&filter);
    let tasks = tasks.into_iter().map(Into::into).collect();
    Ok(json_of(StatusCode::OK, &Page { tasks, next: next.map(|next| next.to_string()), known }))
}
