//! The C headers are made from the Rust code and checked in, so that nobody needs a tool to read or use them.
//!
//! `cargo xtask gen` writes them (it runs this test with MILLPOND_WRITE_PAGES=1); without that the test fails
//! if one is stale. That they compile, as C99 and as C++, is for `programs.rs`.

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, Language, Layout, Style};
use millpond_tasks::error::TABLE;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

struct Header {
    name: &'static str,
    guard: &'static str,
    /// From the folder of this crate.
    sources: &'static [&'static str],
    /// Other headers, in the form they stand behind `#include`.
    includes: &'static [&'static str],
    about: &'static str,
    /// Whether the error codes stand in it.
    has_errors: bool,
}

const HEADERS: &[Header] = &[
    Header {
        name: "threadpool.h",
        guard: "MILLPOND_THREADPOOL_H",
        sources: &["../native/src/c_task.rs", "src/result.rs", "src/threadpool.rs", "src/handlers.rs"],
        includes: &["<stdint.h>", "\"symbol_table.h\""],
        about: "A pool of workers that run tasks asked for in JSON. docs/c.md is the guide.",
        has_errors: true,
    },
    Header {
        name: "symbol_table.h",
        guard: "MILLPOND_SYMBOL_TABLE_H",
        sources: &["src/symbol_table.rs"],
        includes: &["<stdint.h>"],
        about: "Memory of the program's that tasks reach by name.",
        has_errors: false,
    },
    Header {
        name: "connection_queue.h",
        guard: "MILLPOND_CONNECTION_QUEUE_H",
        sources: &["src/connection_queue.rs"],
        includes: &["<stdint.h>"],
        about: "A bounded queue of file descriptors between threads.",
        has_errors: false,
    },
];

/// The specification has names of its own for the first codes.
const SPECIFIED: &[(i32, &str)] = &[
    (0, "SUCCESS"),
    (-1, "UNKNOWN_OPCODE"),
    (-2, "INVALID_JSON"),
    (-3, "SYMBOL_NOT_FOUND"),
    (-4, "MALLOC_FAILED"),
    (-5, "HANDLER_CRASH"),
    (-6, "TIMEOUT"),
];

#[test]
fn every_header_says_what_the_code_says() {
    let folder = package().join("include");
    for header in HEADERS {
        let wanted = text(header);
        let path = folder.join(header.name);
        if std::env::var_os("MILLPOND_WRITE_PAGES").is_some() {
            fs::create_dir_all(&folder).expect("the folder can be made");
            fs::write(&path, &wanted).expect("the header can be written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "include/{} is stale; run `cargo xtask gen`", header.name);
    }
}

#[test]
fn every_error_code_has_a_name_in_c() {
    let defines = error_codes();
    assert_eq!(defines.lines().filter(|line| line.starts_with("#define ERR_")).count(), TABLE.len());
    assert!(defines.contains("#define ERR_TIMEOUT (-6)\n"), "{defines}");
    assert!(defines.contains("#define ERR_QUEUE_FULL (-102)\n"), "{defines}");
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn text(header: &Header) -> String {
    let notice = "Made from the Rust code by `cargo xtask gen`; do not edit.";
    let config = Config {
        language: Language::C,
        header: Some(format!("/* {}\n * {notice} */", header.about)),
        include_guard: Some(header.guard.to_owned()),
        no_includes: true,
        after_includes: Some(after_includes(header)),
        cpp_compat: true,
        style: Style::Tag,
        documentation_style: DocumentationStyle::Doxy,
        line_length: 120,
        function: cbindgen::FunctionConfig { args: Layout::Auto, ..Default::default() },
        enumeration: EnumConfig::default(),
        export: cbindgen::ExportConfig {
            exclude: ["MARK", "MARK_MASK", "DESTROYED", "WORDS", "PARTS", "ERROR_MSG_BYTES"]
                .map(Into::into)
                .into(),
            include: ["task", "result", "connection_queue"].map(Into::into).into(),
            ..Default::default()
        },
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    for source in header.sources {
        builder = builder.with_src(package().join(source));
    }
    let mut bytes = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut bytes);
    String::from_utf8(bytes).expect("a header is text")
}

fn after_includes(header: &Header) -> String {
    let mut text = String::new();
    for include in header.includes {
        let _ = writeln!(text, "#include {include}");
    }
    if header.has_errors {
        text.push('\n');
        text.push_str(&error_codes());
    }
    text.trim_end().to_owned()
}

fn error_codes() -> String {
    let mut text = String::from("/* What can go wrong; docs/errors.md is the table. */\n");
    for row in TABLE {
        let specified = SPECIFIED.iter().find(|(number, _)| *number == row.number);
        let name = specified
            .map_or_else(|| row.name.replace('-', "_").to_uppercase(), |(_, name)| (*name).to_owned());
        let _ = writeln!(text, "/** {} */", row.sentence);
        let number = if row.number < 0 { format!("({})", row.number) } else { row.number.to_string() };
        let _ = writeln!(text, "#define ERR_{name} {number}");
    }
    text
}
