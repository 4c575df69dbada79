//! Colours: only on a terminal, and only where nobody asked for none.
//!
//! `NO_COLOR` and `TERM=dumb` switch them off, as people expect of every program. Whatever is coloured says
//! the same without.

use clap::builder::styling::{AnsiColor, Style};
use std::env;
use std::io::{self, IsTerminal};

/// What a piece of text is, which decides how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As everything else.
    #[default]
    Plain,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Worth a look.
    Doubtful,
    /// What the line is about.
    Strong,
    /// What one may pass over.
    Faint,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// No colours, whatever the tests run on.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { is_on: false };

    /// For standard output.
    pub(crate) fn for_output() -> Self {
        Self { is_on: io::stdout().is_terminal() && is_wanted() }
    }

    /// For standard error.
    pub(crate) fn for_errors() -> Self {
        Self { is_on: io::stderr().is_terminal() && is_wanted() }
    }

    /// The text as it should look.
    pub(crate) fn put(self, tone: Tone, text: &str) -> String {
        let plain = Style::new();
        let style = match tone {
            Tone::Plain => plain,
            Tone::Good => plain.fg_color(Some(AnsiColor::Green.into())),
            Tone::Bad => plain.fg_color(Some(AnsiColor::Red.into())).bold(),
            Tone::Doubtful => plain.fg_color(Some(AnsiColor::Yellow.into())),
            Tone::Strong => plain.bold(),
            Tone::Faint => plain.dimmed(),
        };
        match self.is_on && tone != Tone::Plain {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

fn is_wanted() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_surround_the_text_and_only_if_they_are_on() {
        let (on, off) = (Paint { is_on: true }, Paint::NONE);
        assert_eq!(on.put(Tone::Good, "fine"), "\u{1b}[32mfine\u{1b}[0m");
        assert_eq!(on.put(Tone::Plain, "fine"), "fine");
        assert_eq!(off.put(Tone::Bad, "wrong"), "wrong");
    }
}
