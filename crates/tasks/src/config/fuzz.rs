//! Both parsers against what nobody would write: random bytes, and examples (`tests/corpus/config`) with random
//! damage.
//!
//! Whatever comes, nothing panics, every finding about the file stands inside the file, and whatever is
//! accepted can be written out and read again. A run prints its seed; `MILLPOND_SEED` brings it back,
//! `MILLPOND_FUZZ_CASES` makes it longer.

use super::{ConfigFile, ConfigSources, Row, Source, load};
use std::hash::{BuildHasher, RandomState};

const EXAMPLES: [(&str, &str); 5] = [
    ("config", include_str!("../../../../examples/config/config")),
    ("m.toml", include_str!("../../../../examples/config/millpond.toml")),
    ("config", include_str!("../../tests/corpus/config/odd-lines.config")),
    ("m.toml", include_str!("../../tests/corpus/config/tables.toml")),
    ("m.toml", include_str!("../../tests/corpus/config/odd-toml.toml")),
];

/// What is put in: pieces that mean something to either parser.
const PIECES: [&str; 25] = [
    "=",
    "\n",
    "\r",
    "#",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'''",
    "\\u",
    ".",
    ",",
    "0",
    "9999999999999999999999",
    "-",
    "ü",
    "\0",
    "\u{feff}",
    "[handler.",
    "[region.",
    "[opcodes]",
    "\"auto\"",
    "inf",
    "workers",
];

/// Handlers that the examples name.
const BUILTIN: &[&str] =
    &["http_get", "http_post", "write_memory", "read_memory", "file_read", "file_write", "x", "b"];

/// SplitMix64.
struct Lots(u64);

impl Lots {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(12)).min(bytes.len());
        match self.below(5) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].bytes())),
            2 => bytes.extend_from_within(at..end),
            3 => bytes.truncate(at),
            _ if at < bytes.len() => bytes[at] = self.below(256) as u8,
            _ => bytes.push(self.below(256) as u8),
        }
    }
}

fn try_one(name: &str, bytes: &[u8]) -> bool {
    let loaded = load(&ConfigSources {
        file: Some(ConfigFile { name, bytes }),
        handlers: BUILTIN,
        ..ConfigSources::default()
    });
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    for finding in loaded.findings() {
        let Source::File(place) = &finding.source else { panic!("{finding} is not about the file") };
        let line = lines.get(place.line - 1).unwrap_or_else(|| panic!("{finding} is beyond the last line"));
        let columns = String::from_utf8_lossy(line).chars().count();
        assert!((1..=columns + 1).contains(&place.column), "{finding} is beyond the end of its line");
    }
    let Ok(settings) = loaded.settings() else { return false };
    // A region is there by its name alone, though all of its values may be defaults.
    let is_said = |row: &Row| row.source != Source::Default || row.name.starts_with("region.");
    let rows = loaded.listing().into_iter().filter(is_said);
    let again: String = rows
        .map(|row| match row.name.split_once('.') {
            // The name of such a table may itself have a point in it.
            Some((kind @ ("handler" | "region"), rest)) => {
                let (name, key) = rest.rsplit_once('.').expect("a table has a name and a key");
                format!("{kind}.{name:?}.{key} = {}\n", row.value)
            }
            _ => format!("{} = {}\n", row.name, row.value),
        })
        .collect();
    let file = Some(ConfigFile { name: "again.toml", bytes: again.as_bytes() });
    let reloaded = load(&ConfigSources { file, handlers: BUILTIN, ..ConfigSources::default() });
    let read = reloaded.settings().unwrap_or_else(|findings| panic!("{again}: {findings:?}"));
    assert_eq!(format!("{settings:?}"), format!("{read:?}"), "{again}");
    true
}

#[test]
fn no_file_whatsoever_upsets_the_parsers() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MILLPOND_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let cases = number("MILLPOND_FUZZ_CASES").unwrap_or(3000);
    println!("MILLPOND_SEED={seed} MILLPOND_FUZZ_CASES={cases}");
    let mut lots = Lots(seed);
    let mut accepted = 0;
    for case in 0..cases {
        let (name, mut bytes) = match lots.below(8) {
            0 => {
                let len = lots.below(200);
                let bytes = (0..len).map(|_| lots.below(256) as u8).collect();
                (EXAMPLES[lots.below(EXAMPLES.len())].0, bytes)
            }
            1 => {
                let pieces: String = (0..lots.below(40)).map(|_| PIECES[lots.below(PIECES.len())]).collect();
                (EXAMPLES[lots.below(EXAMPLES.len())].0, pieces.into_bytes())
            }
            _ => {
                let (name, text) = EXAMPLES[lots.below(EXAMPLES.len())];
                (name, text.as_bytes().to_vec())
            }
        };
        for _ in 0..lots.below(6) {
            lots.damage(&mut bytes);
        }
        let tried = std::panic::catch_unwind(|| try_one(name, &bytes));
        let Ok(is_accepted) = tried else {
            panic!("case {case} of seed {seed}: {name}: {:?}", String::from_utf8_lossy(&bytes));
        };
        accepted += u64::from(is_accepted);
    }
    println!("{accepted} of {cases} files were accepted");
}
