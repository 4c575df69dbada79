//! Rust source with its comments and its strings told apart, so that a check never trips over a word in either.
//!
//! Three copies of a file are kept, alike in length and in line breaks, each with the rest blanked out: `code`
//! (strings keep only their quotes), `text` (code with whole strings) and `comments`. An offset found in one is
//! good in all. This is a lexer of four states and not a parser: what tidy asks can be answered by looking at
//! words and braces, and a parser would be this package's largest dependency.
//!
//! Not here: what is looked for (`edges.rs`, `tidy/`).

/// One file, seen three ways.
pub(crate) struct Source {
    /// Neither comments nor the inside of strings.
    pub(crate) code: String,
    /// Code and strings, no comments.
    pub(crate) text: String,
    /// Comments only, with their slashes.
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Inside,
}

impl Source {
    pub(crate) fn new(original: &str) -> Self {
        let kinds = kinds(original.as_bytes());
        let keep = |wanted: &[Kind]| {
            let bytes = original.bytes().zip(&kinds);
            let bytes =
                bytes.map(|(byte, kind)| if byte == b'\n' || wanted.contains(kind) { byte } else { b' ' });
            // Regions begin and end at ASCII bytes, so no character is cut in two and nothing is lost here.
            String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
        };
        Self {
            code: keep(&[Kind::Code]),
            text: keep(&[Kind::Code, Kind::Inside]),
            comments: keep(&[Kind::Comment]),
        }
    }
}

/// The line of `offset`, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Where `word` stands in `text` with no letter, digit or underscore touching it.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).is_some_and(|before| is_word(bytes[before]));
        let after = bytes.get(at + word.len()).is_some_and(|&after| is_word(after));
        !before && !after
    })
}

/// Every name and number in `text`, and where it begins.
pub(crate) fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.as_bytes()[at..].iter().position(|byte| is_word(*byte))?;
        let length = text.as_bytes()[start..].iter().take_while(|byte| is_word(**byte)).count();
        at = start + length;
        Some((start, &text[start..at]))
    })
}

/// Whether a byte can be part of a name.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where the body of the function ends that `code` begins with the word `fn` of; none if it has no body or is a type.
pub(crate) fn function_end(code: &str) -> Option<usize> {
    let after = code["fn".len()..].trim_start();
    if !after.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        return None;
    }
    let mut nested = 0;
    let mut braces = 0;
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if nested == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn kinds(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let starts_name = at == 0 || !is_word(bytes[at - 1]);
        let (kind, open, close, end) = if rest.starts_with(b"//") {
            (Kind::Comment, 0, 0, line_comment(rest))
        } else if rest.starts_with(b"/*") {
            (Kind::Comment, 0, 0, block_comment(rest))
        } else if let Some((open, close, end)) = raw_string(rest).filter(|_| starts_name) {
            (Kind::Inside, open, close, end)
        } else if rest[0] == b'"' {
            (Kind::Inside, 1, 1, quoted(rest, b'"'))
        } else if is_character(rest) {
            (Kind::Inside, 1, 1, quoted(rest, b'\''))
        } else {
            (Kind::Code, 0, 0, 1)
        };
        let inside = at + open..(at + end).saturating_sub(close).max(at + open).min(bytes.len());
        kinds[inside].fill(kind);
        at += end;
    }
    kinds
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The lengths of the opening, of the closing, and of the whole raw string at the start of `rest`, if one stands
/// there.
fn raw_string(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let letters =
        [b"r".as_slice(), b"br", b"cr"].into_iter().find(|letters| rest.starts_with(letters))?.len();
    let hashes = rest[letters..].iter().take_while(|byte| **byte == b'#').count();
    let open = letters + hashes + 1;
    if rest.get(open - 1) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let length = rest[open..].windows(end.len()).position(|window| window == end);
    Some((open, end.len(), length.map_or(rest.len(), |length| open + length + end.len())))
}

/// The length of a string or character that may hold escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Tells a character from a lifetime: after one character, however many bytes it has, a quote must follow.
fn is_character(rest: &[u8]) -> bool {
    if rest[0] != b'\'' || rest.len() < 3 {
        return false;
    }
    let width = match rest[1] {
        b'\\' => return true,
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    };
    rest.get(1 + width) == Some(&b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_leave_the_code() {
        let source = Source::new("let a = \"unsafe // {\"; // unsafe {\nlet b = 1; /* { /* { */ } */ c");
        assert_eq!(source.code.trim_end().lines().next(), Some("let a = \"           \";            "));
        assert!(source.code.ends_with(" c"));
        assert!(!source.code.contains('{') && !source.code.contains("unsafe"));
        assert!(source.text.contains("\"unsafe // {\"") && !source.text.contains("// unsafe"));
        assert!(source.comments.contains("// unsafe {\n") && !source.comments.contains("let"));
    }

    #[test]
    fn all_three_copies_keep_length_and_lines() {
        let original = "fn é() -> &'static str { // ü\n  \"ö\\\"\" }\n/* ä\n*/ 'x'; '\\''; b'{'; r#\"}\"#;\n";
        let source = Source::new(original);
        for copy in [&source.code, &source.text, &source.comments] {
            assert_eq!(copy.len(), original.len());
            assert_eq!(copy.lines().count(), original.lines().count());
        }
    }

    #[test]
    fn lifetimes_are_no_characters_and_braces_in_characters_are_no_braces() {
        let source = Source::new("fn f<'a>(x: &'a u8) { match c { '{' => 1, '\\'' => 2, 'ß' => 3 } }");
        assert_eq!(source.code.matches('{').count(), 2);
        assert_eq!(source.code.matches('}').count(), 2);
        assert!(source.code.contains("&'a u8"));
    }

    #[test]
    fn raw_strings_end_at_their_own_number_of_hashes() {
        let source = Source::new("a(r#\"one \" { \"#, br\"{\", r\"\", for_r\"x\") // done");
        assert!(!source.code.contains('{') && !source.code.contains("one"));
        assert!(source.comments.ends_with("// done"));
    }

    #[test]
    fn an_unclosed_string_or_comment_ends_with_the_file() {
        for original in ["let a = \"never", "/* never", "r#\"never", "'\\", "\"\\"] {
            assert_eq!(Source::new(original).code.len(), original.len());
        }
    }

    #[test]
    fn a_word_inside_a_longer_name_is_not_that_word() {
        assert_eq!(words("unsafe_code unsafe xunsafe unsafe", "unsafe").collect::<Vec<_>>(), [12, 27]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
