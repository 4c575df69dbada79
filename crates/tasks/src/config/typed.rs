//! From values of the table to what the parts of the program are given: numbers, durations and paths.
//!
//! This is the only place that takes a setting out of the table by its name. A name that is not there is our
//! own mistake and panics; the tests below change every setting in turn and see that something changes here.
//!
//! Not here: what the parts are given (`settings.rs`).

use super::check;
use super::durable::DeadSettings;
use super::finding::Finding;
use super::isolation::IsolationSettings;
use super::load::{Loaded, LoadedTable};
use super::memory_door::MemoryDoorSettings;
use super::settings::{
    AllowSettings, BuiltinSettings, ControlSettings, HandlerSettings, KeySettings, MailboxFileSettings,
    RegionAccess, RegionSettings, ResultSettings, ResultsFull, RetrySettings, Settings, StreamSettings,
};
use super::trace::TraceSettings;
use super::value::Value;
use super::web::WebSettings;
use super::{ConfigSources, load};
use crate::request::Limits;
use crate::runtime_dir::RuntimeDir;
use millpond::{
    AffinityMethod, AffinitySettings, BackPressure, MetricsConfig, PoolConfig, Predict, ScaleSettings,
    StealSettings, StealSize, Strategy,
};
use std::path::PathBuf;
use std::time::Duration;

/// What the daemon works with if nobody says anything: the defaults of the table.
impl Default for Settings {
    fn default() -> Self {
        load(&ConfigSources::default()).settings().expect("the table's defaults fit together")
    }
}

/// Makes each part's defaults those of the table, for whoever uses the part without the daemon.
macro_rules! defaults_of_the_table {
    ($($settings:ident = $field:ident;)*) => {
        $(impl Default for $settings {
            fn default() -> Self {
                Settings::default().$field
            }
        })*
    };
}

defaults_of_the_table! {
    KeySettings = keys;
    RetrySettings = retry;
    ControlSettings = control;
    WebSettings = web;
    MemoryDoorSettings = memory_door;
    IsolationSettings = isolation;
    MailboxFileSettings = mailbox;
    ResultSettings = results;
    StreamSettings = stream;
    TraceSettings = trace;
    DeadSettings = dead_letters;
    BuiltinSettings = builtin;
}

impl Loaded {
    /// The settings for the parts of the program; if anything is wrong, all that is to be said instead.
    pub fn settings(&self) -> Result<Settings, &[Finding]> {
        if self.has_errors() {
            return Err(self.findings());
        }
        let pool = self.pool();
        let library = |(name, table): (&String, &LoadedTable)| Some((name.clone(), table.library()?));
        let programs = self.handlers.iter().filter(|(_, table)| table.library().is_none());
        Ok(Settings {
            isolation: self.isolation(pool.workers),
            pool,
            tasks_max: self.count("tasks_max"),
            keys: KeySettings { max: self.count("keys_max"), age_max: self.duration("keys_age_max") },
            retry: RetrySettings {
                backoff_min: self.duration("retry.backoff_min"),
                backoff_max: self.duration("retry.backoff_max"),
            },
            name: self.name("name").to_owned(),
            runtime_dir: self.runtime_dir(),
            drain_timeout: self.duration("drain_timeout"),
            control: self.control(),
            memory_door: self.memory_door(),
            web: self.web(),
            nats: self.nats(),
            mailbox: self.mailbox(),
            request: self.request(),
            results: self.results(),
            stream: self.stream(),
            trace: self.trace(),
            builtin: self.builtin(),
            log_level: self.name("log.level").to_owned(),
            handlers: programs.map(|(name, table)| (name.clone(), table.handler())).collect(),
            journal: self.journal(),
            dead_letters: self.dead_letters(),
            schedules: self.schedules(),
            handler_retries: self.handler_retries(),
            libraries: self.handlers.iter().filter_map(library).collect(),
            regions: self.regions.iter().map(|(name, table)| (name.clone(), table.region())).collect(),
            opcodes: self.opcodes.iter().map(|(opcode, (handler, _))| (*opcode, handler.clone())).collect(),
        })
    }

    /// What `runtime_dir` says, unless a later layer gave the daemon a name.
    fn runtime_dir(&self) -> Option<PathBuf> {
        let path = text(self.value("runtime_dir")).map(PathBuf::from);
        path.filter(|_| !check::name_is_later(self))
    }

    /// The private directory of the daemon. It is known even while something else is wrong, so that commands
    /// find a daemon that was started before.
    pub fn runtime_path(&self) -> PathBuf {
        let named = || RuntimeDir::path_for(self.name("name")).expect("the name was checked");
        self.runtime_dir().unwrap_or_else(named)
    }

    fn control(&self) -> ControlSettings {
        ControlSettings {
            enabled: is_on(self.value("control.enabled")),
            connections_max: self.count("control.connections_max"),
            in_flight_max: self.count("control.in_flight_max"),
            outbox_bytes_max: self.count("control.outbox_bytes_max"),
        }
    }

    fn mailbox(&self) -> MailboxFileSettings {
        MailboxFileSettings {
            enabled: is_on(self.value("mailbox.enabled")),
            lines_max: self.count("mailbox.lines_max"),
            bytes_max: self.count("mailbox.bytes_max"),
            updaters_max: self.count("mailbox.updaters_max"),
            poll_interval: self.duration("mailbox.poll_interval"),
            results_bytes_max: self.count("mailbox.results_bytes_max") as u64,
        }
    }

    fn results(&self) -> ResultSettings {
        ResultSettings {
            max: self.count("results.max"),
            bytes_max: self.count("results.bytes_max") as u64,
            result_bytes_max: self.count("results.result_bytes_max"),
            checkpoint_bytes_max: self.count("results.checkpoint_bytes_max"),
            age_max: span(self.value("results.age_max")),
            full: match self.name("results.full") {
                "block" => ResultsFull::Block,
                "refuse" => ResultsFull::Refuse,
                _ => ResultsFull::DropOldest,
            },
        }
    }

    fn stream(&self) -> StreamSettings {
        StreamSettings {
            chunk_bytes_max: self.count("stream.chunk_bytes_max"),
            chunks_max: self.count("stream.chunks_max"),
            bytes_max: self.count("stream.bytes_max"),
            reader_wait: self.duration("stream.reader_wait"),
            readers_max: self.count("stream.readers_max"),
        }
    }

    fn builtin(&self) -> BuiltinSettings {
        BuiltinSettings {
            allow: AllowSettings {
                files: list(self.value("allow.files")).into_iter().map(PathBuf::from).collect(),
                hosts: list(self.value("allow.hosts")),
            },
            http_timeout: self.duration("http.timeout"),
            http_body_bytes_max: self.count("http.body_bytes_max") as u64,
            http_redirects_max: self.small("http.redirects_max"),
            files_bytes_max: self.count("files.bytes_max") as u64,
        }
    }

    fn pool(&self) -> PoolConfig {
        let plain = PoolConfig::default();
        let workers_max = number(self.value("workers_max")).map_or(0, |most| most as usize);
        let workers = match number(self.value("workers")) {
            Some(workers) => workers as usize,
            // On a machine of many processors a lower limit is to be kept, not to be an error.
            None if workers_max > 0 => plain.workers.min(workers_max),
            None => plain.workers,
        };
        PoolConfig {
            workers,
            workers_max,
            queue_capacity: self.count("queue_capacity"),
            local_capacity: self.count("local_capacity"),
            inbox_capacity: self.count("inbox_capacity"),
            futures_max: self.count("futures_max"),
            spin: self.duration("spin"),
            pin: is_on(self.value("pin")),
            stack_bytes: number(self.value("stack_bytes")).map(|bytes| bytes as usize),
            strategy: Strategy::named(self.name("strategy")).expect("the name was checked"),
            back_pressure: self.back_pressure(),
            stealing: self.stealing(),
            scaling: is_on(self.value("scaling.enabled")).then(|| self.scaling()),
            affinity: self.affinity(),
            metrics: MetricsConfig { sample_every: self.small("metrics.sample_every"), ..plain.metrics },
            ..plain
        }
    }

    fn request(&self) -> Limits {
        let milliseconds = |name| u64::try_from(self.duration(name).as_millis()).unwrap_or(u64::MAX);
        Limits {
            request_bytes_max: self.count("request.bytes_max") as u64,
            depth_max: self.count("request.depth_max") as u64,
            string_bytes_max: self.count("request.string_bytes_max") as u64,
            args_bytes_max: self.count("request.args_bytes_max") as u64,
            timeout_ms_max: milliseconds("request.timeout_max"),
            delay_ms_max: milliseconds("request.delay_max"),
            expires_ms_max: milliseconds("request.expires_max"),
            retries_max: self.count("request.retries_max") as u64,
            batch_lines_max: self.count("request.batch_lines_max") as u64,
        }
    }

    fn back_pressure(&self) -> BackPressure {
        match BackPressure::by_name(self.name("back_pressure.policy")).expect("the name was checked") {
            BackPressure::Block { .. } => {
                BackPressure::Block { timeout: span(self.value("back_pressure.timeout")) }
            }
            other => other,
        }
    }

    fn stealing(&self) -> StealSettings {
        StealSettings {
            enabled: is_on(self.value("stealing.enabled")),
            size: StealSize::by_name(self.name("stealing.size")).expect("the name was checked"),
            tasks_max: self.small("stealing.tasks_max"),
            threshold: self.small("stealing.threshold"),
            cooldown: self.duration("stealing.cooldown"),
        }
    }

    fn scaling(&self) -> ScaleSettings {
        let predict = span(self.value("scaling.predict_horizon")).map(|horizon| Predict {
            horizon,
            half_life: self.duration("scaling.predict_half_life"),
            utilisation: self.fraction("scaling.predict_utilisation"),
        });
        ScaleSettings {
            workers_min: self.small("scaling.workers_min"),
            workers_max: self.small("scaling.workers_max"),
            scale_up_threshold: self.fraction("scaling.scale_up_threshold"),
            scale_down_threshold: self.fraction("scaling.scale_down_threshold"),
            scale_down_idle: self.duration("scaling.scale_down_idle"),
            step_up: self.small("scaling.step_up"),
            step_down: self.small("scaling.step_down"),
            cooldown: self.duration("scaling.cooldown"),
            samples: self.small("scaling.samples"),
            wait_max: span(self.value("scaling.wait_max")),
            predict,
            interval: self.duration("scaling.interval"),
        }
    }

    fn affinity(&self) -> AffinitySettings {
        AffinitySettings {
            method: AffinityMethod::by_name(self.name("affinity.method")).expect("the name was checked"),
            virtual_nodes: self.small("affinity.virtual_nodes"),
            probes: self.small("affinity.probes"),
            sticky_for: span(self.value("affinity.sticky_for")),
            sticky_keys_max: self.count("affinity.sticky_keys_max"),
            steal_after: self.duration("affinity.steal_after"),
        }
    }

    pub(super) fn value(&self, name: &str) -> &Value {
        &self.get(name).0
    }

    pub(super) fn count(&self, name: &str) -> usize {
        let count = number(self.value(name)).expect("the table says it is a number");
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// A number whose bound in the table fits.
    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).unwrap_or(u32::MAX)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        span(self.value(name)).expect("the table says it is a duration")
    }

    pub(super) fn fraction(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Fraction(fraction) => *fraction,
            other => unreachable!("the table says {name} is a fraction, and it is {other}"),
        }
    }

    fn name(&self, name: &str) -> &str {
        text(self.value(name)).expect("the table says it is a name")
    }
}

impl LoadedTable {
    fn value(&self, name: &str) -> &Value {
        &self.get(name).0
    }

    fn count(&self, name: &str) -> usize {
        let count = number(self.value(name)).expect("the table says it is a number");
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn duration(&self, name: &str) -> Duration {
        span(self.value(name)).expect("the table says it is a duration")
    }

    fn handler(&self) -> HandlerSettings {
        HandlerSettings {
            command: list(self.value("command")),
            concurrency: self.count("concurrency"),
            timeout: span(self.value("timeout")),
            memory_bytes_max: number(self.value("memory_bytes_max")),
            cpu_seconds_max: number(self.value("cpu_seconds_max")),
            restart_backoff_min: self.duration("restart_backoff_min"),
            restart_backoff_max: self.duration("restart_backoff_max"),
            stop_grace: self.duration("stop_grace"),
            line_bytes_max: self.count("line_bytes_max"),
            tasks_per_process_max: number(self.value("tasks_per_process_max")),
            env: match self.value("env") {
                Value::Pairs(pairs) => pairs.clone(),
                _ => Vec::new(),
            },
            directory: text(self.value("directory")).map(PathBuf::from),
            summary: text(self.value("summary")).map(str::to_owned),
            example: text(self.value("example")).map(str::to_owned),
        }
    }

    fn region(&self) -> RegionSettings {
        RegionSettings {
            bytes: self.count("bytes"),
            access: match text(self.value("access")) {
                Some("read") => RegionAccess::Read,
                Some("write") => RegionAccess::Write,
                _ => RegionAccess::ReadWrite,
            },
        }
    }
}

// A word stands for none of these, and is answered with none.

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Count(number) | Value::Bytes(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn span(value: &Value) -> Option<Duration> {
    match value {
        Value::Span(duration) => Some(*duration),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

pub(super) fn list(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.clone(),
        _ => Vec::new(),
    }
}

pub(super) fn is_on(value: &Value) -> bool {
    *value == Value::Switch(true)
}

#[cfg(test)]
mod tests {
    use super::super::{
        ConfigFile, HANDLER_SETTINGS, Kind, REGION_SETTINGS, SCHEDULE_SETTINGS, SETTINGS, Setting,
    };
    use super::*;
    use millpond::{Pool, StartError};

    /// Settings from a file without a mistake.
    fn of_file(toml: &str) -> Settings {
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, handlers: &["echo", "sleep"], ..ConfigSources::default() });
        loaded.settings().unwrap_or_else(|findings| panic!("{toml}: {findings:?}"))
    }

    #[test]
    fn without_a_word_the_pool_is_made_as_the_library_makes_it() {
        let settings = of_file("");
        assert_eq!(settings.pool.queue_capacity, 16_384, "more than the library's, as the table says why");
        let of_library = PoolConfig { queue_capacity: 16_384, ..PoolConfig::default() };
        assert_eq!(format!("{:?}", settings.pool), format!("{of_library:?}"));
        assert_eq!(settings.request, Limits::default());
        let allow = settings.builtin.allow;
        assert!(allow.files.is_empty() && allow.hosts.is_empty(), "closed by default");
        let scaling = of_file("scaling.enabled = true").pool.scaling;
        assert_eq!(scaling, Some(ScaleSettings::default()));
        let predict =
            of_file("scaling.enabled = true\nscaling.predict_horizon = '10s'").pool.scaling.unwrap().predict;
        assert_eq!(predict, Some(Predict::default()));
    }

    /// Another value than the default, which fits the other defaults.
    fn another(setting: &Setting) -> &'static str {
        match setting.kind {
            Kind::Count(..) if setting.name == "workers" || setting.name == "scaling.workers_min" => "3",
            Kind::Count(_, ..7) => "3",
            Kind::Count(8.., _) => "9",
            Kind::Count(..) => "7",
            Kind::Fraction(..) => "0.9",
            Kind::Bytes(least, _) if least > 2 << 20 => "\"9 MiB\"",
            Kind::Bytes(least, _) if least > 128 << 10 || setting.name == "mailbox.bytes_max" => "\"2 MiB\"",
            Kind::Bytes(..) => "\"128 KiB\"",
            Kind::Span(least, _) if least > Duration::from_millis(7) => "\"7s\"",
            Kind::Span(..) => "\"7ms\"",
            Kind::Switch if setting.default == "true" => "false",
            Kind::Switch => "true",
            Kind::OneOf(names) => {
                names().into_iter().find(|name| *name != setting.default).map_or("", quoted)
            }
            Kind::Name | Kind::Queue | Kind::NatsUrl | Kind::Symbol => "\"x\"",
            Kind::Path => "\"/x\"",
            Kind::Address => "\"127.0.0.1:7\"",
            Kind::Url => "\"http://x\"",
            Kind::Paths | Kind::Hosts => "[\"/x\"]",
            Kind::Command => "[\"y\"]",
            Kind::Pairs => "{ A = \"b\" }",
            Kind::Sentence => "\"Does it.\"",
            Kind::JsonObject => "'{\"n\": 1}'",
            Kind::Cron => "\"0 3 * * *\"",
            Kind::Zone => "\"GMT\"",
        }
    }

    fn quoted(name: &'static str) -> &'static str {
        format!("{name:?}").leak()
    }

    #[test]
    fn every_setting_is_read_by_somebody() {
        for setting in SETTINGS {
            let context = match (setting.name, setting.only_with) {
                (name, _) if name.starts_with("scaling.predict_") && !name.ends_with("horizon") => {
                    "scaling.enabled = true\nscaling.predict_horizon = '1s'\n".to_owned()
                }
                (_, Some((other, "true"))) => format!("{other} = true\n"),
                (name, _) if name.starts_with("nats.") && name != "nats.url" => "nats.url = 'a'\n".to_owned(),
                (name, only) if name.starts_with("journal.") && name != "journal.dir" => {
                    let only = only.map(|(other, value)| format!("{other} = {value:?}\n"));
                    format!("journal.dir = '/j'\n{}", only.unwrap_or_default())
                }
                (_, Some((other, value))) => format!("{other} = {value:?}\n"),
                _ => String::new(),
            };
            let value = if matches!(setting.kind, Kind::Hosts) { "['x']" } else { another(setting) };
            let before = format!("{:?}", of_file(&context));
            let after = format!("{:?}", of_file(&format!("{context}{} = {value}", setting.name)));
            assert_ne!(before, after, "{} = {value} changes nothing", setting.name);
        }
        for setting in HANDLER_SETTINGS {
            let (rest, plain) = match setting.name {
                "command" | "library" => ("", "command = ['x']\n"),
                "symbol" => ("library = '/l.so'\n", "library = '/l.so'\n"),
                _ => ("command = ['x']\n", "command = ['x']\n"),
            };
            let before = format!("{:?}", of_file(&format!("[handler.a]\n{plain}")));
            let after = format!(
                "{:?}",
                of_file(&format!("[handler.a]\n{rest}{} = {}", setting.name, another(setting)))
            );
            assert_ne!(before, after, "{} changes nothing", setting.name);
        }
        for setting in SCHEDULE_SETTINGS {
            let rest = if setting.name == "cron" { "" } else { "cron = '@daily'\n" };
            let before = format!("{:?}", of_file("[schedule.a]\ncron = '@daily'\n").schedules);
            let said = match setting.name {
                "handler" => "\"sleep\"",
                _ => another(setting),
            };
            let file = format!("[schedule.a]\n{rest}{} = {said}", setting.name);
            let after = format!("{:?}", of_file(&file).schedules);
            assert_ne!(before, after, "{} changes nothing", setting.name);
        }
        for setting in REGION_SETTINGS {
            let before = format!("{:?}", of_file("[region.a]\n"));
            let after =
                format!("{:?}", of_file(&format!("[region.a]\n{} = {}", setting.name, another(setting))));
            assert_ne!(before, after, "{} changes nothing", setting.name);
        }
    }

    #[test]
    fn a_region_has_its_size_and_its_rights() {
        let file = "[region.a]\n[region.b]\nbytes = 7\naccess = 'read'\n[region.c]\naccess = 'write'\n";
        let regions: Vec<_> = of_file(file).regions.into_iter().collect();
        let region = |name: &str, bytes, access| (name.to_owned(), RegionSettings { bytes, access });
        let expected = [
            region("a", 4096, RegionAccess::ReadWrite),
            region("b", 7, RegionAccess::Read),
            region("c", 4096, RegionAccess::Write),
        ];
        assert_eq!(regions, expected);
    }

    /// What the pool says of a number that is too large by one, for every number it checks itself.
    #[test]
    fn the_bounds_of_the_table_are_those_of_the_pool() {
        type Set = fn(&mut PoolConfig, usize);
        let numbers: [(&str, Set); 6] = [
            ("workers", |config, number| config.workers = number),
            ("workers_max", |config, number| config.workers_max = number),
            ("queue_capacity", |config, number| config.queue_capacity = number),
            ("local_capacity", |config, number| config.local_capacity = number),
            ("inbox_capacity", |config, number| config.inbox_capacity = number),
            ("futures_max", |config, number| config.futures_max = number),
        ];
        for (name, set) in numbers {
            let Some(Kind::Count(1, bound)) = Setting::by_name(name).map(|setting| setting.kind) else {
                panic!("{name} is no number from 1 on");
            };
            let mut config = PoolConfig { workers: 1, ..PoolConfig::default() };
            set(&mut config, bound as usize + 1);
            let refused = Pool::start(config).expect_err("beyond the bound");
            let StartError::OutOfBounds { field, most, .. } = refused else { panic!("{name}: {refused}") };
            assert_eq!((field, most), (name, bound as usize));
        }
    }

    #[test]
    fn pool_and_requests_take_whatever_the_table_lets_through() {
        let context = "scaling.enabled = true\nscaling.predict_horizon = '1s'\naffinity.sticky_for = '1s'\n";
        for setting in SETTINGS {
            let ends = match setting.kind {
                Kind::Count(least, most) => [Value::Count(least), Value::Count(most)],
                Kind::Fraction(least, most) => [Value::Fraction(least), Value::Fraction(most)],
                Kind::Span(least, most) => [Value::Span(least), Value::Span(most)],
                Kind::Bytes(least, most) => [Value::Bytes(least), Value::Bytes(most)],
                _ => continue,
            };
            for end in ends {
                let context: String = context
                    .lines()
                    .filter(|line| !line.starts_with(setting.name))
                    .map(|line| format!("{line}\n"))
                    .collect();
                let toml = format!("{context}{} = {end}", setting.name);
                let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
                let loaded = load(&ConfigSources { file, ..ConfigSources::default() });
                // The checks between settings refuse some ends, as they should.
                let Ok(settings) = loaded.settings() else { continue };
                settings.request.check().unwrap();
                settings.pool.stealing.check().unwrap();
                settings.pool.affinity.check().unwrap();
                settings.pool.scaling.map_or(Ok(()), |scaling| scaling.check()).unwrap();
            }
        }
    }

    #[test]
    fn one_worker_for_each_processor_but_never_more_than_allowed() {
        assert_eq!(of_file("workers_max = 1").pool.workers, 1);
    }
}
