//! What a process says on stderr: lines for the log, at a bounded length and rate, and its last words.
//!
//! A program that is about to crash says why on stderr, and the last lines say it best; they are kept for the
//! report. A program in a loop may say the same a million times; the log gets a handful each second and how
//! many were left out.
//!
//! Not here: who the lines are passed to (`process.rs`).

use std::mem;
use std::time::{Duration, Instant};

/// The most bytes of one line; the rest of it is left out.
const LINE_BYTES_MAX: usize = 2048;
/// How many bytes are kept as last words.
const LAST_BYTES_MAX: usize = 1024;
/// How many lines may come at once, and how many may then come each second.
const LINES_BURST: f64 = 200.0;
const LINES_PER_SECOND: f64 = 50.0;

/// What one process says on stderr.
#[derive(Debug)]
pub(super) struct LastWords {
    /// The line that has not ended yet, cut if it is long.
    line: Vec<u8>,
    /// The last bytes of all that was said, and a little more.
    last: Vec<u8>,
    rate: Rate,
}

impl LastWords {
    pub(super) fn new(now: Instant) -> Self {
        Self { line: Vec::new(), last: Vec::new(), rate: Rate { allowed: LINES_BURST, at: now, left_out: 0 } }
    }

    /// Takes what was read and passes whole lines on, as many as may come.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant, mut say: impl FnMut(&str)) {
        self.remember(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            // One byte more than allowed shows that there was more.
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.pass_on(now, &mut say);
            }
        }
    }

    /// Nothing more will come: passes on a line without an end, and how many were left out.
    pub(super) fn end(&mut self, now: Instant, mut say: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.pass_on(now, &mut say);
        }
        if let Some(left_out) = self.rate.take_left_out() {
            say(&left_out);
        }
    }

    /// A new task begins: what was said before has nothing to do with it.
    pub(super) fn forget(&mut self) {
        self.last.clear();
    }

    /// The last lines on one line, if anything was said.
    pub(super) fn last(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.last);
        let lines: Vec<_> = text.lines().map(readable).filter(|line| !line.trim().is_empty()).collect();
        let mut words = lines.join(" | ");
        if words.len() > LAST_BYTES_MAX {
            let from = words.len() - LAST_BYTES_MAX;
            let from = (from..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(from);
            words = format!("…{}", &words[from..]);
        }
        (!words.is_empty()).then_some(words)
    }

    fn pass_on(&mut self, now: Instant, say: &mut impl FnMut(&str)) {
        let mut line = mem::take(&mut self.line);
        if self.rate.allows(now) {
            if let Some(left_out) = self.rate.take_left_out() {
                say(&left_out);
            }
            let is_cut = line.len() > LINE_BYTES_MAX;
            line.truncate(LINE_BYTES_MAX);
            let text = readable(&String::from_utf8_lossy(&line));
            let text = text.trim_end();
            if is_cut {
                say(&format!("{text}…"));
            } else if !text.is_empty() {
                say(text);
            }
        }
        line.clear();
        self.line = line;
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES_MAX)..]);
        // Some more is kept than is shown, so that not every line moves all the others.
        if self.last.len() > 4 * LAST_BYTES_MAX {
            self.last.drain(..self.last.len() - LAST_BYTES_MAX);
        }
    }
}

/// Text that can do no harm on a terminal or in a file of lines.
fn readable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\t' => out.push(' '),
            letter if letter.is_control() => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

/// How many lines may still come.
#[derive(Debug)]
struct Rate {
    allowed: f64,
    at: Instant,
    left_out: u64,
}

impl Rate {
    fn allows(&mut self, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(self.at);
        self.at = now;
        self.allowed = (self.allowed + passed.as_secs_f64() * LINES_PER_SECOND).min(LINES_BURST);
        let allows = self.allowed >= 1.0;
        if allows {
            self.allowed -= 1.0;
        } else {
            self.left_out += 1;
        }
        allows
    }

    fn take_left_out(&mut self) -> Option<String> {
        let left_out = mem::take(&mut self.left_out);
        (left_out > 0).then(|| format!("({left_out} lines left out)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &mut LastWords, bytes: &[u8], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        words.hear(bytes, now, |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_are_whole_readable_and_not_too_long() {
        let now = Instant::now();
        let mut words = LastWords::new(now);
        assert_eq!(said(&mut words, b"a\r\nb", now), ["a"]);
        assert_eq!(said(&mut words, b"c\n\n \n", now), ["bc"], "empty lines are passed over");
        assert_eq!(said(&mut words, b"\tred \x1b[31m \xff\n", now), [" red \\u{1b}[31m \u{fffd}"]);
        assert!(said(&mut words, &[b'x'; 100_000], now).is_empty());
        assert_eq!(words.line.len(), LINE_BYTES_MAX + 1, "no more is held than is shown");
        assert_eq!(said(&mut words, b"x\ny\n", now), ["x".repeat(LINE_BYTES_MAX) + "…", "y".to_owned()]);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let now = Instant::now();
        let mut words = LastWords::new(now);
        assert_eq!(said(&mut words, &b"x\n".repeat(1000), now).len(), LINES_BURST as usize);
        let later = now + Duration::from_secs(1);
        let lines = said(&mut words, &b"y\n".repeat(100), later);
        assert_eq!(lines.len(), LINES_PER_SECOND as usize + 1);
        assert_eq!(lines[..2], ["(800 lines left out)", "y"]);
        let mut end = Vec::new();
        words.end(later, |line| end.push(line.to_owned()));
        assert_eq!(end, ["(50 lines left out)"]);
    }

    #[test]
    fn the_last_words_are_the_last() {
        let now = Instant::now();
        let mut words = LastWords::new(now);
        assert_eq!(words.last(), None);
        said(&mut words, b"Traceback:\n  line 3\n\nMemoryError", now);
        assert_eq!(words.last().unwrap(), "Traceback: |   line 3 | MemoryError");
        let mut end = Vec::new();
        words.end(now, |line| end.push(line.to_owned()));
        assert_eq!(end, ["MemoryError"], "also without a line break");
        words.forget();
        assert_eq!(words.last(), None);
        for _ in 0..10_000 {
            said(&mut words, "ü".repeat(100).as_bytes(), now);
            assert!(words.last.len() <= 4 * LAST_BYTES_MAX);
        }
        said(&mut words, b"the end", now);
        let last = words.last().unwrap();
        assert!(last.ends_with("üthe end") && last.starts_with('…'), "{last}");
        assert!(last.len() <= LAST_BYTES_MAX + '…'.len_utf8());
    }
}
