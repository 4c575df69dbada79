//! Handlers that are functions in a library: which file, and what the function is called in it.
//!
//! They share the table `[handler.NAME]` with programs. This crate loads no libraries: whoever starts the
//! service finds the function and registers it, and is told by name if it did not.
//!
//! Not here: what such a function is given (the crate `millpond-native`).

use super::load::LoadedTable;
use super::typed::{span, text};
use std::path::PathBuf;
use std::time::Duration;

/// Those settings of a handler that count for one in a library; the others are for programs.
pub(super) const LIBRARY_COUNTS: &[&str] =
    &["library", "symbol", "timeout", "retry_backoff_min", "retry_backoff_max", "summary", "example"];

/// One handler that is a function in a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibrarySettings {
    /// The file.
    pub library: PathBuf,
    /// What the function is called there, if the configuration says.
    pub symbol: Option<String>,
    /// How long one task may take.
    pub timeout: Option<Duration>,
    /// What it does, for people.
    pub summary: Option<String>,
    /// Arguments to try it with: a JSON object.
    pub example: Option<String>,
}

impl LibrarySettings {
    /// What the function of this handler may be called, the likeliest first: as the configuration says, else
    /// `handler_NAME`, else `NAME`. What C has no letters for is a `_`.
    pub fn symbol_names(&self, handler: &str) -> Vec<String> {
        match &self.symbol {
            Some(symbol) => vec![symbol.clone()],
            None => {
                let name = handler.replace(['.', '-'], "_");
                vec![format!("handler_{name}"), name]
            }
        }
    }
}

impl LoadedTable {
    /// None if it is a program.
    pub(super) fn library(&self) -> Option<LibrarySettings> {
        let texts = |name| text(&self.get(name).0).map(str::to_owned);
        Some(LibrarySettings {
            library: PathBuf::from(texts("library")?),
            symbol: texts("symbol"),
            timeout: span(&self.get("timeout").0),
            summary: texts("summary"),
            example: texts("example"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, ConfigSources, load};
    use super::*;

    #[test]
    fn a_handler_in_a_library_is_no_program_and_its_function_has_a_likely_name() {
        let toml = "[handler.a]\ncommand = ['x']\n\
                    [handler.re-size]\nlibrary = '/l.so'\ntimeout = 'none'\nsummary = 'Resizes.'\n\
                    [handler.b]\nlibrary = '/l.so'\nsymbol = 'run_b'\n";
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, ..ConfigSources::default() });
        assert_eq!(loaded.findings(), []);
        let settings = loaded.settings().unwrap();
        assert_eq!(settings.handlers.keys().collect::<Vec<_>>(), ["a"]);
        let (b, resize) = (&settings.libraries["b"], &settings.libraries["re-size"]);
        assert_eq!(b.symbol_names("b"), ["run_b"]);
        assert_eq!(b.timeout, Some(Duration::from_secs(30)), "as programs have it");
        assert_eq!(resize.symbol_names("re-size"), ["handler_re_size", "re_size"]);
        assert_eq!((resize.timeout, resize.summary.as_deref()), (None, Some("Resizes.")));
        assert_eq!(resize.library, PathBuf::from("/l.so"));
    }
}
