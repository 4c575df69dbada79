//! Lists of tasks: newest first, filtered, a page at a time.
//!
//! A page ends at a place in the order of acceptance, and the next one goes on from there: tasks that come
//! are newer than every page, tasks that go leave a gap, and nothing is shown twice. Only what is shown is
//! put into words, and one page looks at a bounded number of tasks, so a search for what is nowhere does not
//! hold up whoever asked: its page is short, and says where to go on.
//!
//! Not here: the order itself (`order.rs`, `list.rs`).

use crate::error::ErrorCode;
use crate::service::ServiceHandle;
use crate::status::TaskStatus;
use crate::task::{Stage, Task};
use memchr::memmem::Finder;
use serde::{Serialize, Serializer};
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The most tasks that one list shows.
pub const LIST_MAX: usize = 10_000;
/// How many tasks a page has if nobody says.
const PAGE_TASKS: usize = 100;
/// How many tasks one page looks at.
const LOOKED_AT_MAX: usize = 20_000;
/// How much of the arguments is searched.
const SEARCHED_BYTES_MAX: usize = 4096;

/// Which tasks a list shows.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those at this stage.
    pub stage: Option<Stage>,
    /// Only those of this handler.
    pub handler: Option<String>,
    /// Only those that ended so.
    pub error: Option<ErrorCode>,
    /// Only those with this text in their id, the name of their handler, the beginning of their arguments (4
    /// KiB) or the message of their error.
    pub query: Option<String>,
    /// How many, [`LIST_MAX`] at most; without, 100.
    pub max: Option<usize>,
    /// Only those that a page which ended here has not reached.
    pub before: Option<Cursor>,
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u64);

/// Some of the tasks that are known.
#[derive(Clone, Debug, Serialize)]
pub struct ListPage {
    /// Newest first.
    pub tasks: Vec<TaskStatus>,
    /// Where to go on, if there may be more. A page may have no tasks and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// How many tasks are known, whatever the filter.
    pub known: usize,
}

impl ServiceHandle {
    /// Tasks that are known, newest first. Looks at as many as it takes.
    pub fn list(&self, filter: &ListFilter) -> Vec<TaskStatus> {
        self.look_through(filter, usize::MAX).tasks
    }

    /// One page of the tasks that are known, newest first.
    pub fn list_page(&self, filter: &ListFilter) -> ListPage {
        self.look_through(filter, LOOKED_AT_MAX)
    }

    fn look_through(&self, filter: &ListFilter, looked_at_max: usize) -> ListPage {
        let list = &self.shared.list;
        let max = filter.max.unwrap_or(PAGE_TASKS).min(LIST_MAX);
        let finder = filter.query.as_deref().map(Finder::new);
        let mut page = ListPage { tasks: Vec::new(), next: None, known: list.len() };
        if max == 0 {
            return page;
        }
        let mut end = None;
        for (looked_at, task) in list.newest(filter.before.map_or(u64::MAX, |cursor| cursor.0)).enumerate() {
            if page.tasks.len() == max || looked_at == looked_at_max {
                page.next = end;
                break;
            }
            end = Some(Cursor(task.sequence));
            if filter.fits(&task, finder.as_ref()) {
                page.tasks.push(task.status());
            }
        }
        page
    }
}

impl ListFilter {
    /// From cheap to dear.
    fn fits(&self, task: &Task, finder: Option<&Finder<'_>>) -> bool {
        self.handler.as_ref().is_none_or(|handler| task.handler() == handler)
            && self.error.is_none_or(|code| task.outcome().is_some_and(|end| end.status() == code.number()))
            && self.stage.is_none_or(|stage| task.lock().stage == stage)
            && finder.is_none_or(|finder| says(task, finder))
    }
}

/// Whether a text is in what is known of a task.
fn says(task: &Task, finder: &Finder<'_>) -> bool {
    let has = |text: &[u8]| finder.find(text).is_some();
    let args = task.args().get().as_bytes();
    has(task.handler().as_bytes())
        || has(&args[..args.len().min(SEARCHED_BYTES_MAX)])
        || has(task.id().to_string().as_bytes())
        || task.outcome().and_then(|end| end.result().err()).is_some_and(|no| has(no.message.as_bytes()))
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Cursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl Serialize for Cursor {
    /// As a text, which nobody is tempted to calculate with.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
