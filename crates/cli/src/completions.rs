//! `millpond completions`: a script that teaches a shell the commands and options.
//!
//! It is made from the same declarations that read the command line, so it knows whatever they know.

use crate::failure::Failure;
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// What `completions` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond completions bash > ~/.local/share/bash-completion/completions/millpond
  millpond completions zsh > ~/.zfunc/_millpond
  millpond completions fish > ~/.config/fish/completions/millpond.fish")]
pub(crate) struct CompletionArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: CompletionArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "millpond", &mut script);
    output::print(&script)
}
