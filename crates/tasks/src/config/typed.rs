//! What the parts of the program are given: the same values as numbers, durations and paths.
//!
//! This is the only place that takes a setting out of the table by its name. A name that is not there is our
//! own mistake and panics; the tests below change every setting in turn and see that something changes here.

use super::finding::Finding;
use super::load::{Loaded, LoadedHandler};
use super::value::Value;
use crate::request::Limits;
use millpond::{
    AffinityMethod, AffinitySettings, BackPressure, MetricsConfig, PoolConfig, Predict, ScaleSettings,
    StealSettings, StealSize, Strategy,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A configuration that is known to work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the pool is made.
    pub pool: PoolConfig,
    /// The private directory; without, the daemon chooses one.
    pub runtime_dir: Option<PathBuf>,
    /// Whether tasks are read from mailbox files.
    pub mailbox: bool,
    /// Limits of requests.
    pub request: Limits,
    /// Limits of the store of results.
    pub results: ResultSettings,
    /// Limits of partial results.
    pub stream: StreamSettings,
    /// What built-in handlers may reach.
    pub allow: AllowSettings,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: String,
    /// Command handlers by name.
    pub handlers: BTreeMap<String, HandlerSettings>,
    /// Which handler an opcode calls.
    pub opcodes: BTreeMap<u32, String>,
}

/// Limits of the store of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultSettings {
    /// How many are kept.
    pub max: usize,
    /// How much memory they may take together.
    pub bytes_max: u64,
    /// How long one is kept, if not until there is no room.
    pub age_max: Option<Duration>,
    /// What a full store does.
    pub full: ResultsFull,
}

/// What a full store of results does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsFull {
    /// New tasks wait.
    Block,
    /// The oldest result goes.
    DropOldest,
    /// New tasks are refused.
    Refuse,
}

/// Limits of partial results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// The largest.
    pub chunk_bytes_max: usize,
    /// How many of one task are held for its reader.
    pub chunks_max: usize,
    /// How much memory those may take.
    pub bytes_max: usize,
}

/// What built-in handlers may reach: nothing, by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowSettings {
    /// Directories, with all that is below.
    pub files: Vec<PathBuf>,
    /// Hosts, each with or without a port.
    pub hosts: Vec<String>,
}

/// One command handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSettings {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// How many may run at once.
    pub concurrency: usize,
    /// How long one task may take.
    pub timeout: Option<Duration>,
    /// How much memory it may take.
    pub memory_bytes_max: Option<u64>,
    /// How much processor time it may use in its life.
    pub cpu_seconds_max: Option<u64>,
    /// How long it stays down after its first crash.
    pub restart_backoff_min: Duration,
    /// How long it stays down at most.
    pub restart_backoff_max: Duration,
    /// Variables added to its environment.
    pub env: Vec<(String, String)>,
    /// Where it is started, if not where the daemon was.
    pub directory: Option<PathBuf>,
}

impl Loaded {
    /// The settings for the parts of the program; if anything is wrong, all that is to be said instead.
    pub fn settings(&self) -> Result<Settings, &[Finding]> {
        if self.has_errors() {
            return Err(self.findings());
        }
        Ok(Settings {
            pool: self.pool(),
            runtime_dir: text(self.value("runtime_dir")).map(PathBuf::from),
            mailbox: is_on(self.value("mailbox.enabled")),
            request: self.request(),
            results: ResultSettings {
                max: self.count("results.max"),
                bytes_max: self.count("results.bytes_max") as u64,
                age_max: span(self.value("results.age_max")),
                full: match self.name("results.full") {
                    "block" => ResultsFull::Block,
                    "refuse" => ResultsFull::Refuse,
                    _ => ResultsFull::DropOldest,
                },
            },
            stream: StreamSettings {
                chunk_bytes_max: self.count("stream.chunk_bytes_max"),
                chunks_max: self.count("stream.chunks_max"),
                bytes_max: self.count("stream.bytes_max"),
            },
            allow: AllowSettings {
                files: list(self.value("allow.files")).into_iter().map(PathBuf::from).collect(),
                hosts: list(self.value("allow.hosts")),
            },
            log_level: self.name("log.level").to_owned(),
            handlers: self
                .handlers
                .iter()
                .map(|(name, handler)| (name.clone(), handler.settings()))
                .collect(),
            opcodes: self.opcodes.iter().map(|(opcode, (handler, _))| (*opcode, handler.clone())).collect(),
        })
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

    fn value(&self, name: &str) -> &Value {
        &self.get(name).0
    }

    fn count(&self, name: &str) -> usize {
        let count = number(self.value(name)).expect("the table says it is a number");
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// A number whose bound in the table fits.
    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).unwrap_or(u32::MAX)
    }

    fn duration(&self, name: &str) -> Duration {
        span(self.value(name)).expect("the table says it is a duration")
    }

    fn fraction(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Fraction(fraction) => *fraction,
            other => unreachable!("the table says {name} is a fraction, and it is {other}"),
        }
    }

    fn name(&self, name: &str) -> &str {
        text(self.value(name)).expect("the table says it is a name")
    }
}

impl LoadedHandler {
    fn settings(&self) -> HandlerSettings {
        let value = |name| &self.get(name).0;
        let backoff = |name| span(value(name)).expect("the table says it is a duration");
        let concurrency = number(value("concurrency")).expect("the table says it is a number");
        HandlerSettings {
            command: list(value("command")),
            concurrency: concurrency as usize,
            timeout: span(value("timeout")),
            memory_bytes_max: number(value("memory_bytes_max")),
            cpu_seconds_max: number(value("cpu_seconds_max")),
            restart_backoff_min: backoff("restart_backoff_min"),
            restart_backoff_max: backoff("restart_backoff_max"),
            env: match value("env") {
                Value::Pairs(pairs) => pairs.clone(),
                _ => Vec::new(),
            },
            directory: text(value("directory")).map(PathBuf::from),
        }
    }
}

// A word stands for none of these, and is answered with none.

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Count(number) | Value::Bytes(number) => Some(*number),
        _ => None,
    }
}

fn span(value: &Value) -> Option<Duration> {
    match value {
        Value::Span(duration) => Some(*duration),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn is_on(value: &Value) -> bool {
    *value == Value::Switch(true)
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, ConfigSources, HANDLER_SETTINGS, Kind, SETTINGS, Setting, load};
    use super::*;
    use millpond::{Pool, StartError};

    /// Settings from a file without a mistake.
    fn of_file(toml: &str) -> Settings {
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, ..ConfigSources::default() });
        loaded.settings().unwrap_or_else(|findings| panic!("{toml}: {findings:?}"))
    }

    #[test]
    fn without_a_word_the_pool_is_made_as_the_library_makes_it() {
        let settings = of_file("");
        assert_eq!(format!("{:?}", settings.pool), format!("{:?}", PoolConfig::default()));
        assert_eq!(settings.request, Limits::default());
        assert!(settings.allow.files.is_empty() && settings.allow.hosts.is_empty(), "closed by default");
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
            Kind::Count(..) => "7",
            Kind::Fraction(..) => "0.9",
            Kind::Bytes(least, _) if least > 128 << 10 => "\"2 MiB\"",
            Kind::Bytes(..) => "\"128 KiB\"",
            Kind::Span(..) => "\"7ms\"",
            Kind::Switch if setting.default == "true" => "false",
            Kind::Switch => "true",
            Kind::OneOf(names) => {
                names().into_iter().find(|name| *name != setting.default).map_or("", quoted)
            }
            Kind::Name | Kind::Path => "\"/x\"",
            Kind::Paths | Kind::Hosts => "[\"/x\"]",
            Kind::Command => "[\"y\"]",
            Kind::Pairs => "{ A = \"b\" }",
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
                (_, Some((other, value))) => format!("{other} = {value:?}\n"),
                _ => String::new(),
            };
            let value = if matches!(setting.kind, Kind::Hosts) { "['x']" } else { another(setting) };
            let before = format!("{:?}", of_file(&context));
            let after = format!("{:?}", of_file(&format!("{context}{} = {value}", setting.name)));
            assert_ne!(before, after, "{} = {value} changes nothing", setting.name);
        }
        for setting in HANDLER_SETTINGS {
            let rest = if setting.name == "command" { "" } else { "command = ['x']\n" };
            let before = format!("{:?}", of_file("[handler.a]\ncommand = ['x']\n"));
            let after = format!(
                "{:?}",
                of_file(&format!("[handler.a]\n{rest}{} = {}", setting.name, another(setting)))
            );
            assert_ne!(before, after, "{} changes nothing", setting.name);
        }
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
