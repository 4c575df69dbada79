//! What is said about mistakes, word for word, and that one look finds them all.
//!
//! These sentences are all that somebody sees whose daemon does not start. A change in one is a change of the
//! program, and should be seen in a review.

use super::{ConfigFile, ConfigSources, Loaded, load};
use std::ffi::OsString;

const BUILTIN: &[&str] = &["echo", "http_get", "sleep"];

fn of_file(name: &str, bytes: &[u8]) -> Loaded {
    load(&ConfigSources {
        file: Some(ConfigFile { name, bytes }),
        handlers: BUILTIN,
        ..ConfigSources::default()
    })
}

fn said(loaded: &Loaded) -> Vec<String> {
    loaded.findings().iter().map(ToString::to_string).collect()
}

/// Each file, without its name, has this one finding.
fn expect_each(name: &str, mistakes: &[(&str, &str)]) {
    for (text, message) in mistakes {
        let found = said(&of_file(name, text.as_bytes()));
        assert_eq!(found, [format!("{name}:{message}")], "{text}");
    }
}

/// Files of lines, and what is said after the file's name.
const OF_LINES: &[(&str, &str)] = &[
    ("thread_count 4", "1:1: error: expected key=value, got \"thread_count 4\"; put = after the key"),
    ("\n  = 4", "2:3: error: expected a key before =, got none; write key=value"),
    (
        "thread_count=0",
        "1:14: error: thread_count: expected a whole number from 1 to 4096 or \"auto\", got \"0\"",
    ),
    (
        "thread_count = ",
        "1:15: error: thread_count: expected a whole number from 1 to 4096 or \"auto\", got nothing",
    ),
    (
        "thread_count = -4",
        "1:16: error: thread_count: expected a whole number from 1 to 4096 or \"auto\", got \"-4\"",
    ),
    (
        "thread_count=4 # four",
        "1:14: error: thread_count: expected a whole number from 1 to 4096 or \"auto\", got \"4 # four\"; \
         a comment needs a line of its own",
    ),
    (
        "thread_cuont=4",
        "1:1: error: expected a known key, got \"thread_cuont\"; did you mean \
     thread_count?",
    ),
    (
        "colour=4",
        "1:1: error: expected a known key, got \"colour\"; docs/configuration.md lists all settings",
    ),
    (
        "thread_count=4\r\nthread_count=4\r\n",
        "2:1: error: thread_count is already given at config:1; keep one",
    ),
    ("workers=4\nthread_count=4", "2:1: error: thread_count is already given at config:1; keep one"),
    ("pin=yes", "1:5: error: pin: expected true or false, got \"yes\""),
    (
        "0=handler_echo",
        "1:1: error: expected an opcode from 1 to 4294967295, got 0, which is reserved; choose another",
    ),
    (
        "4294967296=handler_echo",
        "1:1: error: expected an opcode from 1 to 4294967295, got \"4294967296\"; choose another",
    ),
    ("1=handler_echo\n01=handler_echo", "2:1: error: opcode 1 is already given at config:1; keep one"),
    ("1=", "1:3: error: opcode 1: expected the name of a handler, got nothing"),
    ("1=Über", "1:3: error: opcode 1: expected the name of a handler, got \"Über\""),
    (
        "1=handler_ecco",
        "1:1: error: opcode 1: expected a handler that exists, got \"ecco\"; did you mean echo?",
    ),
    ("ü=1", "1:1: error: expected a known key, got \"ü\"; docs/configuration.md lists all settings"),
    (
        "allow.files=/srv, data",
        "1:13: error: allow.files: expected a list of absolute paths, got \"data\"; begin it with /",
    ),
    (
        "0=handler_updater",
        "1:1: note: opcode 0 is left out: millpond keeps its queues without an updater task",
    ),
];

#[test]
fn lines_of_key_and_value_say_what_is_wrong() {
    expect_each("config", OF_LINES);
}

/// TOML files with a value that cannot be, and what is said.
const OF_VALUES: &[(&str, &str)] = &[
    (
        "workers = 0",
        "1:11: error: workers: expected a whole number from 1 to 4096 or \"auto\", got the number 0",
    ),
    (
        "workers = \"4\"",
        "1:11: error: workers: expected a whole number from 1 to 4096 or \"auto\", got the text \"4\"; \
         leave out the quotes",
    ),
    (
        "queue_capacity = 1.5",
        "1:18: error: queue_capacity: expected a whole number from 1 to 67108864, got the number 1.5",
    ),
    (
        "queue_capacity = -0x1",
        "1:18: error: the file is not TOML here: integers with a radix cannot be signed",
    ),
    (
        "pin = \"true\"",
        "1:7: error: pin: expected true or false, got the text \"true\"; leave out the quotes",
    ),
    ("pin = [1]", "1:7: error: pin: expected true or false, got a list"),
    ("pin = 2026-01-01", "1:7: error: pin: expected true or false, got a date or time"),
    (
        "spin = 20",
        "1:8: error: spin: expected a duration from 0 to 1s, got the number 20; write it like \"20us\", \
         \"5 s\" or \"1m30s\"",
    ),
    (
        "spin = \"20\"",
        "1:8: error: spin: expected a duration from 0 to 1s, got the text \"20\"; write it like \"20us\", \
         \"5 s\" or \"1m30s\"",
    ),
    ("spin = \"1m\"", "1:8: error: spin: expected a duration from 0 to 1s, got the text \"1m\""),
    (
        "[request]\nbytes_max = \"1 MB\"",
        "2:13: error: request.bytes_max: expected a size from 64 to 64 MiB, got the text \"1 MB\"; write \
         it like 4096, \"64 KiB\" or \"1 MiB\"",
    ),
    (
        "[request]\nbytes_max = 1",
        "2:13: error: request.bytes_max: expected a size from 64 to 64 MiB, got the number 1",
    ),
    (
        "stealing.size = \"hafl\"",
        "1:17: error: stealing.size: expected one of one, half, all, got the text \"hafl\"; did you mean \
         half?",
    ),
    (
        "scaling.scale_up_threshold = nan",
        "1:30: error: scaling.scale_up_threshold: expected a number from 0.001 to 1000000, got the number \
         nan",
    ),
    (
        "runtime_dir = \"run\"",
        "1:15: error: runtime_dir: expected an absolute path or \"auto\", got the text \"run\"; begin it \
         with /",
    ),
    (
        "allow.files = [\"/srv\", \"data\"]",
        "1:24: error: allow.files: expected a list of absolute paths, got the text \"data\" in it; begin \
         it with /",
    ),
    (
        "allow.hosts = [\"http://a\"]",
        "1:16: error: allow.hosts: expected a list of hosts, got the text \"http://a\" in it; write each \
         like example.org, *.example.org, example.org:8080 or [::1]:80",
    ),
    (
        "allow.hosts = \"a\"",
        "1:15: error: allow.hosts: expected a list of hosts, got the text \"a\"; write [\"a\"]",
    ),
];

#[test]
fn values_of_every_kind_say_what_is_wrong() {
    expect_each("m.toml", OF_VALUES);
}

/// TOML files with a name or a table that cannot be.
const OF_NAMES: &[(&str, &str)] = &[
    ("wrokers = 4", "1:1: error: expected a known setting, got \"wrokers\"; did you mean workers?"),
    (
        "[pool]\nworkers = 4",
        "1:2: error: expected a known setting, got \"pool\"; docs/configuration.md lists all settings",
    ),
    (
        "[steeling]\nsize = \"half\"",
        "1:2: error: expected a known setting, got \"steeling\"; did you mean stealing?",
    ),
    (
        "[stealing]\nsise = \"half\"",
        "2:1: error: expected a known setting, got \"stealing.sise\"; did you mean stealing.size?",
    ),
    (
        "[stealing]\nworkers = 4",
        "2:1: error: expected a known setting, got \"stealing.workers\"; did you mean workers?",
    ),
    (
        "stealing = true",
        "1:12: error: stealing: expected a table, got true; write [stealing] and its settings below it",
    ),
    (
        "handler = 1",
        "1:11: error: handler: expected a table, got the number 1; write [handler.NAME] and its settings \
         below it",
    ),
    (
        "[handler]\na = 1",
        "2:5: error: handler.a: expected a table, got the number 1; write [handler.a] and its settings \
         below it",
    ),
    (
        "[handler.A]",
        "1:10: error: handler: expected a name of 1 to 64 of the letters a-z, 0-9, _, . and -, got \"A\"",
    ),
    (
        "[handler.a]",
        "1:10: error: handler.a: expected a command or a library, got neither; add command = [\"program\", \
         \"argument\"]",
    ),
    (
        "[handler.a]\nlibrary = \"none\"",
        "1:10: error: handler.a: expected a command or a library, got neither; add command = [\"program\", \
         \"argument\"]",
    ),
    (
        "[handler.a]\ncommand = [\"x\"]\nlibrary = \"/x.so\"",
        "3:1: error: handler.a: expected a command or a library, got both; keep one",
    ),
    (
        "[handler.a]\nlibrary = \"x.so\"",
        "2:11: error: handler.a.library: expected an absolute path or \"none\", got the text \"x.so\"; begin it with \
         /",
    ),
    (
        "[handler.a]\nlibrary = \"/x.so\"\nsymbol = \"a-b\"",
        "3:10: error: handler.a.symbol: expected a name of 1 to 255 of the letters a-z, A-Z, 0-9 and _ or \"auto\", \
         got the text \"a-b\"",
    ),
    (
        "[handler.a]\nlibrary = \"/x.so\"\nconcurrency = 2",
        "3:1: note: handler.a.concurrency: it has no effect for a function in a library; it counts with a command",
    ),
    (
        "[handler.a]\ncommand = [\"x\"]\nsymbol = \"b\"",
        "3:1: note: handler.a.symbol: it has no effect for a program; it counts with a library",
    ),
    (
        "name = \"x\"\nruntime_dir = \"/run/x\"",
        "1:1: note: name: it has no effect while runtime_dir is \"/run/x\" (m.toml:2); take that out",
    ),
    (
        "name = \"My mill\"",
        "1:8: error: name: expected a name of 1 to 64 of the letters a-z, 0-9, _, . and -, got the text \"My mill\"",
    ),
    (
        "isolation_processes = 2",
        "1:1: note: isolation_processes: it has no effect while isolation is thread (default); it counts with process",
    ),
    (
        "[handler.a]\ncommand = []",
        "2:11: error: handler.a.command: expected a list of texts, the program first, got a list",
    ),
    (
        "[handler.a]\ncommand = \"x y\"",
        "2:11: error: handler.a.command: expected a list of texts, the program first, got the text \"x \
         y\"; write it like [\"python3\", \"handler.py\"]",
    ),
    (
        "[handler.a]\ncommand = [\"x\"]\ntimeuot = 1",
        "3:1: error: expected a known setting, got \"handler.a.timeuot\"; did you mean timeout?",
    ),
    (
        "[handler.a]\ncommand = [\"x\"]\nenv = { A = 1 }",
        "3:13: error: handler.a.env: expected a table of texts, got the number 1 in it",
    ),
    (
        "[handler.a]\ncommand = [\"x\"]\nrestart_backoff_min = \"1m\"",
        "3:1: error: handler.a.restart_backoff_min: expected at most handler.a.restart_backoff_max \
         (\"30s\", from default), got \"1m\"; lower it, or raise the other",
    ),
    (
        "[handler.echo]\ncommand = [\"x\"]",
        "1:10: error: handler.echo: expected a name of its own, got a built-in one; choose another",
    ),
    (
        "region = 1",
        "1:10: error: region: expected a table, got the number 1; write [region.NAME] and its settings below \
         it",
    ),
    (
        "[region.A]",
        "1:9: error: region: expected a name of 1 to 64 of the letters a-z, 0-9, _, . and -, got \"A\"",
    ),
    (
        "[region.a]\nsize = 1",
        "2:1: error: expected a known setting, got \"region.a.size\"; docs/configuration.md lists all \
         settings",
    ),
    (
        "[region.a]\naccess = \"rw\"",
        "2:10: error: region.a.access: expected one of read, write, read-write, got the text \"rw\"; choose \
         one of them",
    ),
    (
        "[region.a]\nbytes = 0",
        "2:9: error: region.a.bytes: expected a size from 1 to 1 GiB, got the number 0",
    ),
    (
        "[opcodes]\n0 = \"updater\"",
        "2:1: error: expected an opcode from 1 to 4294967295, got 0, which is reserved; choose another",
    ),
    (
        "[opcodes]\nx = \"echo\"",
        "2:1: error: expected an opcode from 1 to 4294967295, got \"x\"; choose another",
    ),
    (
        "[opcodes]\n7 = \"resize\"",
        "2:1: error: opcode 7: expected a handler that exists, got \"resize\"; add [handler.resize] to \
         millpond.toml",
    ),
    ("[opcodes]\n7 = 3", "2:5: error: opcode 7: expected the name of a handler, got the number 3"),
];

#[test]
fn names_and_tables_of_toml_say_what_is_wrong() {
    expect_each("m.toml", OF_NAMES);
}

/// TOML files whose settings do not fit together.
const OF_RELATIONS: &[(&str, &str)] = &[
    (
        "workers = 8\nworkers_max = 4",
        "2:1: error: workers_max: expected at least workers (8, from m.toml:1), got 4; raise it, or lower \
         the other",
    ),
    (
        "request.string_bytes_max = \"2 MiB\"",
        "1:9: error: request.string_bytes_max: expected at most request.bytes_max (\"1 MiB\", from \
         default), got \"2 MiB\"; lower it, or raise the other",
    ),
    (
        "mailbox.bytes_max = \"64 KiB\"",
        "1:9: error: mailbox.bytes_max: expected at least request.bytes_max (\"1 MiB\", from default), got \
         \"64 KiB\"; raise it, or lower the other",
    ),
    (
        "retry.backoff_min = \"1m\"",
        "1:7: error: retry.backoff_min: expected at most retry.backoff_max (\"30s\", from default), got \
         \"1m\"; lower it, or raise the other",
    ),
    (
        "control.enabled = false\ncontrol.connections_max = 9",
        "2:9: note: control.connections_max: it has no effect while control.enabled is false (m.toml:1); it \
         counts with true",
    ),
    (
        "scaling.enabled = true\nscaling.workers_min = 9",
        "2:9: error: scaling.workers_min: expected at most scaling.workers_max (8, from default), got 9; \
         lower it, or raise the other",
    ),
    (
        "scaling.enabled = true\nscaling.scale_up_threshold = 0.5",
        "2:9: error: scaling.scale_up_threshold: expected more than scaling.scale_down_threshold (0.5, \
         from default), got 0.5; raise it, or lower the other",
    ),
    (
        "scaling.enabled = true\nscaling.predict_horizon = \"9s\"\nmetrics.sample_every = 0",
        "2:9: error: scaling.predict_horizon: expected timed tasks to look ahead from, got \
         metrics.sample_every = 0 from m.toml:3; set that to 1 or more",
    ),
    (
        "scaling.workers_min = 9",
        "1:9: note: scaling.workers_min: it has no effect while scaling.enabled is false (default); it \
         counts with true",
    ),
    (
        "back_pressure = { policy = \"reject\", timeout = \"1s\" }",
        "1:38: note: back_pressure.timeout: it has no effect while back_pressure.policy is reject \
         (m.toml:1); it counts with block",
    ),
];

#[test]
fn settings_that_do_not_fit_together_say_so() {
    expect_each("m.toml", OF_RELATIONS);
}

#[test]
fn defaults_shrink_to_a_limit_that_was_lowered() {
    let loaded = of_file(
        "m.toml",
        b"workers_max = 4\nscaling.enabled = true\nrequest.bytes_max = \
     4096\nresults.bytes_max = 65536\nstream.bytes_max = 4096",
    );
    assert_eq!(said(&loaded), [""; 0]);
    let settings = loaded.settings().unwrap();
    assert_eq!(settings.pool.scaling.unwrap().workers_max, 4);
    assert_eq!((settings.request.string_bytes_max, settings.request.args_bytes_max), (4096, 4096));
    assert_eq!(settings.stream.chunk_bytes_max, 4096);
    assert_eq!(settings.results.result_bytes_max, 65_536);
}

#[test]
fn a_default_grows_to_hold_what_was_raised() {
    let loaded = of_file("m.toml", b"request.bytes_max = '8 MiB'");
    assert_eq!(said(&loaded), [""; 0]);
    assert_eq!(loaded.settings().unwrap().mailbox.bytes_max, 8 << 20);
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let file = "wrokers = 4\nspin = 20\n[stealing]\nsize = = 3\ntasks_max = 0\n[opcodes]\n7 = \"ecco\"\n";
    let environment = [
        ("MILLPOND_PIN", "maybe"),
        ("MILLPOND_WORKRES", "3"),
        ("MILLPOND_WORKERS", ""),
        ("MILLPOND_SEED", "7"),
        ("MILLPOND_CONFIG", "m.toml"),
        ("WORKERS", "x"),
    ]
    .map(|(name, text)| (OsString::from(name), OsString::from(text)));
    let flags = [("--wrokers", "3"), ("--workers", "many"), ("--pin", "on"), ("--pin", "off")]
        .map(|(flag, text)| (flag.to_owned(), text.to_owned()));
    let file = Some(ConfigFile { name: "m.toml", bytes: file.as_bytes() });
    let loaded = load(&ConfigSources { file, environment: &environment, flags: &flags, handlers: BUILTIN });
    let found = said(&loaded);
    let begins = [
        "m.toml:1:1: error: expected a known setting",
        "m.toml:2:8: error: spin: ",
        "m.toml:4:8: error: the file is not TOML here: ",
        "m.toml:5:13: error: stealing.tasks_max: ",
        "m.toml:7:1: error: opcode 7: ",
        "MILLPOND_PIN: error: expected true or false, got \"maybe\"",
        "MILLPOND_WORKRES: note: no setting has this variable; did you mean MILLPOND_WORKERS?",
        "--wrokers: error: expected a known flag, got \"--wrokers\"; did you mean --workers?",
        "--workers: error: expected a whole number from 1 to 4096 or \"auto\", got \"many\"",
        "--pin: error: it is given twice; keep one",
    ];
    assert_eq!(found.len(), begins.len(), "{found:#?}");
    for (found, begin) in found.iter().zip(begins) {
        assert!(found.starts_with(begin), "{found} begins otherwise than {begin}");
    }
    assert!(loaded.settings().is_err_and(|findings| findings.len() == begins.len()));
}

#[test]
fn files_that_are_no_text_or_too_long_are_refused() {
    let found = said(&of_file("config", b"workers=4\npin=\xff"));
    assert_eq!(
        found,
        ["config:2:5: error: expected UTF-8 text, got the byte 0xff; save the file as \
     UTF-8"]
    );
    let found = said(&of_file("m.toml", &vec![b'\n'; super::FILE_BYTES_MAX + 1]));
    assert_eq!(
        found,
        ["m.toml:1:1: error: expected a file of 262144 bytes at most, got 262145; is it the right one?"]
    );
    let marked = of_file("config", "\u{feff}workers=4\r\n\r\n# a comment\r\npin = on\r\n".as_bytes());
    assert_eq!(said(&marked), [""; 0]);
    assert_eq!(
        marked.settings().map(|settings| (settings.pool.workers, settings.pool.pin)),
        Ok((4, true)).map_err(|(): ()| &[][..])
    );
}

#[cfg(unix)]
#[test]
fn variables_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let environment = [(OsString::from("MILLPOND_PIN"), OsString::from_vec(vec![0xff]))];
    let loaded = load(&ConfigSources { environment: &environment, ..ConfigSources::default() });
    assert_eq!(said(&loaded), ["MILLPOND_PIN: error: expected true or false, got what is not UTF-8"]);
}

#[test]
fn later_layers_win_and_a_broken_one_is_passed_over() {
    let file = Some(ConfigFile {
        name: "m.toml",
        bytes: b"workers = 2\nworkers_max = 9\nqueue_capacity = 8\npin = true",
    });
    let environment = [("MILLPOND_WORKERS", "3"), ("MILLPOND_WORKERS_MAX", "8"), ("MILLPOND_PIN", "maybe")]
        .map(|(name, text)| (OsString::from(name), OsString::from(text)));
    let flags = [("--workers".to_owned(), "4".to_owned())];
    let loaded =
        load(&ConfigSources { file, environment: &environment, flags: &flags, ..ConfigSources::default() });
    let rows: Vec<_> =
        loaded.listing().iter().map(|row| format!("{} = {} ({})", row.name, row.value, row.source)).collect();
    for row in [
        "workers = 4 (--workers)",
        "workers_max = 8 (MILLPOND_WORKERS_MAX)",
        "queue_capacity = 8 (m.toml:3)",
        "local_capacity = 1024 (default)",
        "pin = true (m.toml:4)",
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row} is not among {rows:#?}");
    }
}

#[test]
fn findings_and_values_are_given_to_programs_too() {
    let loaded = of_file(
        "m.toml",
        b"workers = 0\n[handler.a]\ncommand = ['x']\nenv = { A = 'b' }\n[opcodes]\n7 = 'a'",
    );
    let findings = serde_json::to_string(loaded.findings()).unwrap();
    let source = r#"{"kind":"file","file":"m.toml","line":1,"column":11}"#;
    let message = r#"workers: expected a whole number from 1 to 4096 or \"auto\", got the number 0"#;
    assert_eq!(findings, format!(r#"[{{"severity":"error","source":{source},"message":"{message}"}}]"#));
    let rows: Vec<_> = loaded.listing().iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    for row in [
        r#"{"name":"workers","value":"auto","source":{"kind":"default"}}"#,
        r#"{"name":"spin","value":"20us","source":{"kind":"default"}}"#,
        r#"{"name":"pin","value":false,"source":{"kind":"default"}}"#,
        r#"{"name":"handler.a.env","value":{"A":"b"},"source":{"kind":"file","file":"m.toml","line":4,"column":1}}"#,
        r#"{"name":"opcodes.7","value":"a","source":{"kind":"file","file":"m.toml","line":6,"column":1}}"#,
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row} is not among {rows:#?}");
    }
}

#[test]
fn of_a_line_that_is_not_toml_nothing_else_is_said_or_taken() {
    let loaded = of_file("m.toml", b"queue_capacity = 0 0\npin = true ]\n[opcodes]\n7 = 'ecco' x\n");
    let found = said(&loaded);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found.iter().all(|finding| finding.contains(": error: the file is not TOML here: ")),
        "{found:#?}"
    );
    let taken: Vec<_> =
        loaded.listing().into_iter().filter(|row| row.source != super::Source::Default).collect();
    assert_eq!(taken, []);
}
