//! `cargo xtask`: the chores of this repository, each a verb with a file of its own.
//!
//! Everything a contributor or the CI runs goes through here, so that both run the same thing. A verb answers
//! whether all was well; what went wrong has been printed by then. An `Err` means that the chore itself could not
//! be done, and is printed here.
//!
//! Not here: what each verb does (`test.rs`, `tidy.rs`, `models.rs`, `spin.rs`, `generate.rs`,
//! `dist.rs`, `torture.rs`).

mod dist;
mod generate;
mod models;
mod spin;
mod test;
mod tidy;
mod torture;

mod edges;
mod jobs;
mod process;
mod source;
mod tree;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// The chores of the millpond repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run every check and test: the one command that must pass before a commit
    Test(test::TestArguments),
    /// Check what the style guide says a machine can check
    Tidy,
    /// Explore the models under each checker, then see that every mutant is caught
    Models(models::ModelArguments),
    /// Search every state of the spin models, then see that every mutant is rejected
    Spin(spin::SpinArguments),
    /// Write the generated files from the tables they come from
    Gen(generate::GenArguments),
    /// Lay out program, library, headers and pages as one would install them
    Dist(dist::DistArguments),
    /// Kill processes that share a queue for as long as you like, and count the items
    Torture(torture::TortureArguments),
}

fn main() -> ExitCode {
    let verb = CommandLine::parse().verb;
    let root = repository_root();
    let outcome = match verb {
        Verb::Test(arguments) => test::run(&root, &arguments),
        Verb::Tidy => tidy::run(&root),
        Verb::Models(arguments) => models::run(&root, &arguments),
        Verb::Spin(arguments) => spin::run(&root, &arguments),
        Verb::Gen(arguments) => generate::run(&root, &arguments),
        Verb::Dist(arguments) => dist::run(&root, &arguments),
        Verb::Torture(arguments) => torture::run(&root, &arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The folder above this package. Cargo says where that is when it runs us; a copied binary falls back on where it
/// was built.
fn repository_root() -> PathBuf {
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let mut root = PathBuf::from(package);
    root.pop();
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_verb_and_every_option_has_a_line_of_help() {
        for verb in CommandLine::command().get_subcommands() {
            assert!(verb.get_about().is_some(), "{} has no help", verb.get_name());
            for argument in verb.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {} has no help",
                    verb.get_name(),
                    argument.get_id()
                );
            }
        }
    }
}
