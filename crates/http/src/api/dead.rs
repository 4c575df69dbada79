//! Dead letters and schedules: what operators look at, and the few things they do about it.
//!
//! Letters are named by the id of their task, or chosen by handler and age. To try or let go many at once, the filters
//! stand behind the question mark; without any, all are meant.
//!
//! Not here: what a dead letter is (the crate `millpond-tasks`).

use super::Api;
use super::ask::{Answered, Ask, json_of};
use super::problem::Problem;
use super::routes::{Act, Kind, Parameter, Reaction, Role, Route, Shape, Verb, json, query, reaction};
use super::submit::{accepted_answer, kept};
use hyper::StatusCode;
use millpond_tasks::{DEAD_LIST_MAX, DeadFilter, DoorName};
use serde_json::json;
use std::sync::Arc;

const HANDLER: Parameter = query("handler", Kind::Text(64), "Only those of this handler.");
const OLDER: Parameter =
    query("older_than", Kind::Time, "Only those that died so long ago, for example `24h`.");
const ID: Parameter = super::routes::ID;
const LETTER: &[Shape] = &[json("DeadLetter")];

const fn route(verb: Verb, path: &'static str, name: &'static str, summary: &'static str, act: Act) -> Route {
    let role = match verb {
        Verb::Get => Role::Read,
        _ => Role::Write,
    };
    Route { verb, path, name, summary, role, parameters: &[], body: None, answers: &[], problems: &[], act }
}

/// `GET /v1/dead`.
pub(super) const LIST: Route = Route {
    parameters: &[
        HANDLER,
        OLDER,
        query("limit", Kind::Count(1, DEAD_LIST_MAX as u64), "How many; without, 100."),
        query("before", Kind::Count(0, u64::MAX), "Where the page before ended: its `next`."),
    ],
    answers: &[reaction(200, &[json("DeadPage")], "One page.")],
    ..route(Verb::Get, "/v1/dead", "dead", "Tasks that failed for good, the latest first.", Act::Now(list))
};

/// `GET /v1/dead/{id}`.
pub(super) const SHOW: Route = Route {
    parameters: &[ID],
    answers: &[reaction(200, LETTER, "The letter.")],
    problems: &[404],
    ..route(Verb::Get, "/v1/dead/{id}", "dead_letter", "The latest dead letter of a task.", Act::Now(show))
};

/// `POST /v1/dead/{id}/retry`.
pub(super) const RETRY: Route = Route {
    parameters: &[ID],
    answers: &[reaction(202, &[json("Task")], "The new task; `Location` says where to look.")],
    problems: &[404, 422],
    ..route(
        Verb::Post,
        "/v1/dead/{id}/retry",
        "dead_retry",
        "Asks once more for what a dead letter asked for; the letter goes.",
        Act::Later(|api, ask| Box::pin(retry(api, ask))),
    )
};

/// `DELETE /v1/dead/{id}`.
pub(super) const PURGE: Route = Route {
    parameters: &[ID],
    answers: &[reaction(200, &[json("Purged")], "It is gone.")],
    problems: &[404],
    ..route(Verb::Delete, "/v1/dead/{id}", "dead_purge", "Lets a dead letter go.", Act::Now(purge))
};

/// `POST /v1/dead`.
pub(super) const RETRY_ALL: Route = Route {
    parameters: &[HANDLER, OLDER],
    answers: &[reaction(200, &[json("Revived")], "How many became tasks, and how many did not.")],
    ..route(
        Verb::Post,
        "/v1/dead",
        "dead_retry_all",
        "Asks once more for all that the filters leave, oldest first, until one finds no room.",
        Act::Now(retry_all),
    )
};

/// `DELETE /v1/dead`.
pub(super) const PURGE_ALL: Route = Route {
    parameters: &[HANDLER, OLDER],
    answers: &[reaction(200, &[json("Purged")], "How many are gone.")],
    ..route(
        Verb::Delete,
        "/v1/dead",
        "dead_purge_all",
        "Lets all dead letters go that the filters leave.",
        Act::Now(purge_all),
    )
};

/// `GET /v1/schedules`.
pub(super) const SCHEDULES: Route = Route {
    answers: SCHEDULES_ANSWERS,
    ..route(
        Verb::Get,
        "/v1/schedules",
        "schedules",
        "What the clock asks for, with the next times.",
        Act::Now(schedules),
    )
};
const SCHEDULES_ANSWERS: &[Reaction] = &[reaction(200, &[json("Schedules")], "All of them, by name.")];

fn filter(ask: &Ask) -> Result<DeadFilter, Box<Problem>> {
    let query = ask.query();
    Ok(DeadFilter {
        handler: query.text("handler")?.map(Into::into),
        older_than: query.duration("older_than")?,
        ..DeadFilter::default()
    })
}

fn list(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let filter = DeadFilter {
        max: ask.query().number("limit", 1, DEAD_LIST_MAX as u64)?.map(|limit| limit as usize),
        before: ask.query().number("before", 0, u64::MAX)?,
        ..filter(ask)?
    };
    let page = api.service.dead_letters(&filter);
    let enabled = api.service.keeps_dead_letters();
    let next = page.next;
    Ok(json_of(
        StatusCode::OK,
        &json!({ "letters": page.letters, "next": next, "kept": page.kept, "enabled": enabled }),
    ))
}

fn show(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let id = ask.task_id()?;
    let letter = api.service.dead_letter(&id).map_err(|failure| Problem::of_failure(failure, Some(id)))?;
    Ok(json_of(StatusCode::OK, &*letter))
}

async fn retry(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let accepted = api.service.retry_dead(&ask.task_id()?, DoorName::Http).map_err(Box::<Problem>::from)?;
    kept(&accepted).await?;
    Ok(accepted_answer(&accepted))
}

fn purge(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let id = ask.task_id()?;
    api.service.purge_dead(&id).map_err(|failure| Problem::of_failure(failure, Some(id)))?;
    Ok(json_of(StatusCode::OK, &json!({ "purged": 1 })))
}

fn retry_all(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let revived = api.service.retry_dead_all(&filter(ask)?, DoorName::Http);
    Ok(json_of(StatusCode::OK, &revived))
}

fn purge_all(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let purged = api.service.purge_dead_all(&filter(ask)?);
    Ok(json_of(StatusCode::OK, &json!({ "purged": purged })))
}

fn schedules(api: &Arc<Api>, _: &mut Ask) -> Answered {
    Ok(json_of(StatusCode::OK, &json!({ "schedules": api.service.schedules() })))
}
