//! One task by its id: look at it, wait for it, take it, cancel it, ask for it again, ask why.
//!
//! Not here: handing one in (`submit.rs`), following what it says (`follow.rs`).

use super::Api;
use super::ask::{Answered, Ask, json_of};
use super::problem::Problem;
use super::submit::{accepted_answer, hold, kept};
use super::view::whole_task;
use hyper::StatusCode;
use millpond_tasks::{DoorName, ErrorCode, Stage, Task, TaskFailure, TaskId};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::oneshot;

/// `GET /v1/tasks/{id}`.
pub(super) async fn get(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let task = find(api, ask)?;
    if let Some(wait) = ask.wait(api.settings.wait_max)? {
        hold(api, ask, &task, wait).await?;
    }
    Ok(whole_task(StatusCode::OK, &task))
}

/// `DELETE /v1/tasks/{id}`.
pub(super) fn take(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let id = ask.task_id()?;
    let task = api.service.take(&id).map_err(|failure| Problem::of_failure(failure, Some(id)))?;
    Ok(whole_task(StatusCode::OK, &task))
}

/// `POST /v1/tasks/{id}/cancel`.
pub(super) async fn cancel(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let id = ask.task_id()?;
    let (tell, told) = oneshot::channel();
    api.service.cancel_then(&id, move |cancelled| {
        // Who waited may have left.
        let _ = tell.send(cancelled);
    });
    let gone = || TaskFailure::new(ErrorCode::Draining, "the daemon ended before that was kept");
    let cancelled = told.await.unwrap_or_else(|_| Err(gone()));
    let task = cancelled.map_err(|failure| Problem::of_failure(failure, Some(id)))?;
    Ok(whole_task(StatusCode::OK, &task))
}

/// `POST /v1/tasks/{id}/retry`.
pub(super) async fn retry(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let accepted = api.service.retry(&ask.task_id()?, DoorName::Http).map_err(Box::<Problem>::from)?;
    kept(&accepted).await?;
    Ok(accepted_answer(&accepted))
}

/// `GET /v1/tasks/{id}/why`.
pub(super) fn why(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    #[derive(Serialize)]
    struct Why<'a> {
        task_id: &'a TaskId,
        stage: Stage,
        why: String,
    }
    let task = find(api, ask)?;
    let task_id = task.id();
    Ok(json_of(StatusCode::OK, &Why { task_id, stage: task.status().stage, why: task.why() }))
}

/// The task that the address names.
pub(super) fn find(api: &Api, ask: &Ask) -> Result<Arc<Task>, Box<Problem>> {
    let id = ask.task_id()?;
    api.service.get(&id).map_err(|failure| Problem::of_failure(failure, Some(id)))
}
