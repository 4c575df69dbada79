//! The API as programs read it: an OpenAPI 3.1 document, made from the table of routes.
//!
//! Not here: the shapes of the JSON (`schemas.rs`), the same for people (`docs/http.md`).

use super::problem::PROBLEM_TYPE;
use super::routes::{Kind, Parameter, Place, ROUTES, Reaction, Role, Route, Shape};
use super::schemas;
use millpond_tasks::Limits;
use serde_json::{Map, Value, json};

/// How every route but the open ones may be refused.
const SHARED_PROBLEMS: &[u16] = &[400, 401, 403, 421, 503];
/// How every route with a body may be refused too.
const BODY_PROBLEMS: &[u16] = &[408, 413, 415];
/// How the open ones may be refused: a host or an origin that is not ours, a query.
const OPEN_PROBLEMS: &[u16] = &[400, 403, 421, 503];

/// The whole document, with the limits of this daemon in it.
pub(super) fn document(limits: &Limits, batch_max: usize) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let at = paths.entry(route.path).or_insert_with(|| json!({}));
        at[route.verb.name().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "millpond",
            "summary": "A worker pool: hand in tasks, read results as they are produced.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas::all(limits, batch_max),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut answers = Map::new();
    for reaction in route.answers {
        answers.insert(reaction.status.to_string(), answer(reaction));
    }
    for status in problems(route) {
        let problem = json!({ "schema": reference("Problem") });
        let answer = json!({ "description": "It was refused.", "content": { PROBLEM_TYPE: problem } });
        answers.entry(status.to_string()).or_insert(answer);
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "parameters": route.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": answers,
    });
    if let Some(shape) = route.body {
        operation["requestBody"] =
            json!({ "required": shape.schema.is_some(), "content": content(&[shape]) });
    }
    if route.role != Role::Open {
        // Without a token where none is set.
        operation["security"] = json!([{}, { "token": [] }]);
    }
    operation
}

/// Every status with which a route may be refused.
pub(super) fn problems(route: &Route) -> Vec<u16> {
    let shared = if route.role == Role::Open { OPEN_PROBLEMS } else { SHARED_PROBLEMS };
    let of_body = if route.body.is_some() { BODY_PROBLEMS } else { &[] };
    let mut all = [shared, of_body, route.problems].concat();
    all.sort_unstable();
    all.dedup();
    all
}

fn answer(reaction: &Reaction) -> Value {
    let mut answer = json!({ "description": reaction.about });
    if !reaction.shapes.is_empty() {
        answer["content"] = content(reaction.shapes);
    }
    answer
}

fn content(shapes: &[Shape]) -> Value {
    let schema = |shape: &Shape| shape.schema.map_or_else(|| json!({ "type": "string" }), reference);
    shapes.iter().map(|shape| (shape.media.to_owned(), json!({ "schema": schema(shape) }))).collect()
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Time => {
            json!({ "type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h)?$", "examples": ["500ms"] })
        }
        Kind::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        Kind::Text(bytes_max) => json!({ "type": "string", "maxLength": bytes_max }),
        Kind::Key(max) => json!({ "type": "string", "pattern": "^[!#-~]([ -~]*[!-~])?$", "maxLength": max }),
        Kind::Any => json!({ "type": "string" }),
        Kind::TaskId => {
            let no_quote_first = "^[!#-~][ -~]*$";
            json!({ "type": "string", "pattern": no_quote_first, "maxLength": 128, "examples": ["t1"] })
        }
    };
    let place = match parameter.place {
        Place::Query => "query",
        Place::Header => "header",
        Place::Path => "path",
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.place == Place::Path,
        "description": parameter.about,
        "schema": schema,
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        Value::String(text) if key == "$ref" => found.push(text),
                        value => references(value, found),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_shape_that_is_named_is_there_and_every_one_there_is_named() {
        let document = document(&Limits::default(), 10);
        let mut named = Vec::new();
        references(&document, &mut named);
        let named: std::collections::BTreeSet<_> =
            named.iter().map(|name| name.strip_prefix("#/components/schemas/").unwrap()).collect();
        let there = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(
            named.into_iter().collect::<Vec<_>>(),
            there.keys().map(String::as_str).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_variable_in_a_path_is_a_parameter() {
        for route in ROUTES {
            let variable = route.path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            let named = route.parameters.iter().find(|parameter| parameter.place == Place::Path);
            assert_eq!(
                variable.map(|(name, _)| name),
                named.map(|parameter| parameter.name),
                "{}",
                route.path
            );
        }
    }
}
