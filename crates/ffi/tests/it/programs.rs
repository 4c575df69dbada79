//! C programs that use the library as C does, one a theme; each checks itself and says where it failed.
//!
//! They run three times: as they are, with the sanitizers of the compiler, and under valgrind, which has to be
//! installed. The snippets of the specification are among them with their calls as they are.

use crate::library::{Build, compile, compile_header, folder, run, run_well};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Those that need no daemon, with whether they are given a configuration.
const PROGRAMS: &[(&str, bool)] = &[
    ("seed_queue", false),
    ("seed_config", true),
    ("queue_threads", false),
    ("bad_input", false),
    ("handlers", true),
    ("symbols", false),
    ("threads", false),
];

/// The specification's configuration, and an opcode for a function that the program exports.
const CONFIG: &str = "# Threadpool configuration\nthread_count=4\ninitial_task_capacity=256\n\
                      result_queue_capacity=128\n\n\
                      # Handler registration (opcode=handler_name)\n\
                      0=handler_updater\n1=handler_http_get\n2=handler_http_post\n3=handler_write_memory\n\
                      4=handler_read_memory\n5=handler_file_read\n6=handler_file_write\n9=handler_exported\n";

fn config() -> PathBuf {
    let path = folder().join(format!("config-{}", std::process::id()));
    fs::write(&path, CONFIG).expect("it can be written");
    path
}

/// A command that runs a program, with what it is given.
fn command(name: &str, needs_config: bool, build: Build, under: &[&str]) -> Command {
    let program = compile(name, build);
    let mut command = match under {
        [] => Command::new(program),
        [tool, arguments @ ..] => {
            let mut command = Command::new(tool);
            command.args(arguments).arg(program);
            command
        }
    };
    if needs_config {
        command.arg(config());
    }
    // Nobody's daemon, and nobody's settings.
    command.env("XDG_RUNTIME_DIR", folder());
    command
}

#[test]
fn programs_run() {
    for (name, needs_config) in PROGRAMS {
        assert_eq!(run_well(&mut command(name, *needs_config, Build::Plain, &[])), "ok\n", "{name}");
    }
}

#[test]
fn programs_run_with_the_static_library() {
    assert_eq!(run_well(&mut command("handlers", true, Build::Static, &[])), "ok\n");
}

#[test]
fn programs_are_clean_under_the_sanitizers() {
    for (name, needs_config) in PROGRAMS {
        let mut command = command(name, *needs_config, Build::Sanitized, &[]);
        command.env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1");
        assert_eq!(run_well(&mut command), "ok\n", "{name}");
    }
}

#[test]
fn programs_are_clean_under_valgrind() {
    let found = Command::new("valgrind").arg("--version").output();
    assert!(found.is_ok(), "valgrind is not installed; `cargo xtask test --only setup` does that");
    let valgrind = [
        "valgrind",
        "--quiet",
        "--fair-sched=yes",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    for (name, needs_config) in PROGRAMS {
        let mut command = command(name, *needs_config, Build::Plain, &valgrind);
        assert_eq!(run_well(command.env("CHECK_LESS", "1")), "ok\n", "{name}");
    }
}

#[test]
fn every_header_compiles_alone_as_c_and_as_c_plus_plus() {
    for header in ["threadpool.h", "symbol_table.h", "connection_queue.h"] {
        for standard in ["c99", "c11"] {
            compile_header("cc", standard, header);
        }
        for standard in ["c++11", "c++20"] {
            compile_header("c++", standard, header);
        }
    }
}

#[test]
fn a_handler_that_nobody_has_is_named_when_the_pool_is_created() {
    let path = folder().join(format!("config-unknown-{}", std::process::id()));
    fs::write(&path, "thread_count=2\n7=handler_nobody_wrote\n").expect("it can be written");
    let output = run(Command::new(compile("seed_config", Build::Plain)).arg(&path));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = format!(
        "-1 {}:2: opcode 7: expected a handler that exists, got \"nobody_wrote\": it is not built in, \
         threadpool_register_handler was not called with it, and the program does not export handler_nobody_wrote \
         (link it with -rdynamic)\n",
        path.display()
    );
    assert_eq!(said, expected);
}

#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let path = folder().join(format!("config-wrong-{}.toml", std::process::id()));
    fs::write(&path, "workers = 'many'\nworker = 3\n").expect("it can be written");
    let output = run(Command::new(compile("seed_config", Build::Plain)).arg(&path));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 2), "{said}");
}

#[test]
fn a_handler_that_crashes_costs_one_task_if_handlers_have_processes() {
    let path = folder().join(format!("config-isolated-{}.toml", std::process::id()));
    fs::write(&path, "workers = 2\nisolation = 'process'\n").expect("it can be written");
    assert_eq!(run_well(Command::new(compile("isolated", Build::Plain)).arg(&path)), "ok\n");
}

#[test]
fn a_pool_with_a_name_is_attached_to_by_it() {
    let path = folder().join(format!("named-{}", std::process::id()));
    fs::write(&path, "name=shop\nthread_count=2\n").expect("it can be written");
    // Of its own, and short: the path of a socket has at most 107 bytes.
    let around = std::env::temp_dir().join(format!("millpond-named-{}", std::process::id()));
    fs::create_dir_all(&around).expect("the folder can be made");
    for build in [Build::Plain, Build::Sanitized] {
        let mut command = Command::new(compile("named", build));
        assert_eq!(run_well(command.arg(&path).env("XDG_RUNTIME_DIR", &around)), "ok\n");
    }
    let _ = fs::remove_dir_all(around);
}
