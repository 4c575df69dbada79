//! The shapes of all JSON that comes in or goes out, as JSON Schema.
//!
//! They are written by hand, because most of the JSON is: outcomes and refusals are written without a struct
//! that could describe them. Objects that go out are open, so that a field may be added; the request, which
//! comes in, is closed, because the daemon refuses what it does not know. The generated tests hold what the
//! daemon really answers against them.

use millpond_tasks::error::TABLE;
use millpond_tasks::{Limits, Stage};
use serde_json::{Map, Value, json};

/// All shapes by name, with the limits of this daemon in them.
pub(super) fn all(limits: &Limits, batch_max: usize) -> Map<String, Value> {
    let shapes = [
        ("Batch", batch(batch_max)),
        ("BatchAnswer", batch_answer()),
        ("DeadLetter", dead_letter()),
        ("DeadPage", dead_page()),
        ("Handlers", handlers()),
        ("Health", object(&[("status", json!({ "enum": ["ok", "ready"] }))], &[])),
        ("OpenApi", json!({ "type": "object", "required": ["openapi", "info", "paths"] })),
        ("Problem", problem()),
        ("Purged", object(&[("purged", count())], &[])),
        ("Request", request(limits)),
        ("Revived", object(&[("retried", count()), ("refused", list(text())), ("left", count())], &[])),
        ("Schedules", schedules()),
        ("Stats", json!({ "type": "object" })),
        ("Success", success()),
        ("Task", task()),
        ("TaskId", task_id()),
        ("TaskPage", task_page()),
        ("Version", version()),
        ("Why", why()),
        ("Workers", workers()),
    ];
    shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// An object with fields that are always there, and others.
fn object(always: &[(&str, Value)], perhaps: &[(&str, Value)]) -> Value {
    let fields: Map<_, _> =
        always.iter().chain(perhaps).map(|(name, shape)| ((*name).to_owned(), shape.clone())).collect();
    let required: Vec<_> = always.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": fields, "required": required })
}

fn of(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn number() -> Value {
    json!({ "type": "number" })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn task_id() -> Value {
    json!({
        "description": "A whole number, or a text of 1 to 128 bytes. The daemon's own look like t17.",
        "oneOf": [
            { "type": "integer", "minimum": 0, "maximum": u64::MAX },
            { "type": "string", "minLength": 1, "maxLength": 128 },
        ],
    })
}

fn request(limits: &Limits) -> Value {
    let label = json!({ "type": ["string", "null"], "minLength": 1, "maxLength": 64, "pattern": "^[ -~]+$" });
    let milliseconds =
        |least: u64, most: u64| json!({ "type": ["integer", "null"], "minimum": least, "maximum": most });
    json!({
        "type": "object",
        "description": "What somebody asks for: a handler by name, or by its opcode.",
        "properties": {
            "task_id": {
                "description": "What the client calls the task; without, the daemon gives it an id.",
                "oneOf": [
                    { "type": "integer", "minimum": 0, "maximum": (1_u64 << 53) - 1 },
                    { "type": "string", "minLength": 1, "maxLength": 32, "pattern": "^[A-Za-su-z0-9_.-]+$" },
                    { "type": "null" },
                ],
            },
            "opcode": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
            "handler": { "type": "string", "pattern": "^[a-z0-9_.-]{1,64}$" },
            "args": { "type": "object" },
            "priority": {
                "oneOf": [
                    { "enum": ["low", "normal", "high"] },
                    { "type": "integer", "minimum": 0, "maximum": 255 },
                    { "type": "null" },
                ],
            },
            "affinity": label,
            "timeout_ms": milliseconds(1, limits.timeout_ms_max),
            "delay_ms": milliseconds(0, limits.delay_ms_max),
            "run_at": {
                "description": "When it is to run, in place of a delay: RFC 3339, or Unix time in milliseconds.",
                "oneOf": [
                    { "type": "integer", "minimum": 0, "maximum": 1_u64 << 40 },
                    { "type": "string", "format": "date-time" },
                    { "type": "null" },
                ],
            },
            "expires_ms": milliseconds(1, limits.expires_ms_max),
            "retries": { "type": ["integer", "null"], "minimum": 0, "maximum": limits.retries_max },
            "idempotency_key": label,
            "unique_key": label,
            "traceparent": {
                "type": ["string", "null"],
                "pattern": "^0[0-9a-f]-[1-9a-f][0-9a-f]{31}-[1-9a-f][0-9a-f]{15}-[0-9a-f]{2}$",
            },
        },
        "oneOf": [{ "required": ["handler"] }, { "required": ["opcode"] }],
        "additionalProperties": false,
        "examples": [{ "handler": "echo", "args": { "text": "hello" } }],
    })
}

fn batch(batch_max: usize) -> Value {
    // One that is wrong is refused for itself, and the others are taken in.
    let any = json!({ "anyOf": [of("Request"), true] });
    json!({ "type": "array", "items": any, "minItems": 1, "maxItems": batch_max })
}

fn batch_answer() -> Value {
    let accepted = object(&[("status", json!({ "const": 202 })), ("task", of("Task"))], &[]);
    let refused = object(&[("status", count()), ("problem", of("Problem"))], &[]);
    object(&[("tasks", list(json!({ "oneOf": [accepted, refused] })))], &[])
}

fn problem() -> Value {
    let always = [
        ("type", json!({ "type": "string", "pattern": "^urn:millpond:error:[a-z-]+$" })),
        ("title", text()),
        ("status", json!({ "type": "integer", "minimum": 400, "maximum": 599 })),
        ("detail", text()),
        ("code", text()),
    ];
    let perhaps = [
        ("number", json!({ "type": "integer", "maximum": 0 })),
        ("task_id", of("TaskId")),
        ("instance", text()),
        ("request_id", text()),
        ("retry_after_ms", count()),
        ("line", count()),
        ("column", count()),
    ];
    object(&always, &perhaps)
}

fn success() -> Value {
    let always = [
        ("task_id", of("TaskId")),
        ("status", json!({ "const": 0 })),
        ("result", json!(true)),
        ("attempts", count()),
        ("waited_us", count()),
        ("ran_us", count()),
    ];
    object(&always, &[])
}

fn task() -> Value {
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
    let errors: Vec<_> = TABLE.iter().map(|row| row.name).collect();
    let always = [
        ("task_id", of("TaskId")),
        ("handler", text()),
        ("stage", json!({ "enum": stages })),
        ("attempts", count()),
        ("age_us", count()),
        ("accepted_at", json!({ "type": "string", "format": "date-time" })),
        ("accepted_at_ms", count()),
        ("priority", json!({ "enum": ["low", "normal", "high"] })),
        ("door", text()),
        ("events", count()),
    ];
    let one_try = object(
        &[("attempt", count()), ("began_after_us", count()), ("ran_us", count())],
        &[("worker", count()), ("error", text()), ("message", text())],
    );
    let perhaps = [
        ("worker", count()),
        ("progress", number()),
        ("waited_us", count()),
        ("ran_us", count()),
        ("status", json!({ "type": "integer", "maximum": 0 })),
        ("error", json!({ "enum": errors })),
        ("message", text()),
        ("args", json!({ "type": "object" })),
        ("result", json!(true)),
        ("tries", list(one_try)),
        ("timeout_ms", count()),
        ("retries", count()),
        ("traceparent", text()),
        ("due_at_ms", count()),
        ("expires_at_ms", count()),
        ("unique_key", text()),
        ("checkpoint", json!(true)),
    ];
    object(&always, &perhaps)
}

fn dead_letter() -> Value {
    let always = [
        ("task_id", of("TaskId")),
        ("handler", text()),
        ("args", json!({ "type": "object" })),
        ("priority", json!({ "enum": ["low", "normal", "high"] })),
        ("retries", count()),
        ("attempts", count()),
        ("accepted_at_ms", count()),
        ("died_at_ms", count()),
        ("error", text()),
        ("message", text()),
    ];
    let perhaps = [("timeout_ms", count()), ("traceparent", text()), ("checkpoint", json!(true))];
    object(&always, &perhaps)
}

fn dead_page() -> Value {
    let next = json!({ "type": ["integer", "null"], "minimum": 0 });
    let enabled = json!({ "type": "boolean" });
    object(
        &[("letters", list(of("DeadLetter"))), ("kept", count()), ("enabled", enabled), ("next", next)],
        &[],
    )
}

fn schedules() -> Value {
    let always = [
        ("name", text()),
        ("cron", text()),
        ("time_zone", text()),
        ("handler", text()),
        ("next_ms", list(count())),
        ("fired", count()),
        ("skipped", count()),
        ("refused", count()),
    ];
    let perhaps = [("last_ms", count()), ("last_task", of("TaskId")), ("last_refusal", text())];
    object(&[("schedules", list(object(&always, &perhaps)))], &[])
}

fn task_page() -> Value {
    object(&[("tasks", list(of("Task"))), ("known", count())], &[("next", text())])
}

fn why() -> Value {
    object(&[("task_id", of("TaskId")), ("stage", text()), ("why", text())], &[])
}

fn version() -> Value {
    object(
        &[("name", json!({ "const": "millpond" })), ("version", text()), ("api", json!({ "const": "v1" }))],
        &[],
    )
}

fn handlers() -> Value {
    let times = object(&[("p50_us", number()), ("p99_us", number()), ("max_us", number())], &[]);
    let always = [
        ("name", text()),
        ("summary", text()),
        ("opcodes", list(count())),
        ("accepted", count()),
        ("succeeded", count()),
        ("failed", count()),
        ("waited", times.clone()),
        ("ran", times),
    ];
    let perhaps = [("example", json!({ "type": "object" })), ("own", json!(true))];
    object(&[("handlers", list(object(&always, &perhaps)))], &[])
}

fn workers() -> Value {
    let always = [
        ("worker", count()),
        ("state", text()),
        ("is_busy", json!({ "type": "boolean" })),
        ("completed", count()),
        ("queued", count()),
        ("utilisation", number()),
        ("stolen", count()),
    ];
    let perhaps = [("handler", text()), ("task_id", of("TaskId"))];
    object(&[("workers", list(object(&always, &perhaps))), ("strategy", text())], &[])
}
