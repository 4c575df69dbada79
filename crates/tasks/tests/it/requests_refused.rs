//! What a request may not say, and the exact words of the refusal.
//!
//! A refusal is all that the sender sees. It must name the task if it can, the place, what was expected and
//! what came.

use millpond_tasks::{ErrorCode, Limits, Request, RequestError, TaskFailure};

fn refused(text: impl AsRef<[u8]>) -> RequestError {
    let text = text.as_ref();
    match Request::parse(text, &Limits::default()) {
        Ok(_) => panic!("accepted: {}", String::from_utf8_lossy(text)),
        Err(error) => error,
    }
}

/// Each text, and the whole message.
fn hold(cases: &[(&str, &str)]) {
    for (text, message) in cases {
        let error = refused(text);
        assert_eq!(error.to_string(), *message, "{text}");
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{text}");
    }
}

#[test]
fn what_is_not_json_is_refused_at_its_place() {
    hold(&[
        (r#""#, r#"expected a JSON object, got nothing (line 1, column 1)"#),
        (r#"[1]"#, r#"expected a JSON object, got an array (line 1, column 1)"#),
        (r#""x""#, r#"expected a JSON object, got the string "x" (line 1, column 1)"#),
        (r#"17"#, r#"expected a JSON object, got the number 17 (line 1, column 1)"#),
        (r#"nothing"#, r#"expected a JSON object, got "nothing" (line 1, column 1)"#),
        (r#"} {"#, r#"expected a JSON object, got '}' (line 1, column 1)"#),
        (r#"{"handler":"echo""#, r#"handler: the text ends inside an object (line 1, column 18)"#),
        (r#"{"handler":"echo",}"#, r#"expected something after the comma, got '}' (line 1, column 19)"#),
        (
            r#"{"handler":"echo"} {"handler":"echo"}"#,
            r#"expected nothing after the request, got '{' (line 1, column 20)"#,
        ),
        (r#"{"handler" "echo"}"#, r#"handler: expected `:`, got '"' (line 1, column 12)"#),
        (r#"{handler:"echo"}"#, r#"expected a key in double quotes, got handler (line 1, column 2)"#),
        (r#"{'handler':'echo'}"#, r#"expected a key in double quotes, got '\'' (line 1, column 2)"#),
        (
            r#"{"handler":"echo","args":{"x":NaN},"task_id":17}"#,
            r#"task 17: args.x: expected a JSON value, got NaN (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":-Infinity}}"#,
            r#"args.x: expected a number as JSON writes it, got -Infinity (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":True}}"#,
            r#"args.x: expected a JSON value, got True (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":1e999},"task_id":17}"#,
            r#"task 17: args.x: expected a number that fits into 64 bits, got 1e999 (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":01}}"#,
            r#"args.x: expected a number as JSON writes it, got 01 (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"list":[1,{"x":"\ud800"}]}}"#,
            r#"args.list[1].x: expected a whole character, got half of one (a lone surrogate) (line 1, column 49)"#,
        ),
        (r#"{"handler":"echo","args":{"x":"\q"}}"#, r#"args.x: invalid escape (line 1, column 33)"#),
        (r#"{"handler":"echo","args":{"x":"\u12"}}"#, r#"args.x: invalid escape (line 1, column 37)"#),
        (
            r#"{"handler":"echo","args":{"x":[1 2]}}"#,
            r#"args.x[0]: expected `,` or `]`, got 2 (line 1, column 34)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":[1}}"#,
            r#"args.x[0]: expected `,` or `]`, got '}' (line 1, column 33)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":tru}}"#,
            r#"args.x: expected a JSON value, got tru (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":"open}}"#,
            r#"args.x: the text ends inside a string (line 1, column 38)"#,
        ),
        (r#"{"handler":"echo","x":{"a":tru}}"#, r#"x.a: expected a JSON value, got tru (line 1, column 28)"#),
        (r#"ü"#, r#"expected a JSON object, got "ü" (line 1, column 1)"#),
        (r#"{"handler":"echo"}ü"#, r#"expected nothing after the request, got 'ü' (line 1, column 19)"#),
    ]);
    hold(&[(
        "{\"handler\":\"echo\",\n \"args\":{\"ü\":\"\t\"}}",
        "args.ü: expected control characters in a string to be escaped, got one as it is (line 2, column 14)",
    )]);
}

#[test]
fn a_name_that_is_unknown_or_comes_twice_is_refused() {
    hold(&[
        (
            r#"{"handler":"echo","args":{"a":{"x":1,"y":2,"x":3}},"task_id":17}"#,
            r#"task 17: args.a: the key "x" comes twice (line 1, column 44)"#,
        ),
        (
            r#"{"handler":"echo","args":{"x":1,"\u0078":3}}"#,
            r#"args: the key "x" comes twice (line 1, column 26)"#,
        ),
        (r#"{"handler":"echo","handler":"echo"}"#, r#"the field "handler" comes twice (line 1, column 19)"#),
        (
            r#"{"handler":"echo","task_id":1,"task_id":2}"#,
            r#"the field "task_id" comes twice (line 1, column 31)"#,
        ),
        (
            r#"{"handler":"echo","handlr":1}"#,
            r#"unknown field "handlr"; did you mean "handler"? (line 1, column 19)"#,
        ),
        (
            r#"{"handler":"echo","timeout":5,"task_id":"a"}"#,
            r#"task "a": unknown field "timeout"; did you mean "timeout_ms"? (line 1, column 19)"#,
        ),
        (
            r#"{"handler":"echo","id":5}"#,
            r#"unknown field "id"; did you mean "task_id"? (line 1, column 19)"#,
        ),
        (
            r#"{"handler":"echo","Task_Id":5}"#,
            r#"unknown field "Task_Id"; did you mean "task_id"? (line 1, column 19)"#,
        ),
        (
            r#"{"opcode":1,"handler":"echo"}"#,
            r#"expected either opcode or handler, got both (line 1, column 1)"#,
        ),
        (
            r#"{"task_id":17}"#,
            r#"task 17: expected either opcode or handler, got neither (line 1, column 1)"#,
        ),
        (r#"{}"#, r#"expected either opcode or handler, got neither (line 1, column 1)"#),
    ]);
    let known = "task_id, opcode, handler, args, priority, affinity, timeout_ms, delay_ms, run_at, expires_ms, \
                 retries, idempotency_key, unique_key, traceparent";
    let long = "a very long name that nobody could ever mean";
    let cut = "a very long name that nobody could ever …";
    for (name, shown) in [("colour", "colour"), (long, cut)] {
        let message = format!("unknown field {shown:?}; known are {known} (line 1, column 2)");
        assert_eq!(refused(format!(r#"{{"{name}":1,"handler":"echo"}}"#)).to_string(), message);
    }
}

#[test]
fn many_keys_are_compared_as_strictly_as_few() {
    for count in [2, 8, 9, 1000] {
        let keys: Vec<_> = (0..count).map(|key| format!("\"{key}\":0")).collect();
        let unique = format!(r#"{{"opcode":1,"args":{{{}}}}}"#, keys.join(","));
        Request::parse(unique.as_bytes(), &Limits::default()).unwrap();
        let first_again = refused(format!(r#"{{"opcode":1,"args":{{{},"0":1}}}}"#, keys.join(",")));
        let column = unique.len();
        assert_eq!(
            first_again.to_string(),
            format!("args: the key \"0\" comes twice (line 1, column {column})")
        );
    }
}

/// A field, what is expected of it, and for each wrong value what the message calls it.
fn hold_field(field: &str, expected: &str, cases: &[(&str, &str)]) {
    for (json, got) in cases {
        let start = format!(r#"{{"task_id":17,"{field}":"#);
        let rest = if ["opcode", "handler"].contains(&field) { "}" } else { r#","handler":"echo"}"# };
        let column = start.len() + 1;
        let message = format!("task 17: {field}: expected {expected}, got {got} (line 1, column {column})");
        assert_eq!(refused(format!("{start}{json}{rest}")).to_string(), message);
    }
}

#[test]
fn a_field_that_says_what_it_may_not_is_refused_with_what_it_said() {
    let opcodes = [
        ("0", "the number 0"),
        ("-1", "the number -1"),
        ("1.0", "the number 1.0"),
        ("1e2", "the number 1e2"),
        ("4294967296", "the number 4294967296"),
        ("\"1\"", "the string \"1\""),
        ("true", "true"),
    ];
    hold_field("opcode", "a whole number from 1 to 4294967295", &opcodes);
    let long = "a".repeat(65);
    let handlers = [
        ("3", "the number 3"),
        ("\"\"", "the string \"\""),
        ("\"Echo\"", "the string \"Echo\""),
        ("\"a/b\"", "the string \"a/b\""),
        ("[\"echo\"]", "an array"),
        ("\"\\ud800\"", "a string with half a character (a lone surrogate)"),
        (&format!("\"{long}\""), &format!("the string \"{}…\"", &long[..40])),
    ];
    hold_field("handler", "a name of 1 to 64 characters out of a-z, 0-9, _, . and -", &handlers);
    hold_field(
        "args",
        "an object",
        &[("[1]", "an array"), ("\"x\"", "the string \"x\""), ("3", "the number 3")],
    );
    let priorities = [("\"urgent\"", "the string \"urgent\""), ("256", "the number 256")];
    let expected = "\"high\", \"normal\", \"low\" or a whole number from 0 (low) to 255 (high)";
    hold_field("priority", expected, &priorities);
    let times = [("86400001", "the number 86400001"), ("0", "the number 0"), ("{}", "an object")];
    hold_field("timeout_ms", "a whole number from 1 to 86400000", &times);
    hold_field("delay_ms", "a whole number from 0 to 2592000000", &[("0.5", "the number 0.5")]);
    hold_field("retries", "a whole number from 0 to 100", &[("101", "the number 101"), ("false", "false")]);
    let labels =
        [("7", "the number 7"), ("\"a\\u0000b\"", "the string \"a\\0b\""), ("\"\"", "the string \"\"")];
    hold_field("affinity", "a string of 1 to 256 bytes without control characters", &labels);
    hold_field("idempotency_key", "a string of 1 to 256 bytes without control characters", &labels);
    let example = "a trace context like \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"";
    hold_field("traceparent", example, &[("\"00-1\"", "the string \"00-1\""), ("1", "the number 1")]);
}

#[test]
fn an_id_that_is_none_is_refused_without_one() {
    let expected = "a whole number from 0 to 18446744073709551615, or a string of 1 to 128 bytes without control \
                    characters";
    for (json, got) in [
        ("-1", "the number -1"),
        ("18446744073709551616", "the number 18446744073709551616"),
        ("1.5", "the number 1.5"),
        ("\"\"", "the string \"\""),
        ("true", "true"),
    ] {
        let error = refused(format!(r#"{{"task_id":{json},"handler":"echo"}}"#));
        assert_eq!(error.to_string(), format!("task_id: expected {expected}, got {got} (line 1, column 12)"));
        assert_eq!(error.id, None);
    }
}

#[test]
fn what_is_not_plain_utf_8_is_refused() {
    let mark = refused("\u{FEFF}{\"handler\":\"echo\"}");
    let message = "expected a JSON object, got a byte order mark; send UTF-8 without one (line 1, column 1)";
    assert_eq!(mark.to_string(), message);
    let broken = refused(b"{\"task_id\":17,\"args\":{\"a\":[0,\"\xC3\x28\"]}}");
    assert_eq!(
        broken.to_string(),
        "task 17: args.a[1]: expected UTF-8, got the byte 0xc3 (line 1, column 31)"
    );
    let wide = refused(b"\xFF\xFE{\0}\0");
    assert_eq!(wide.to_string(), "expected UTF-8, got the byte 0xff (line 1, column 1)");
}

#[test]
fn what_exceeds_a_limit_is_too_large_and_still_names_its_task() {
    let limits = Limits { request_bytes_max: 100, depth_max: 4, string_bytes_max: 9, ..Limits::default() };
    let limits = Limits { args_bytes_max: 30, ..limits };
    for (args, message) in [
        ("[[[[1]]]]", "args[0][0][0]: expected at most 4 levels of nesting, got more (line 1, column 36)"),
        (r#"{"a":"0123456789"}"#, "args.a: expected a string of at most 9 bytes, got 10 (line 1, column 38)"),
        (r#"{"0123456789":1}"#, "args: expected a string of at most 9 bytes, got 10 (line 1, column 34)"),
        (
            r#"{"a":"\u0041\u0041"}"#,
            "args.a: expected a string of at most 9 bytes, got 12 (line 1, column 38)",
        ),
        (r#"{"a":[1,2,3,4,5,6,7,8,9,10,11]}"#, "args: expected at most 30 bytes, got 31 (line 1, column 33)"),
        (
            &format!("{{{}}}", " ".repeat(99)),
            "expected a request of at most 100 bytes, got more (line 1, column 101)",
        ),
    ] {
        let text = format!(r#"{{"task_id":17,"opcode":1,"args":{args}}}"#);
        let error = Request::parse(text.as_bytes(), &limits).unwrap_err();
        assert_eq!(error.to_string(), format!("task 17: {message}"));
        assert_eq!(error.code, ErrorCode::TooLarge);
    }
}

#[test]
fn a_flood_of_brackets_is_refused_at_the_first_that_is_too_deep() {
    let error = refused("[".repeat(1024 * 1024));
    assert_eq!((error.position.line, error.position.column), (1, 33));
    let inside = refused(format!(r#"{{"opcode":1,"args":{}"#, "{\"a\":".repeat(100_000)));
    let path = "args.a.a.a.a.a.a.a…: expected at most 32 levels of nesting, got more (line 1, column 175)";
    assert_eq!(inside.to_string(), path);
}

#[test]
fn a_refusal_becomes_the_failure_of_its_task() {
    let failure = TaskFailure::from(refused(r#"{"task_id":17,"opcode":0}"#));
    let message =
        "opcode: expected a whole number from 1 to 4294967295, got the number 0 (line 1, column 24)";
    assert_eq!(failure.to_string(), format!("invalid-request (-2): {message}"));
}
