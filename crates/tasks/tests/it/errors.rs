//! One table serves four languages, so a number or a name that means two things, or a page that says
//! something else than the code, would mislead whoever wrote a client from it.

use millpond_tasks::error::{TABLE, UnknownCode, markdown};
use millpond_tasks::{ErrorCode, Position, TaskFailure};
use std::collections::BTreeSet;

#[test]
fn numbers_go_down_and_names_are_unique() {
    assert!(TABLE.windows(2).all(|rows| rows[0].number > rows[1].number), "not in order, or not unique");
    let names: BTreeSet<_> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len());
}

#[test]
fn the_codes_of_the_specification_are_as_specified() {
    let specified = TABLE.iter().filter(|row| row.number > -100).map(|row| row.code).collect::<Vec<_>>();
    assert_eq!(
        specified,
        [
            ErrorCode::Ok,
            ErrorCode::UnknownHandler,
            ErrorCode::InvalidRequest,
            ErrorCode::UnknownSymbol,
            ErrorCode::OutOfMemory,
            ErrorCode::HandlerCrashed,
            ErrorCode::TimedOut
        ]
    );
    assert_eq!(specified.into_iter().map(i32::from).collect::<Vec<_>>(), [0, -1, -2, -3, -4, -5, -6]);
    assert!(TABLE[7..].iter().all(|row| row.number < -100));
}

#[test]
fn every_row_is_found_by_number_and_by_name() {
    for row in TABLE {
        assert_eq!(row.code.number(), row.number);
        assert_eq!(ErrorCode::try_from(row.number), Ok(row.code));
        assert_eq!(ErrorCode::from_name(row.name), Some(row.code));
        assert_eq!(row.code.to_string(), row.name);
        assert_eq!(row.code.row(), *row);
    }
    assert_eq!(ErrorCode::try_from(-7), Err(UnknownCode(-7)));
    assert_eq!(UnknownCode(-7).to_string(), "expected a code of the error table, got -7; see docs/errors.md");
    assert_eq!(ErrorCode::from_name("Ok"), None);
}

#[test]
fn names_statuses_and_sentences_keep_their_form() {
    for row in TABLE {
        assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", row.name);
        assert_eq!(row.http_status == 200, row.number == 0, "{}", row.name);
        assert!((200..600).contains(&row.http_status), "{}", row.name);
        assert!(row.sentence.ends_with('.') && !row.sentence.contains('|'), "{}", row.name);
    }
}

#[test]
fn the_page_agrees_with_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page == markdown(), "docs/errors.md is stale; it should hold:\n{}", markdown());
}

#[test]
fn a_failure_says_code_message_and_place() {
    let mut failure = TaskFailure::new(ErrorCode::QueueFull, "1024 of 1024 waiting");
    assert_eq!(failure.to_string(), "queue-full (-102): 1024 of 1024 waiting");
    failure.at = Some(Position { line: 2, column: 7 });
    assert_eq!(failure.to_string(), "queue-full (-102): 1024 of 1024 waiting (line 2, column 7)");
    assert_eq!(TaskFailure::new(ErrorCode::Cancelled, "").to_string(), "cancelled (-101)");
}
