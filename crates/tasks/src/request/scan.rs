//! Three questions to a text that may be anything: is it within the limits, where in it is a byte, whose is
//! it?
//!
//! The first is asked before a parser sees the text, so that hostile input costs a walk over its bytes and no
//! memory. The other two are asked only about a text that is being refused.
//!
//! Not here: the tokens (`tokens.rs`) and the words of an error (`problem.rs`).

use super::limits::Limits;
use super::problem::Problem;
use super::task_id::TaskId;
use super::tokens::{Token, Tokens};
use crate::error::ErrorCode;
use std::ops::Range;
use std::str;

/// Depth and string lengths of a text that lies within `around` others. Escapes count as they are written.
pub(super) fn check(text: &[u8], around: u64, limits: &Limits) -> Result<(), Problem> {
    let mut depth = around;
    for (token, place) in Tokens::of(text) {
        match token {
            Token::OpenObject | Token::OpenArray => {
                depth += 1;
                if depth > limits.depth_max {
                    let message =
                        format!("expected at most {} levels of nesting, got more", limits.depth_max);
                    return Err(Problem::new(ErrorCode::TooLarge, place.start, message));
                }
            }
            Token::Close => depth = depth.saturating_sub(1).max(around),
            Token::String => {
                let bytes = inside(text, place.clone()).len();
                if bytes as u64 > limits.string_bytes_max {
                    let max = limits.string_bytes_max;
                    let message = format!("expected a string of at most {max} bytes, got {bytes}");
                    return Err(Problem::new(ErrorCode::TooLarge, place.start, message));
                }
            }
            Token::Colon | Token::Comma | Token::Word => {}
        }
    }
    Ok(())
}

/// What stands between the quotes of a string; the second one may be missing.
fn inside(text: &[u8], place: Range<usize>) -> &[u8] {
    let content = &text[place.start + 1..place.end];
    let escaped = content.iter().rev().skip(1).take_while(|byte| **byte == b'\\').count() % 2 == 1;
    if escaped { content } else { content.strip_suffix(b"\"").unwrap_or(content) }
}

/// The id of a request that is refused, so that whoever waits for it hears of it.
///
/// The text need not be JSON. An id counts if the outermost object says `"task_id": id` exactly once and
/// whole, with a comma or a bracket before and behind; anything less might be the beginning of another id.
pub(super) fn find_id(text: &[u8]) -> Option<TaskId> {
    let mut found = None;
    let mut depth = 0_u64;
    let mut previous = Token::Close;
    let mut tokens = Tokens::of(text);
    while let Some((token, place)) = tokens.next() {
        let starts_entry = matches!(previous, Token::OpenObject | Token::Comma);
        previous = token;
        match token {
            Token::OpenObject | Token::OpenArray => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::String if depth == 1 && starts_entry && &text[place.clone()] == b"\"task_id\"" => {
                let (Some((Token::Colon, _)), Some((_, value))) = (tokens.next(), tokens.next()) else {
                    return None;
                };
                let (end, _) = tokens.next()?;
                let whole = matches!(end, Token::Comma | Token::Close);
                let id = str::from_utf8(&text[value]).ok().and_then(TaskId::from_json);
                if !whole || found.is_some() {
                    return None;
                }
                found = Some(id?);
                depth -= u64::from(end == Token::Close);
                previous = end;
            }
            Token::String | Token::Colon | Token::Comma | Token::Word => {}
        }
    }
    found
}

/// One step from the outermost object to a value.
enum Step {
    Object(Option<Range<usize>>),
    Array(u64),
}

const STEPS_SHOWN_MAX: usize = 8;
const KEY_CHARACTERS_MAX: usize = 40;

/// The way to the byte at `offset`: `args.list[3].url`. Empty for the outermost object.
///
/// The text up to there must be within the limits, or the way could be as long as the text.
pub(super) fn path(text: &[u8], offset: usize) -> String {
    let mut steps = Vec::new();
    let mut key_comes = false;
    for (token, place) in Tokens::of(text).take_while(|(_, place)| place.start < offset) {
        match token {
            Token::OpenObject => steps.push(Step::Object(None)),
            Token::OpenArray => steps.push(Step::Array(0)),
            Token::Close => drop(steps.pop()),
            Token::Comma => match steps.last_mut() {
                Some(Step::Object(key)) => *key = None,
                Some(Step::Array(index)) => *index += 1,
                None => {}
            },
            Token::String if key_comes => {
                if let Some(Step::Object(key)) = steps.last_mut() {
                    *key = Some(place.start + 1..place.start + 1 + inside(text, place.clone()).len());
                }
            }
            Token::String | Token::Colon | Token::Word => {}
        }
        key_comes = matches!(token, Token::OpenObject | Token::Comma);
    }
    let mut path = String::new();
    for step in steps.iter().take(STEPS_SHOWN_MAX) {
        match step {
            Step::Object(Some(key)) => push_key(&mut path, &String::from_utf8_lossy(&text[key.clone()])),
            Step::Object(None) => {}
            Step::Array(index) => path.push_str(&format!("[{index}]")),
        }
    }
    if steps.len() > STEPS_SHOWN_MAX {
        path.push('…');
    }
    path
}

fn push_key(path: &mut String, key: &str) {
    let plain = |character: char| character.is_alphanumeric() || "_-".contains(character);
    let short: String = key.chars().take(KEY_CHARACTERS_MAX).collect();
    if short != key || key.is_empty() || !key.chars().all(plain) {
        let more = if short == key { "" } else { "…" };
        // A key may hold raw control characters if the text is not JSON; they are shown and not printed.
        path.push_str(&format!("[{short:?}{more}]"));
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(text: &str, needle: &str) -> String {
        path(text.as_bytes(), text.find(needle).unwrap())
    }

    #[test]
    fn a_path_leads_to_the_byte() {
        let text = r#"{"a": 1, "args": {"list": [0, {"x y": 22}], "url": 3}, "b": 4}"#;
        assert_eq!(way(text, "1"), "a");
        assert_eq!(way(text, "22"), r#"args.list[1]["x y"]"#);
        assert_eq!(way(text, "3"), "args.url");
        assert_eq!(way(text, "4"), "b");
        assert_eq!(way(text, "{"), "");
        assert_eq!(way(text, r#""b""#), "", "a key is no part of the way to itself");
        assert_eq!(way(r#"{"args": [[[[[[[[[[7"#, "7"), "args[0][0][0][0][0][0][0]…");
    }

    fn id(text: &str) -> Option<String> {
        find_id(text.as_bytes()).map(|id| id.to_string())
    }

    #[test]
    fn an_id_is_found_in_text_that_is_not_json() {
        for text in [
            r#"{"task_id": 17}"#,
            r#"{"task_id": 17, "handler": nonsense"#,
            r#"{"handler": NaN, "task_id" : 17 }"#,
            r#"{"args": {"task_id": 3}, "task_id": 17, "x": "#,
        ] {
            assert_eq!(id(text).as_deref(), Some("17"), "{text}");
        }
        assert_eq!(id(r#"{"a":, "task_id":"x"}}}"#).as_deref(), Some("\"x\""));
    }

    #[test]
    fn an_id_that_might_be_another_is_not_given() {
        for text in [
            r#"{"task_id": 17"#,
            r#"{"task_id": 17 18}"#,
            r#"{"task_id": 17, "task_id": 18}"#,
            r#"{"task_id": 17, "task_id": 17}"#,
            r#"{"task_id": 17} {"task_id": 18}"#,
            r#"{"args": {"task_id": 17}}"#,
            r#"["task_id", 17]"#,
            r#"{"a" "task_id": 17}"#,
            r#"{"a": "task_id", 17}"#,
            r#"{"task_id": -1}"#,
            r#"{"task_id"#,
            r#""task_id": 17,"#,
        ] {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn the_length_of_a_string_is_what_stands_between_its_quotes() {
        let length = |text: &str| inside(text.as_bytes(), 0..text.len()).len();
        assert_eq!(length(r#""abc""#), 3);
        assert_eq!(length(r#""abc"#), 3);
        assert_eq!(length(r#""ab\""#), 4, "the last quote is escaped");
        assert_eq!(length(r#""ab\\""#), 4);
        assert_eq!(length(r#"""#), 0);
    }
}
