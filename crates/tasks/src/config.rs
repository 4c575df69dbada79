//! Configuration: from files, environment and flags to settings that are known to work.
//!
//! Flags win over the environment, that over the file, that over the defaults. Whatever is wrong is found in
//! one go, each mistake with its place, and nothing starts before all are mended. Every value remembers where
//! it came from.
//!
//! ```
//! use millpond_tasks::config::{ConfigFile, ConfigSources, load};
//! let file = ConfigFile { name: "millpond.toml", bytes: b"workers = 2\nworkers_max = 4\n" };
//! let loaded = load(&ConfigSources {
//!     file: Some(file),
//!     flags: &[("--workers".to_owned(), "3".to_owned())],
//!     ..ConfigSources::default()
//! });
//! let row = &loaded.listing()[0];
//! assert_eq!(format!("{} = {}, from {}", row.name, row.value, row.source), "workers = 3, from --workers");
//! assert_eq!(loaded.settings().expect("nothing is wrong").pool.workers, 3);
//! ```
//!
//! Not here: finding the file and reading it, printing, the flags of single commands (the program does
//! these).

mod check;
mod document;
mod durable;
mod finding;
mod isolation;
mod key_value;
mod library;
mod load;
mod memory_door;
mod named;
mod nats;
mod schedule;
mod settings;
mod table;
mod toml_file;
mod trace;
mod typed;
mod units;
mod value;
mod web;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod pages;

pub use document::FILE_BYTES_MAX;
pub use durable::{DeadSettings, JournalSettings, JournalSync};
pub use finding::{Finding, Place, Severity, Source};
pub use isolation::{Isolation, IsolationSettings};
pub use library::LibrarySettings;
pub use load::{ConfigFile, ConfigSources, Loaded, Row, load};
pub use memory_door::MemoryDoorSettings;
pub use named::{HANDLER_SETTINGS, REGION_SETTINGS};
pub use nats::{NatsResults, NatsSettings, NatsStorage, without_password};
pub use schedule::{SCHEDULE_SETTINGS, ScheduleSettings, print_moment};
pub(crate) use schedule::{read_cron, read_zone};
pub use settings::{
    AllowSettings, BuiltinSettings, ControlSettings, HandlerSettings, KeySettings, MailboxFileSettings,
    RegionAccess, RegionSettings, ResultSettings, ResultsFull, RetrySettings, Settings, StreamSettings,
};
pub use table::{SETTINGS, Setting};
pub use trace::TraceSettings;
pub use value::{Kind, Value};
pub use web::{WEB_ADDRESS, WebSettings};
