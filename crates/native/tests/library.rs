//! Handlers in a C library, as the configuration names them: loaded, called, and refused in clear words.
//!
//! The library is compiled here by the system's C compiler, so that what is called is what a user would write.

use millpond_native::{LibraryError, add_libraries};
use millpond_tasks::config::{ConfigFile, ConfigSources, Settings, load};
use millpond_tasks::{ErrorCode, Log, Registry, Service, Submit, TaskFailure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The library, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/handlers.c");
        let out =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libhandlers-{}.so", std::process::id()));
        let mut compile = Command::new("cc");
        compile
            .args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(&out)
            .arg(source);
        assert!(compile.status().expect("there is a C compiler").success());
        out
    })
}

fn settings(toml: &str) -> Settings {
    let toml = toml.replace("LIBRARY", &library().display().to_string());
    let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
    load(&ConfigSources { file, ..ConfigSources::default() }).settings().expect("the configuration is right")
}

fn answer(service: &Service, request: &str) -> Result<String, TaskFailure> {
    let accepted =
        service.handle().submit(request.as_bytes(), Submit::default()).map_err(|refused| refused.failure)?;
    let outcome = accepted.task.wait(Duration::from_secs(60)).expect("it ends at once");
    outcome.result().map(|json| json.get().to_owned()).map_err(Clone::clone)
}

const HANDLERS: &str = "[handler.mirror]\nlibrary = 'LIBRARY'\n[handler.fail]\nlibrary = 'LIBRARY'\n\
                        [handler.babble]\nlibrary = 'LIBRARY'\n\
                        [handler.quiet]\nlibrary = 'LIBRARY'\nsymbol = 'silent'\n[opcodes]\n7 = 'mirror'\n";

#[test]
fn functions_of_a_library_answer_in_the_fields_of_their_task() {
    let settings = settings(HANDLERS);
    let mut registry = Registry::new();
    add_libraries(&mut registry, &settings).expect("all four are there");
    let service = Service::from_settings(&settings, registry, &Log::silent()).expect("it starts");
    let mirrored = answer(&service, r#"{"opcode": 7, "args": {"a": [1]}}"#).expect("it succeeds");
    assert_eq!(mirrored, r#"{"opcode": 7, "worker": true, "args": {"a": [1]}}"#, "on one line");
    assert_eq!(answer(&service, r#"{"handler": "quiet"}"#).expect("it succeeds"), "null");

    let failed = answer(&service, r#"{"handler": "fail"}"#).expect_err("it says so");
    assert_eq!((failed.code, failed.message.as_str()), (ErrorCode::HandlerError, "the disk is full"));
    let babbled = answer(&service, r#"{"handler": "babble"}"#).expect_err("it is no JSON");
    assert_eq!(babbled.code, ErrorCode::HandlerError);
    assert!(babbled.message.starts_with("the handler's answer: expected JSON, got what is not"), "{babbled}");
}

#[test]
fn a_function_that_is_not_there_is_named_before_anything_starts() {
    let settings = settings("[handler.nothing]\nlibrary = 'LIBRARY'\n");
    let error = add_libraries(&mut Registry::new(), &settings).unwrap_err();
    assert!(matches!(&error, LibraryError::NotFound(handler, _) if handler == "nothing"));
    let text = error.to_string();
    assert!(
        text.starts_with("handler.nothing: library ") && text.contains("handler_nothing or nothing"),
        "{text}"
    );
}
