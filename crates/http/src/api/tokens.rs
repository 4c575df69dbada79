//! Which tokens open the door, and how far: read once, compared without telling how much of one is right.
//!
//! A token is a line of visible characters in a file that only its owner should read, or the whole of an
//! environment variable. There are two: one for everything, one to look and not to change.

use super::routes::Role;
use millpond_tasks::config::WebSettings;
use std::fmt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// A shorter one can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// A longer one does not fit into a head.
const TOKEN_BYTES_MAX: usize = 4096;

/// The tokens that clients may show.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    /// Allows everything.
    all: Vec<Box<[u8]>>,
    /// Allows to look.
    read: Vec<Box<[u8]>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens({} for all, {} for reading)", self.all.len(), self.read.len())
    }
}

impl Tokens {
    /// Reads the files that the settings name. `environment` is a token that was handed over otherwise.
    pub(crate) fn load(settings: &WebSettings, environment: Option<String>) -> Result<Self, String> {
        let mut tokens = Self::default();
        if let Some(path) = &settings.token_file {
            tokens.all.push(read("web.token_file", path)?);
        }
        if let Some(token) = environment {
            tokens.all.push(check("MILLPOND_TOKEN", &token)?);
        }
        if let Some(path) = &settings.read_token_file {
            tokens.read.push(read("web.read_token_file", path)?);
        }
        if tokens.all.is_empty() && !tokens.read.is_empty() {
            let advice = "set web.token_file too";
            return Err(format!("web.read_token_file: expected also a token that allows to write; {advice}"));
        }
        Ok(tokens)
    }

    /// Whether a token is asked for at all.
    pub(crate) fn is_any(&self) -> bool {
        !self.all.is_empty()
    }

    /// How far this token opens the door; none if it is unknown.
    pub(super) fn role(&self, shown: &[u8]) -> Option<Role> {
        // All of them are compared, so that the time does not tell which one was nearly right.
        let is_one_of = |tokens: &[Box<[u8]>]| {
            tokens.iter().fold(false, |any, token| any | bool::from(token.ct_eq(shown)))
        };
        let (all, read) = (is_one_of(&self.all), is_one_of(&self.read));
        if all { Some(Role::Write) } else { read.then_some(Role::Read) }
    }
}

fn read(setting: &str, path: &Path) -> Result<Box<[u8]>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{setting}: {}: {error}; write a token into it", path.display()))?;
    check(&format!("{setting}: {}", path.display()), &text)
}

fn check(place: &str, text: &str) -> Result<Box<[u8]>, String> {
    let token = text.trim();
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_visible && (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len()) {
        return Ok(token.as_bytes().into());
    }
    // What came is a secret, even if it is a wrong one.
    Err(format!(
        "{place}: expected a token of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible characters, got {} \
         bytes; make one with: openssl rand -hex 32",
        token.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_tasks::config::{ConfigSources, load};

    #[test]
    fn a_token_opens_the_door_as_far_as_it_goes() {
        let tokens = Tokens {
            all: vec![Box::from(&b"all-all-all-all-all"[..])],
            read: vec![Box::from(&b"read-read-read-read"[..])],
        };
        assert_eq!(tokens.role(b"all-all-all-all-all"), Some(Role::Write));
        assert_eq!(tokens.role(b"read-read-read-read"), Some(Role::Read));
        for wrong in [&b""[..], b"all-all-all-all-al", b"all-all-all-all-all ", b"ALL-ALL-ALL-ALL-ALL"] {
            assert_eq!(tokens.role(wrong), None);
        }
        assert_eq!(Tokens::default().role(b""), None);
    }

    #[test]
    fn a_token_may_come_from_the_environment_and_nowhere_else_is_none() {
        let settings = load(&ConfigSources::default()).settings().unwrap().web;
        assert!(!Tokens::load(&settings, None).unwrap().is_any());
        let tokens = Tokens::load(&settings, Some("from-the-environment".to_owned())).unwrap();
        assert!(tokens.is_any());
        assert_eq!(tokens.role(b"from-the-environment"), Some(Role::Write));
        let error = Tokens::load(&settings, Some(String::new())).unwrap_err();
        assert!(error.starts_with("MILLPOND_TOKEN: expected a token"), "{error}");
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused_and_never_repeated() {
        assert!(check("here", " 0123456789abcdef\n").is_ok());
        for wrong in ["", "short-secret", "0123456789 abcdef", "0123456789abcdef\nx"] {
            let error = check("here", wrong).unwrap_err();
            assert!(error.starts_with("here: expected a token of 16 to"), "{error}");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        assert_eq!(format!("{:?}", Tokens::default()), "Tokens(0 for all, 0 for reading)");
    }
}
