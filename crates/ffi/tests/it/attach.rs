//! C programs that attach to a daemon: here the test itself, with a service and its memory door.
//!
//! What holds between a client and a daemon is tested beside them (`millpond-shm`); this is about what C sees
//! of it.

use crate::library::{Build, compile, folder, run_well};
use millpond_shm::{MEMORY_SOCKET_NAME, MemoryDoor};
use millpond_tasks::config::{ConfigFile, ConfigSources, load};
use millpond_tasks::handler::builtin::BUILTIN_NAMES;
use millpond_tasks::{Log, Registry, RuntimeDir, Service, function};
use serde_json::value::{RawValue, to_raw_value};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A daemon called `myapp` in a run-time directory of its own.
struct Daemon {
    around: PathBuf,
    service: Service,
    door: MemoryDoor,
}

impl Daemon {
    fn start(test: &str) -> Self {
        let around = folder().join(format!("run-{test}-{}", std::process::id()));
        fs::create_dir_all(&around).expect("the folder can be made");
        let directory = around.join("millpond-myapp");
        let opened = RuntimeDir::open(&directory).expect("the private directory can be made");
        drop(opened);
        let file = ConfigFile { name: "millpond.toml", bytes: b"[opcodes]\n1 = 'http_get'\n" };
        let loaded =
            load(&ConfigSources { file: Some(file), handlers: BUILTIN_NAMES, ..ConfigSources::default() });
        let settings = loaded.settings().expect("it is right");
        let mut registry = Registry::new();
        let count_up = function(|call| {
            for number in 0..5 {
                call.partial(to_raw_value(&number).expect("a number is JSON"))?;
            }
            Ok(RawValue::NULL.to_owned())
        });
        registry.add("count_up", count_up).expect("the name is free");
        let service = Service::from_settings(&settings, registry, &Log::silent()).expect("it starts");
        let path = directory.join(MEMORY_SOCKET_NAME);
        let door =
            MemoryDoor::open(&path, settings.memory_door, service.handle(), Log::silent()).expect("it opens");
        Self { around, service, door }
    }

    /// Runs a program that looks for daemons where this one is.
    fn run(&self, name: &str, build: Build) -> String {
        run_well(Command::new(compile(name, build)).env("XDG_RUNTIME_DIR", &self.around))
    }

    fn end(self) {
        self.door.close(Duration::from_secs(5));
        self.service.stop(Duration::from_secs(5));
        // A folder that stays is in nobody's way.
        let _ = fs::remove_dir_all(&self.around);
    }
}

#[test]
fn the_program_of_the_specification_attaches_and_gets_its_answer() {
    let daemon = Daemon::start("seed");
    let said = daemon.run("seed_attach", Build::Plain);
    assert!(said.starts_with("-107 "), "the daemon's list allows no host, and says so: {said}");
    daemon.end();
}

#[test]
fn everything_works_through_a_daemon_too() {
    let daemon = Daemon::start("all");
    assert_eq!(daemon.run("attached", Build::Plain), "ok\n");
    assert_eq!(daemon.run("attached", Build::Sanitized), "ok\n");
    daemon.end();
}
