//! The options of `millpond sim`, and the scenario they make.
//!
//! An option that another one makes meaningless is refused rather than ignored. What an option may be is checked where
//! it is used: numbers by the simulator, names by the policy; their errors say what is allowed.
//!
//! Not here: the run (`sim.rs`).

use super::Plan;
use crate::failure::Failure;
use crate::units::{parse_time, time_argument};
use clap::{Args, ValueEnum};
use millpond_policy::scale::ScaleSettings;
use millpond_policy::steal::{StealSettings, StealSize};
use millpond_sim::{Arrivals, Scenario, Service, Trace, strategies};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Whoever reads JSON with doubles must be able to repeat a run.
const SEED_MAX: u64 = (1 << 53) - 1;

/// By default a burst lasts for so many mean service times, and the pause after it for so many.
const BURST_SERVICES: (u32, u32) = (100, 300);
/// By default a run sees so many days.
const DAYS: u32 = 4;

const EXAMPLES: &str = "Examples:
  millpond sim                                             every strategy, 16 workers at load 0.9
  millpond sim --workers 1000 --tasks 2000000 --strategy shared,power-of-two,random
  millpond sim --service heavy-tail --steal                what stealing does for long tasks
  millpond sim --arrivals bursts --plot bursts.svg         and a picture of it
  millpond sim --arrivals diurnal --tasks 5000000 --scale 4..32 --strategy least-busy
  millpond sim --trace arrivals.csv --workers 8            one arrival in seconds per line, or seconds,service_seconds
  millpond sim --speeds 1,1,0.5 --seed 42 --json           every third worker at half the speed, for a program";

/// What `sim` is told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = strategies_and_examples())]
pub(crate) struct SimArguments {
    /// Workers, 1 to 10000; with --scale, those at the beginning
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    workers: u32,

    /// Mean arrivals × mean service / workers; from 1 on more comes than can be done
    #[arg(short, long, value_name = "RHO", default_value_t = 0.9, conflicts_with = "trace")]
    load: f64,

    /// Tasks, 1 to 10000000 [default: 200000, or all of a trace]
    #[arg(short = 'n', long, value_name = "N")]
    tasks: Option<u64>,

    /// When tasks come [default: poisson]
    #[arg(short, long, value_name = "KIND")]
    arrivals: Option<ArrivalKind>,

    /// How long tasks run
    #[arg(short, long, value_name = "KIND", default_value = "exponential")]
    service: ServiceKind,

    /// How long tasks run on average
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_time)]
    service_mean: Duration,

    /// Who gets a task: a name, several with commas between them, or all
    #[arg(long, value_name = "NAME", default_value = "all", value_delimiter = ',')]
    strategy: Vec<String>,

    /// The same seed gives the same run [default: at random, and printed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: Option<u64>,

    /// Idle workers rob others: of one task, of half, or of all
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "half")]
    steal: Option<String>,

    /// Workers come and go with the load, between these two numbers
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range)]
    scale: Option<(u32, u32)>,

    /// How often scaling looks at the load [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "scale")]
    scale_interval: Option<Duration>,

    /// For how long the number of workers stays after a change [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "scale")]
    scale_cooldown: Option<Duration>,

    /// For how long a worker must have been idle before it may go [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "scale")]
    scale_idle: Option<Duration>,

    /// How fast the workers are; the list goes round over them [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    speeds: Vec<f64>,

    /// Arrivals by bursts: mean length of a burst and of a pause [default: 100 and 300 mean service times]
    #[arg(long, value_name = "ON,OFF", value_parser = parse_bursts)]
    bursts: Option<(Duration, Duration)>,

    /// Diurnal arrivals: the length of a day [default: a quarter of the run]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    period: Option<Duration>,

    /// Diurnal arrivals: how far the rate swings, 0 to 1 [default: 0.8]
    #[arg(long, value_name = "SHARE")]
    swing: Option<f64>,

    /// Arrivals as recorded: a file with seconds since the beginning, or seconds,service_seconds, on each line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,

    /// Draw the waits as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalKind {
    /// At random, as from many independent users
    Poisson,
    /// Poisson in bursts, and nothing between them
    Bursts,
    /// Poisson with a rate that swings like a sine
    Diurnal,
    /// As recorded in the file of --trace
    Trace,
    /// One after the other at equal distances
    Even,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ServiceKind {
    /// No memory: the usual textbook case
    Exponential,
    /// Bounded Pareto, alpha 1.5: the longest takes 10 000 times as long as the shortest
    HeavyTail,
    /// One of ten takes ten times as long as the others
    Bimodal,
    /// All take the same time
    Constant,
}

impl ServiceKind {
    fn law(self) -> Service {
        match self {
            Self::Exponential => Service::Exponential,
            Self::HeavyTail => Service::HeavyTail,
            Self::Bimodal => Service::Bimodal,
            Self::Constant => Service::Constant,
        }
    }
}

impl SimArguments {
    /// What to run, checked as far as it can be before running it.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let strategies = self.strategies();
        let mut scenario = Scenario {
            workers: self.workers,
            tasks: self.tasks.unwrap_or(Scenario::default().tasks),
            load: self.load,
            arrivals: Arrivals::Poisson,
            service: self.service.law(),
            service_mean: self.service_mean,
            speeds: self.speeds.clone(),
            strategy: strategies[0].clone(),
            stealing: self.stealing()?,
            scaling: self.scaling(),
            seed: self.seed.unwrap_or_else(random_seed),
        };
        // First without the arrivals, whose own settings are derived from the others.
        scenario.check().map_err(Failure::usage)?;
        scenario.arrivals = self.arrivals(&scenario)?;
        if let (Arrivals::Trace(trace), None) = (&scenario.arrivals, self.tasks) {
            scenario.tasks = trace.len() as u64;
        }
        scenario.check().map_err(Failure::usage)?;
        // Also those beside an `all`.
        for strategy in self.strategy.iter().filter(|name| *name != "all") {
            millpond_sim::check_strategy(strategy).map_err(Failure::usage)?;
        }
        let command = self.command(&scenario);
        Ok(Plan { scenario, strategies, command })
    }

    fn strategies(&self) -> Vec<String> {
        if self.strategy.iter().any(|name| name == "all") {
            return strategies().map(|(name, _)| name.to_owned()).collect();
        }
        let mut names: Vec<String> = Vec::new();
        for name in &self.strategy {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    fn stealing(&self) -> Result<Option<StealSettings>, Failure> {
        let Some(size) = &self.steal else { return Ok(None) };
        let size = StealSize::by_name(size).map_err(Failure::usage)?;
        Ok(Some(StealSettings { size, ..StealSettings::default() }))
    }

    fn scaling(&self) -> Option<ScaleSettings> {
        let usual = ScaleSettings::default();
        let (workers_min, workers_max) = self.scale?;
        Some(ScaleSettings {
            workers_min,
            workers_max,
            interval: self.scale_interval.unwrap_or(usual.interval),
            cooldown: self.scale_cooldown.unwrap_or(usual.cooldown),
            scale_down_idle: self.scale_idle.unwrap_or(usual.scale_down_idle),
            ..usual
        })
    }

    /// The kind that was asked for, or the one whose options were given.
    fn arrival_kind(&self) -> Result<ArrivalKind, Failure> {
        let is_diurnal = self.period.is_some() || self.swing.is_some();
        let given = [
            (self.trace.is_some(), "--trace", ArrivalKind::Trace),
            (self.bursts.is_some(), "--bursts", ArrivalKind::Bursts),
            (is_diurnal, "--period and --swing", ArrivalKind::Diurnal),
        ];
        let given: Vec<_> = given.iter().filter(|(is_given, _, _)| *is_given).collect();
        let name =
            |kind: ArrivalKind| kind.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned());
        match (self.arrivals, &given[..]) {
            (None, []) => Ok(ArrivalKind::Poisson),
            (None, [(_, _, kind)]) => Ok(*kind),
            (Some(kind), rest) if rest.iter().all(|(_, _, of)| *of == kind) => Ok(kind),
            (Some(kind), rest) => {
                let options =
                    rest.iter().find(|(_, _, of)| *of != kind).map_or("", |(_, options, _)| options);
                Err(Failure::usage(format!(
                    "arrivals: {options} cannot be used with --arrivals {}",
                    name(kind)
                )))
            }
            (None, [(_, one, _), (_, other, _), ..]) => {
                Err(Failure::usage(format!("arrivals: {one} and {other} cannot be used together")))
            }
        }
    }

    fn arrivals(&self, scenario: &Scenario) -> Result<Arrivals, Failure> {
        let mean = self.service_mean;
        Ok(match self.arrival_kind()? {
            ArrivalKind::Poisson => Arrivals::Poisson,
            ArrivalKind::Even => Arrivals::Even,
            ArrivalKind::Bursts => {
                let (on, off) = self.bursts.unwrap_or((mean * BURST_SERVICES.0, mean * BURST_SERVICES.1));
                Arrivals::Bursts { on, off }
            }
            ArrivalKind::Diurnal => {
                let period = self.period.unwrap_or(scenario.arrival_span() / DAYS);
                Arrivals::Diurnal { period, swing: self.swing.unwrap_or(0.8) }
            }
            ArrivalKind::Trace => match &self.trace {
                Some(path) => Arrivals::Trace(Arc::new(read_trace(path)?)),
                None => {
                    let message = "arrivals: expected --trace FILE with --arrivals trace, got no file";
                    return Err(Failure::usage(message));
                }
            },
        })
    }

    /// The command that repeats the run: what differs from the defaults, and the seed.
    fn command(&self, scenario: &Scenario) -> String {
        let usual = Scenario::default();
        let mut words = vec!["millpond sim".to_owned()];
        let mut option = |is_needed: bool, name: &str, value: String| {
            if is_needed {
                words.push(format!("--{name} {value}"));
            }
        };
        let is_trace = self.trace.is_some();
        option(scenario.workers != usual.workers, "workers", scenario.workers.to_string());
        option(!is_trace && scenario.load != usual.load, "load", scenario.load.to_string());
        option(
            self.tasks.is_some_and(|tasks| is_trace || tasks != usual.tasks),
            "tasks",
            scenario.tasks.to_string(),
        );
        option(scenario.arrivals != usual.arrivals, "arrivals", scenario.arrivals.name().to_owned());
        option(scenario.service != usual.service, "service", scenario.service.name().to_owned());
        let is_mean_usual = scenario.service_mean == usual.service_mean;
        option(!is_mean_usual, "service-mean", time_argument(scenario.service_mean));
        option(!self.strategy.iter().any(|name| name == "all"), "strategy", self.strategy.join(","));
        let speeds: Vec<String> = self.speeds.iter().map(f64::to_string).collect();
        option(!speeds.is_empty(), "speeds", speeds.join(","));
        if let Some((on, off)) = self.bursts {
            option(true, "bursts", format!("{},{}", time_argument(on), time_argument(off)));
        }
        if let Some(swing) = self.swing {
            option(true, "swing", swing.to_string());
        }
        if let Some((least, most)) = self.scale {
            option(true, "scale", format!("{least}..{most}"));
        }
        for (name, time) in [
            ("period", self.period),
            ("scale-interval", self.scale_interval),
            ("scale-cooldown", self.scale_cooldown),
            ("scale-idle", self.scale_idle),
        ] {
            option(time.is_some(), name, time_argument(time.unwrap_or_default()));
        }
        if let Some(path) = &self.trace {
            option(true, "trace", quoted(&path.to_string_lossy()));
        }
        option(true, "seed", scenario.seed.to_string());
        if let Some(size) = &self.steal {
            words.push(format!("--steal={size}"));
        }
        words.join(" ")
    }
}

fn strategies_and_examples() -> String {
    let lines: Vec<String> = strategies().map(|(name, about)| format!("  {name:22} {about}\n")).collect();
    format!("Strategies:\n{}\n{EXAMPLES}", lines.concat())
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:@%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn read_trace(path: &Path) -> Result<Trace, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| {
        Failure::usage(format!("trace {name}: expected a file that can be read, got: {error}"))
    })?;
    Trace::read(&name, BufReader::new(file)).map_err(Failure::usage)
}

/// Of 32 bits, so that it can be typed again.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let bad = || format!("expected two numbers such as 4..32, got {text:?}");
    let (least, most) = text.split_once("..").ok_or_else(bad)?;
    Ok((least.parse().map_err(|_| bad())?, most.parse().map_err(|_| bad())?))
}

fn parse_bursts(text: &str) -> Result<(Duration, Duration), String> {
    let bad = |why: String| format!("expected two times such as 100ms,300ms, got {text:?}{why}");
    let (on, off) = text.split_once(',').ok_or_else(|| bad(String::new()))?;
    let part = |part| parse_time(part).map_err(|error| bad(format!(": {error}")));
    Ok((part(on)?, part(off)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        sim: SimArguments,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let line = Line::try_parse_from(["sim"].into_iter().chain(line.split_whitespace()))
            .map_err(|error| error.to_string())?;
        line.sim.plan().map_err(|failure| failure.message().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_command_that_is_printed_makes_the_same_plan() {
        for line in [
            "",
            "--workers 3 --load 0.5 --tasks 1000 --service heavy-tail --service-mean 1500us --strategy shared,random",
            "--arrivals bursts --bursts 10ms,2s --steal --seed 7",
            "--arrivals bursts",
            "--arrivals diurnal --swing 0.5 --steal=one",
            "--period 3s --scale 2..40 --scale-interval 10ms --scale-cooldown 1s --scale-idle 0ns",
            "--arrivals even --speeds 1,0.5",
        ] {
            let first = plan(line).unwrap();
            let rest = first.command.strip_prefix("millpond sim").unwrap();
            let again = plan(rest).unwrap();
            assert_eq!(first.scenario, again.scenario, "{line}: {}", first.command);
            assert_eq!(first.strategies, again.strategies);
            assert_eq!(first.command, again.command);
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (line, expected) in [
            (
                "--arrivals even --swing 0.5",
                "arrivals: --period and --swing cannot be used with --arrivals even",
            ),
            (
                "--bursts 1s,1s --period 1s",
                "arrivals: --bursts and --period and --swing cannot be used together",
            ),
            ("--arrivals trace", "arrivals: expected --trace FILE with --arrivals trace, got no file"),
            ("--steal=most", "stealing.size: expected"),
            ("--scale 9..3", "scaling.workers_min: expected 1 to workers_max (3), got 9"),
        ] {
            let error = plan(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        for line in [
            "--scale-idle 1s",
            "--load 0.5 --trace x",
            "--scale 4",
            "--bursts 4ms",
            "--seed 9007199254740992",
        ] {
            assert!(plan(line).unwrap_err().starts_with("error: "), "{line}");
        }
    }

    #[test]
    fn a_strategy_named_twice_runs_once_and_all_means_all() {
        assert_eq!(plan("--strategy random,shared,random").unwrap().strategies, ["random", "shared"]);
        let all: Vec<_> = strategies().map(|(name, _)| name).collect();
        assert_eq!(plan("--strategy random,all").unwrap().strategies, all);
        assert!(plan("--strategy all,rendom").unwrap_err().contains("did you mean \"random\"?"));
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("a/b-1.csv"), "a/b-1.csv");
        assert_eq!(quoted("my day's.csv"), r"'my day'\''s.csv'");
    }
}
