//! A flag for every setting: `stealing.size` is `--stealing-size`.
//!
//! They are made from the table of settings, so a new setting has its flag at once. What a value may be is
//! not judged here: all layers are judged together, and every mistake in any of them is told at once.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use millpond_tasks::config::{Kind, SETTINGS, Setting};

/// The short help shows these; the long one shows all.
const WELL_KNOWN: [&str; 5] = ["workers", "queue_capacity", "name", "runtime_dir", "log.level"];

/// What was said by flags, as the configuration wants it: `("--workers", "4")`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags {
    pub(crate) given: Vec<(String, String)>,
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let long = setting.flag();
    let help = format!("{} [{}; default: {}]", setting.about, setting.expected(), setting.default_value());
    let arg = Arg::new(setting.name)
        .long(long.trim_start_matches('-').to_owned())
        .value_name("VALUE")
        .help_heading("Settings")
        .help(help)
        .action(ArgAction::Append)
        .allow_negative_numbers(true)
        .hide_short_help(!WELL_KNOWN.contains(&setting.name));
    match setting.kind {
        // `--pin` alone says yes.
        Kind::Switch => arg.num_args(0..=1).default_missing_value("true").value_name("SWITCH"),
        _ => arg,
    }
}

/// A path on the command line is meant from where one is; in a file it would mean something else each time.
fn from_here(setting: &Setting, text: &str) -> String {
    let is_word = setting.word.is_some_and(|(word, _)| word == text);
    let whole = match setting.kind {
        Kind::Path if !is_word => std::path::absolute(text).ok(),
        _ => None,
    };
    whole.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| text.to_owned())
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |setting: &'static Setting| {
            let texts = matches.get_many::<String>(setting.name).into_iter().flatten();
            texts.map(|text| (setting.flag(), from_here(setting, text)))
        };
        Ok(Self { given: SETTINGS.iter().flat_map(of).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
