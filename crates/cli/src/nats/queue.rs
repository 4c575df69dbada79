//! Which server and which queue: flags, else the environment, else the configuration file, as daemons find them.
//!
//! What else the configuration says of the door counts for commands too: credentials, certificates, how long to
//! wait. What is wrong elsewhere in it is no reason not to find the server.

use crate::config_file;
use crate::failure::Failure;
use crate::setting_flags::SettingFlags;
use clap::Args;
use millpond_nats::{NatsClient, NatsError};
use millpond_tasks::Limits;
use millpond_tasks::config::{NatsSettings, Severity, Source};
use std::path::{Path, PathBuf};

/// Flags that stand for settings, as they are typed and as they are called.
const FLAGS: [(&str, &str); 2] = [("--nats", "--nats-url"), ("--queue", "--nats-queue")];

/// Which queue.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct QueueFlags {
    /// The NATS server, for example nats://127.0.0.1:4222; several with commas between [default: nats.url of the
    /// settings]
    #[arg(long = "nats", value_name = "URL", help_heading = "NATS")]
    pub(crate) url: Option<String>,

    /// The queue on it [default: nats.queue of the settings, else main]
    #[arg(long, value_name = "NAME", help_heading = "NATS")]
    pub(crate) queue: Option<String>,
}

/// Which queue, for commands that know no daemon.
#[derive(Clone, Debug, Args)]
pub(super) struct QueueArguments {
    #[command(flatten)]
    flags: QueueFlags,

    /// The configuration file that says so [default: as `millpond serve` finds it]
    #[arg(long, value_name = "FILE", help_heading = "NATS")]
    config: Option<PathBuf>,
}

impl QueueArguments {
    pub(super) fn typed(&self) -> String {
        self.flags.typed()
    }

    pub(super) fn connect(&self) -> Result<(NatsClient, Limits), Failure> {
        let (settings, limits) = self.flags.settings(self.config.as_deref())?;
        Ok((NatsClient::connect(&settings).map_err(|error| failure(&error))?, limits))
    }
}

impl QueueFlags {
    /// The flags as settings, for whoever puts them together with others.
    pub(crate) fn as_settings(&self) -> impl Iterator<Item = (String, String)> {
        let given = [self.url.clone(), self.queue.clone()];
        FLAGS.iter().zip(given).filter_map(|((_, setting), value)| Some(((*setting).to_owned(), value?)))
    }

    /// What the settings say of the server, and of requests.
    pub(crate) fn settings(&self, config: Option<&Path>) -> Result<(NatsSettings, Limits), Failure> {
        let flags = SettingFlags { given: self.as_settings().collect() };
        let loaded = config_file::load(config, &flags)?.loaded;
        for finding in loaded.findings().iter().filter(|finding| finding.severity == Severity::Error) {
            let is_ours = match &finding.source {
                Source::Flag { .. } => true,
                Source::Environment { name } => name.starts_with("MILLPOND_NATS_"),
                _ => false,
            };
            if is_ours {
                let named = finding.source.to_string();
                let typed =
                    FLAGS.iter().find(|(_, setting)| *setting == named).map_or(&*named, |(flag, _)| flag);
                return Err(Failure::Usage(format!("{typed}: {}", finding.message)));
            }
        }
        let limits = loaded.settings().map_or_else(|_| Limits::default(), |settings| settings.request);
        let settings = loaded.nats().ok_or_else(|| {
            Failure::Usage(
                "which NATS server? say --nats nats://HOST:4222, or set nats.url or MILLPOND_NATS_URL"
                    .to_owned(),
            )
        })?;
        Ok((settings, limits))
    }

    /// What must be typed after another command so that it means the same queue.
    pub(crate) fn typed(&self) -> String {
        let given = [&self.url, &self.queue];
        let flags = FLAGS
            .iter()
            .zip(given)
            .filter_map(|((flag, _), value)| Some(format!(" {flag} {}", value.as_ref()?)));
        flags.collect()
    }
}

/// What a command ends with.
pub(crate) fn failure(error: &NatsError) -> Failure {
    let message = error.to_string();
    match error {
        // The queue is there once a daemon has opened it.
        NatsError::Unreachable(_) | NatsError::TimedOut(_) | NatsError::Missing(_) => {
            Failure::NoDaemon(message)
        }
        NatsError::Invalid(_) => Failure::Usage(message),
        NatsError::Full(_) => Failure::Refused(message),
        _ => Failure::Failed(message),
    }
}
