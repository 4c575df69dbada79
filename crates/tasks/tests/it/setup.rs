//! A service made from settings: what a configuration names must be there before anything starts.
//!
//! A daemon that starts without one of its handlers would find out task by task.

use millpond_tasks::config::{ConfigFile, ConfigSources, Settings, load};
use millpond_tasks::handler::builtin::BUILTIN_NAMES;
use millpond_tasks::{Call, Handler, Log, Registry, RuntimeDir, Service, Submit, TaskFailure, quick};
use serde_json::value::{RawValue, to_raw_value};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

fn settings(file: &str, flags: &[(&str, &str)]) -> Settings {
    let file = ConfigFile { name: "millpond.toml", bytes: file.as_bytes() };
    let flags: Vec<_> = flags.iter().map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned())).collect();
    load(&ConfigSources { file: Some(file), flags: &flags, ..ConfigSources::default() }).settings().unwrap()
}

fn seven(_: &RawValue, out: &mut Vec<u8>) -> Result<(), TaskFailure> {
    out.push(b'7');
    Ok(())
}

#[test]
fn a_handler_in_a_library_must_have_been_registered() {
    let settings = settings("[handler.resize]\nlibrary = '/lib/images.so'\n[opcodes]\n9 = 'resize'\n", &[]);
    let refused = Service::from_settings(&settings, Registry::new(), &Log::silent()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "handler.resize: expected a function of /lib/images.so that was registered before, got none; this program \
         loads no libraries"
    );
    let mut registry = Registry::new();
    registry.add("resize", quick(seven)).unwrap();
    let service = Service::from_settings(&settings, registry, &Log::silent()).unwrap();
    let task = service.handle().submit(br#"{"opcode":9}"#, Submit::default()).unwrap().task;
    assert_eq!(task.wait(Duration::from_secs(60)).unwrap().result().unwrap().get(), "7");
}

#[test]
fn a_name_leads_to_a_directory_of_its_own() {
    let plain = RuntimeDir::default_path();
    assert_eq!(RuntimeDir::path_for("millpond").unwrap(), plain);
    let named = RuntimeDir::path_for("orders.2-b_c").unwrap();
    assert_eq!(named.to_str().unwrap(), format!("{}-orders.2-b_c", plain.to_str().unwrap()));
    assert_eq!(RuntimeDir::path_for("..").unwrap().parent(), plain.parent(), "no name leads elsewhere");
    assert_eq!(RuntimeDir::path_for("./run").unwrap(), Path::new("./run"));
    for wrong in ["", "Orders", "a b", "ü", "a\0", &"x".repeat(65)] {
        let error = RuntimeDir::path_for(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().starts_with("name: expected 1 to 64 characters out of a-z, 0-9"),
            "{error}"
        );
    }
}

#[test]
fn of_name_and_directory_the_later_counts() {
    let path = |file, flags: &[_]| settings(file, flags).runtime_path();
    let orders = RuntimeDir::path_for("orders").unwrap();
    assert_eq!(path("", &[]), RuntimeDir::default_path());
    assert_eq!(path("name = 'orders'", &[]), orders);
    assert_eq!(path("name = 'orders'\nruntime_dir = '/x'", &[]), PathBuf::from("/x"));
    assert_eq!(path("name = 'orders'", &[("--runtime-dir", "/x")]), PathBuf::from("/x"));
    assert_eq!(path("runtime_dir = '/x'", &[("--name", "orders")]), orders);
    assert_eq!(
        path("runtime_dir = '/x'\nname = 'a'", &[("--runtime-dir", "auto")]),
        RuntimeDir::path_for("a").unwrap()
    );
}

/// Says who wrapped it, and does nothing else.
struct Wrapped(String);

impl Handler for Wrapped {
    fn start(&self, call: Call) {
        call.finish(Ok(to_raw_value(&self.0).unwrap()));
    }
}

#[test]
fn only_built_in_handlers_are_wrapped() {
    let mut registry = Registry::new();
    registry.add("own", quick(seven)).unwrap();
    let settings = settings("[handler.shout]\ncommand = ['cat']\n", &[]);
    let names = Mutex::new(Vec::new());
    let wrap = |name: &str, _: Box<dyn Handler>| -> Box<dyn Handler> {
        names.lock().unwrap().push(name.to_owned());
        Box::new(Wrapped(format!("wrapped {name}")))
    };
    let service = Service::from_settings_with(&settings, registry, &Log::silent(), &wrap).unwrap();
    assert_eq!(*names.lock().unwrap(), BUILTIN_NAMES);
    for (request, expected) in [("sleep", "\"wrapped sleep\""), ("own", "7")] {
        let request = format!(r#"{{"handler":"{request}"}}"#);
        let task = service.handle().submit(request.as_bytes(), Submit::default()).unwrap().task;
        assert_eq!(task.wait(Duration::from_secs(60)).unwrap().result().unwrap().get(), expected);
    }
}
