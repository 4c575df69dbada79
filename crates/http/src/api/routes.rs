//! Every address of the door, in one table: the router, the OpenAPI document and the page in `docs` read it.
//!
//! What is asked a hundred thousand times a second stands first, since the table is searched from its top.
//! A pattern has one variable part at most, which is one segment, so a path is compared and never taken
//! apart.
//!
//! Not here: what the routes do, and the shapes they name (`schemas.rs`).

use super::ask::{Answered, Ask, JSON_TYPE, LINES_TYPE};
use super::{Api, about, batch, bulk, dead, events, follow, list, submit, task};
use hyper::Method;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// One address and one method.
pub(crate) struct Route {
    pub(super) verb: Verb,
    /// With at most one `{variable}`.
    pub(super) path: &'static str,
    /// What programs call it.
    pub(super) name: &'static str,
    /// One sentence.
    pub(super) summary: &'static str,
    /// What is allowed to whom.
    pub(super) role: Role,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Shape>,
    /// What comes back if all is well.
    pub(super) answers: &'static [Reaction],
    /// With which statuses it may be refused, beside those that every route shares.
    pub(super) problems: &'static [u16],
    pub(super) act: Act,
}

/// The methods that routes have. HEAD is GET, and OPTIONS is answered for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

/// What a route needs, and what a token gives; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Anybody.
    Open,
    /// Whoever may look.
    Read,
    /// Whoever may change something.
    Write,
}

/// Something a client may say beside the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

/// Where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Query,
    Header,
    Path,
}

/// What it may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A time with its unit.
    Time,
    /// A whole number.
    Count(u64, u64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text of at most so many characters.
    Text(usize),
    /// A text of 1 to so many visible characters, with spaces between them.
    Key(usize),
    /// Any text: what cannot be read is passed over.
    Any,
    /// The id of a task.
    TaskId,
}

/// A body: its media type, and its schema if it is JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) media: &'static str,
    pub(super) schema: Option<&'static str>,
}

/// One way in which a route answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaction {
    pub(super) status: u16,
    pub(super) shapes: &'static [Shape],
    pub(super) about: &'static str,
}

/// What a route does.
pub(super) enum Act {
    /// Without waiting for anything.
    Now(fn(&Arc<Api>, &mut Ask) -> Answered),
    /// After reading the body, or later still.
    Later(for<'a> fn(&'a Arc<Api>, &'a mut Ask) -> Later<'a>),
}

/// An answer that takes its time.
pub(super) type Later<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

pub(super) const fn json(schema: &'static str) -> Shape {
    Shape { media: JSON_TYPE, schema: Some(schema) }
}

pub(super) const fn reaction(status: u16, shapes: &'static [Shape], about: &'static str) -> Reaction {
    Reaction { status, shapes, about }
}

pub(super) const fn query(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, kind, about }
}

const fn header(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Header, kind, about }
}

const TASK: &[Shape] = &[json("Task")];
const LINES: Shape = Shape { media: LINES_TYPE, schema: None };
const EVENT_STREAM: Shape = Shape { media: follow::EVENTS_TYPE, schema: None };
pub(super) const ID: Parameter = Parameter {
    name: "id",
    place: Place::Path,
    kind: Kind::TaskId,
    about: "The task's id: `17`, `t17`, `job-1`; a text that looks like a number stands in quotes.",
};
const WAIT: Parameter = query(
    "wait",
    Kind::Time,
    "How long to wait for the end, for example `5s`, `500ms` or `5`; `web.wait_max` at most.",
);
const PREFER: Parameter = header("Prefer", Kind::Any, "`wait=5` is the same as `?wait=5s`.");
const IDEMPOTENCY_KEY: Parameter = header(
    "Idempotency-Key",
    Kind::Key(256),
    "The same as the field `idempotency_key`: a request that comes again with its key is not run again.",
);
const TRACEPARENT: Parameter = header(
    "traceparent",
    Kind::Any,
    "The same as the field `traceparent`: the trace that the task continues.",
);

/// The table.
pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/healthz",
        name: "health",
        summary: "Whether the daemon lives.",
        role: Role::Open,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Health")], "It lives.")],
        problems: &[],
        act: Act::Now(about::health),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/exec",
        name: "execute",
        summary: "Runs a task and answers with its result; the outcome is kept only if there is a key.",
        role: Role::Write,
        parameters: &[IDEMPOTENCY_KEY, TRACEPARENT],
        body: Some(json("Request")),
        answers: &[reaction(200, &[json("Success")], "What the handler answered.")],
        problems: &[403, 409, 410, 422, 500, 504],
        act: Act::Later(|api, ask| Box::pin(submit::execute(api, ask))),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/tasks",
        name: "submit",
        summary: "Hands in a task; with `wait`, answers when it has ended if that is soon enough.",
        role: Role::Write,
        parameters: &[WAIT, PREFER, IDEMPOTENCY_KEY, TRACEPARENT],
        body: Some(json("Request")),
        answers: &[
            reaction(200, TASK, "It has ended, well or not."),
            reaction(202, TASK, "It was accepted; `Location` says where to look."),
        ],
        problems: &[403, 409, 410, 422],
        act: Act::Later(|api, ask| Box::pin(submit::submit(api, ask))),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/tasks/{id}",
        name: "task",
        summary: "One task with arguments, attempts and result; with `wait`, once it has ended.",
        role: Role::Read,
        parameters: &[ID, WAIT, PREFER],
        body: None,
        answers: &[reaction(200, TASK, "The task.")],
        problems: &[404, 410],
        act: Act::Later(|api, ask| Box::pin(task::get(api, ask))),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/tasks",
        name: "tasks",
        summary: "Tasks that are known, newest first, a page at a time.",
        role: Role::Read,
        parameters: &[
            query("stage", Kind::OneOf(list::STAGES), "Only those at this stage."),
            query("handler", Kind::Text(64), "Only those of this handler."),
            query(
                "error",
                Kind::OneOf(list::ERRORS),
                "Only those that ended with the error of this name; `ok` for none.",
            ),
            query("q", Kind::Text(256), "Only those with this text in id, handler, arguments or message."),
            query("limit", Kind::Count(1, list::LIMIT_MAX), "How many; without, 100."),
            query("cursor", Kind::Count(0, u64::MAX), "Where the page before ended: its `next`."),
        ],
        body: None,
        answers: &[reaction(200, &[json("TaskPage")], "One page.")],
        problems: &[],
        act: Act::Now(list::list),
    },
    Route {
        verb: Verb::Delete,
        path: "/v1/tasks/{id}",
        name: "take",
        summary: "Takes the outcome of a task that has ended: it is shown once more and then no longer kept.",
        role: Role::Write,
        parameters: &[ID],
        body: None,
        answers: &[reaction(200, TASK, "The task, for the last time.")],
        problems: &[404, 409, 410],
        act: Act::Now(task::take),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/tasks/{id}/cancel",
        name: "cancel",
        summary: "Cancels a task, whether it waits or runs.",
        role: Role::Write,
        parameters: &[ID],
        body: None,
        answers: &[reaction(200, TASK, "The task, cancelled.")],
        problems: &[404, 409, 410],
        act: Act::Later(|api, ask| Box::pin(task::cancel(api, ask))),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/tasks/{id}/retry",
        name: "retry",
        summary: "Asks for the same once more: a new task from the request of one that has ended.",
        role: Role::Write,
        parameters: &[ID],
        body: None,
        answers: &[reaction(202, TASK, "The new task; `Location` says where to look.")],
        problems: &[404, 409, 410, 422],
        act: Act::Later(|api, ask| Box::pin(task::retry(api, ask))),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/tasks/{id}/why",
        name: "why",
        summary: "Why a task stands where it stands, in one sentence.",
        role: Role::Read,
        parameters: &[ID],
        body: None,
        answers: &[reaction(200, &[json("Why")], "The reason.")],
        problems: &[404, 410],
        act: Act::Now(task::why),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/tasks/{id}/events",
        name: "follow",
        summary: "What a task says, while it says it: partial results, progress, log lines, and its end.",
        role: Role::Read,
        parameters: &[
            ID,
            query("from", Kind::Count(0, u64::MAX), "The first event that is wanted, from 0."),
            header(
                "Last-Event-ID",
                Kind::Text(20),
                "The last event that was read; what comes after it follows.",
            ),
        ],
        body: None,
        answers: &[
            reaction(200, &[EVENT_STREAM, LINES], "The events, until the task ends."),
            reaction(204, &[], "The end was read before; there is nothing more to come."),
        ],
        problems: &[404, 406, 410],
        act: Act::Now(follow::follow),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/batch",
        name: "batch",
        summary: "Hands in many tasks at once; each is accepted or refused for itself.",
        role: Role::Write,
        parameters: &[TRACEPARENT],
        body: Some(json("Batch")),
        answers: &[reaction(200, &[json("BatchAnswer")], "One answer for each, in the same order.")],
        problems: &[],
        act: Act::Later(|api, ask| Box::pin(batch::batch(api, ask))),
    },
    Route {
        verb: Verb::Post,
        path: "/v1/bulk",
        name: "bulk",
        summary: "Hands in any number of tasks, one to a line, and answers each while it reads on.",
        role: Role::Write,
        parameters: &[
            query(
                "until",
                Kind::OneOf(bulk::UNTIL),
                "Answer when a task is `accepted`, or when it has `ended`.",
            ),
            TRACEPARENT,
        ],
        body: Some(LINES),
        answers: &[reaction(200, &[LINES], "One line for each line, in the same order.")],
        problems: &[],
        act: Act::Now(bulk::bulk),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/handlers",
        name: "handlers",
        summary: "Which handlers there are, with an example each and what became of their tasks.",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Handlers")], "All of them, by name.")],
        problems: &[],
        act: Act::Now(about::handlers),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/workers",
        name: "workers",
        summary: "What the workers of the pool are doing.",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Workers")], "All of them, by number.")],
        problems: &[],
        act: Act::Now(about::workers),
    },
    Route {
        verb: Verb::Get,
        path: "/v1/events",
        name: "events",
        summary: "What goes on in the daemon: figures at an interval, and events of the pool and of tasks.",
        role: Role::Read,
        parameters: &[query(
            "interval",
            Kind::Time,
            "How often figures come: `100ms` to `10s`; without, `250ms`.",
        )],
        body: None,
        answers: &[reaction(200, &[EVENT_STREAM], "The events, until the client leaves.")],
        problems: &[],
        act: Act::Now(events::events),
    },
    dead::LIST,
    dead::SHOW,
    dead::RETRY,
    dead::PURGE,
    dead::RETRY_ALL,
    dead::PURGE_ALL,
    dead::SCHEDULES,
    Route {
        verb: Verb::Get,
        path: "/readyz",
        name: "ready",
        summary: "Whether tasks are accepted.",
        role: Role::Open,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Health")], "They are.")],
        problems: &[503],
        act: Act::Now(about::ready),
    },
    Route {
        verb: Verb::Get,
        path: "/version",
        name: "version",
        summary: "Which version answers.",
        role: Role::Open,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Version")], "This one.")],
        problems: &[],
        act: Act::Now(about::version),
    },
    Route {
        verb: Verb::Get,
        path: "/stats",
        name: "stats",
        summary: "The door and the pool in figures.",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("Stats")], "The figures.")],
        problems: &[],
        act: Act::Now(about::stats),
    },
    Route {
        verb: Verb::Get,
        path: "/metrics",
        name: "metrics",
        summary: "The same for Prometheus, as text or as OpenMetrics.",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[about::METRICS_TEXT, about::OPEN_METRICS], "The metrics.")],
        problems: &[],
        act: Act::Now(about::metrics),
    },
    Route {
        verb: Verb::Get,
        path: "/openapi.json",
        name: "openapi",
        summary: "This description of the API.",
        role: Role::Read,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[json("OpenApi")], "The description.")],
        problems: &[],
        act: Act::Now(about::openapi),
    },
    Route {
        verb: Verb::Get,
        path: "/",
        name: "dashboard",
        summary: "The dashboard.",
        role: Role::Open,
        parameters: &[],
        body: None,
        answers: &[reaction(200, &[about::PAGE], "A page for people.")],
        problems: &[404],
        act: Act::Now(about::page),
    },
    Route {
        verb: Verb::Get,
        path: "/assets/{name}",
        name: "asset",
        summary: "A part of the dashboard.",
        role: Role::Open,
        parameters: &[Parameter {
            name: "name",
            place: Place::Path,
            kind: Kind::Text(128),
            about: "The name of the part.",
        }],
        body: None,
        answers: &[reaction(200, &[about::PART], "The part.")],
        problems: &[404],
        act: Act::Now(about::page),
    },
];

impl Verb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    fn is(self, method: &Method) -> bool {
        match self {
            Self::Get => method == Method::GET || method == Method::HEAD,
            Self::Post => method == Method::POST,
            Self::Delete => method == Method::DELETE,
        }
    }
}

impl Route {
    /// The address, with the variable part in braces.
    pub(crate) fn path(&self) -> &'static str {
        self.path
    }

    /// The name of the method.
    pub(crate) fn method(&self) -> &'static str {
        self.verb.name()
    }

    /// The variable part of a path that this route has.
    pub(super) fn variable<'p>(&self, path: &'p str) -> Option<&'p str> {
        matched(self.path, path)?
    }

    /// What may stand behind the question mark.
    pub(super) fn query(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.place == Place::Query)
    }
}

/// Whether a path has this pattern, and if so its variable part, if the pattern has one.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<Option<&'p str>> {
    let Some((before, rest)) = pattern.split_once('{') else { return (pattern == path).then_some(None) };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    let variable = path.strip_prefix(before)?.strip_suffix(after)?;
    (!variable.is_empty() && !variable.contains('/')).then_some(Some(variable))
}

/// The route for a method and a path, and its place in the table.
pub(super) fn find(method: &Method, path: &str) -> Option<(usize, &'static Route)> {
    let mut numbered = ROUTES.iter().enumerate();
    numbered.find(|(_, route)| route.verb.is(method) && matched(route.path, path).is_some())
}

/// The routes that a path has, whatever the method.
pub(super) fn at(path: &str) -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(move |route| matched(route.path, path).is_some())
}

/// The pattern that is most like a path that has none.
pub(super) fn nearest(path: &str) -> &'static str {
    // Nobody mistypes an address by a page, and the distance takes time for every pair of letters.
    let path: String = path.chars().take(128).collect();
    let distance = |route: &&Route| {
        let written = match path.rsplit('/').next() {
            Some(last) if route.path.ends_with('}') => {
                route.path.replace("{id}", last).replace("{name}", last)
            }
            _ => route.path.to_owned(),
        };
        strsim::osa_distance(&written, &path)
    };
    ROUTES.iter().min_by_key(distance).map_or("/", |route| route.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn found(method: Method, path: &str) -> Option<&'static str> {
        find(&method, path).map(|(_, route)| route.name)
    }

    #[test]
    fn a_path_finds_its_route_and_nothing_else_does() {
        assert_eq!(found(Method::GET, "/healthz"), Some("health"));
        assert_eq!(found(Method::HEAD, "/healthz"), Some("health"));
        assert_eq!(found(Method::POST, "/v1/tasks"), Some("submit"));
        assert_eq!(found(Method::GET, "/v1/tasks"), Some("tasks"));
        assert_eq!(found(Method::GET, "/v1/tasks/t1"), Some("task"));
        assert_eq!(found(Method::GET, "/v1/tasks/a%2Fb/why"), Some("why"));
        assert_eq!(found(Method::GET, "/v1/tasks/why"), Some("task"), "a task may be called so");
        for path in ["/v1/tasks/", "/v1/tasks/a/b", "/v1/tasks//why", "/V1/tasks", "/healthz/", "", "*"] {
            assert_eq!(found(Method::GET, path), None, "{path}");
        }
        assert_eq!(found(Method::PUT, "/v1/tasks"), None);
        assert_eq!(at("/v1/tasks").count(), 2);
        let (number, route) = find(&Method::POST, "/v1/tasks/t1/cancel").unwrap();
        assert_eq!(ROUTES[number].name, route.name);
        assert_eq!(route.variable("/v1/tasks/t1/cancel"), Some("t1"));
    }

    #[test]
    fn a_slip_finds_the_address_that_was_meant() {
        assert_eq!(nearest("/v1/task"), "/v1/tasks");
        assert_eq!(nearest("/health"), "/healthz");
        assert_eq!(nearest("/v1/tsaks/t17"), "/v1/tasks/{id}");
        assert_eq!(nearest("/v2/exec"), "/v1/exec");
    }

    #[test]
    fn names_are_unlike_and_no_route_hides_another() {
        let names: HashSet<_> = ROUTES.iter().map(|route| route.name).collect();
        assert_eq!(names.len(), ROUTES.len());
        for route in ROUTES {
            let path = route.path.replace("{id}", "t1").replace("{name}", "x");
            let method = Method::from_bytes(route.verb.name().as_bytes()).unwrap();
            assert_eq!(found(method, &path), Some(route.name));
        }
    }
}
