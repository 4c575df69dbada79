//! `millpond man`: manual pages, made from the same declarations that read the command line.
//!
//! Without a folder the page of the program itself goes to standard output, for `man -l -`; with one, a page
//! for the program and for every command is written into it.

use crate::failure::Failure;
use crate::output;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What `man` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond man | man -l -
  millpond man ~/.local/share/man/man1 && man millpond-sim")]
pub(crate) struct ManArguments {
    /// A folder for the pages of all commands; it is made if need be
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ManArguments) -> Result<(), Failure> {
    let command = crate::Arguments::command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(|error| cannot(Path::new("the page"), &error))?;
        return output::print(&page);
    };
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
    clap_mangen::generate_to(command, folder).map_err(|error| cannot(folder, &error))?;
    output::note("note", &format!("wrote the pages to {}", folder.display()));
    Ok(())
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: cannot be written: {error}", path.display()))
}
