//! A daemon in this process, in a directory of its own, with handlers that do as they are told.
//!
//! Two of them are quick, so that both ways through the door are taken.

use millpond_shm::{Client, ClientSettings, MEMORY_SOCKET_NAME, MemoryDoor};
use millpond_tasks::config::{ConfigSources, MemoryDoorSettings, load};
use millpond_tasks::{
    ErrorCode, Log, MemoryDoorStats, Registry, Service, ServiceConfig, Symbols, TaskFailure, function, quick,
};
use serde_json::value::{RawValue, to_raw_value};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// Longer than anything here takes, unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct House {
    pub(crate) directory: PathBuf,
    pub(crate) service: Option<Service>,
    pub(crate) door: Option<MemoryDoor>,
}

/// A directory nobody else has.
pub(crate) fn directory(what: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("millpond-shm-{what}-{}-{}", process::id(), COUNT.fetch_add(1, Relaxed));
    env::temp_dir().join(name)
}

pub(crate) fn door_settings() -> MemoryDoorSettings {
    load(&ConfigSources::default()).settings().unwrap().memory_door
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    let echo = |args: &RawValue, out: &mut Vec<u8>| {
        out.extend_from_slice(args.get().as_bytes());
        Ok(())
    };
    registry.add("echo", quick(echo)).unwrap();
    registry.add("slow_echo", function(|call| Ok(call.args().to_owned()))).unwrap();
    registry
        .add(
            "quick_failure",
            quick(|_: &RawValue, _: &mut Vec<u8>| {
                Err(TaskFailure::new(ErrorCode::HandlerError, "on purpose"))
            }),
        )
        .unwrap();
    registry
        .add(
            "wait",
            function(|call| {
                let until = Instant::now() + LONG;
                while !call.is_cancelled() && Instant::now() < until {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(TaskFailure::new(ErrorCode::Cancelled, "waited in vain"))
            }),
        )
        .unwrap();
    registry
        .add(
            "count",
            function(|call| {
                let args: std::collections::HashMap<String, u32> = call.read_args()?;
                for number in 0..args["to"] {
                    call.partial(to_raw_value(&number).unwrap())?;
                }
                Ok(to_raw_value("counted").unwrap())
            }),
        )
        .unwrap();
    registry
        .add(
            "large",
            function(|call| {
                let args: std::collections::HashMap<String, usize> = call.read_args()?;
                Ok(to_raw_value(&"x".repeat(args["bytes"])).unwrap())
            }),
        )
        .unwrap();
    registry
}

impl House {
    pub(crate) fn build() -> Self {
        Self::with(ServiceConfig::default(), door_settings())
    }

    pub(crate) fn with(config: ServiceConfig, settings: MemoryDoorSettings) -> Self {
        Self::at(&directory("house"), config, settings)
    }

    pub(crate) fn at(directory: &Path, config: ServiceConfig, settings: MemoryDoorSettings) -> Self {
        let service = Service::start(config, registry(), Symbols::new()).unwrap();
        let path = directory.join(MEMORY_SOCKET_NAME);
        let door = MemoryDoor::open(&path, settings, service.handle(), Log::silent()).unwrap();
        Self { directory: directory.to_owned(), service: Some(service), door: Some(door) }
    }

    /// The directory as a name: one with a slash is a path.
    pub(crate) fn name(&self) -> String {
        self.directory.to_str().unwrap().to_owned()
    }

    pub(crate) fn client(&self) -> Client {
        Client::attach(&self.name()).unwrap()
    }

    pub(crate) fn client_with(&self, settings: ClientSettings) -> Client {
        Client::attach_with(&self.name(), settings).unwrap()
    }

    pub(crate) fn stats(&self) -> MemoryDoorStats {
        self.door.as_ref().unwrap().stats()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            service.stop(LONG);
        }
        drop(self.door.take());
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Waits for a condition; it must come.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "it never came: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn request(handler: &str, args: &str) -> Vec<u8> {
    format!("{{\"handler\":\"{handler}\",\"args\":{args}}}").into_bytes()
}
