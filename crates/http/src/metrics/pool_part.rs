//! The pool's own metrics, as the library writes them, made to stand in one text with those of the door.
//!
//! The library knows version 0.0.4 only. Its names differ from the door's, and its lines are its own tests'
//! business; here they are only put into the wanted format.

use super::text::{Format, canonical_bound, line};

/// Adds the pool's text.
pub(super) fn write(text: &mut String, format: Format, pool: &str) {
    for words in pool.lines() {
        if let Some(about) = words.strip_prefix("# ")
            && let Some((what, rest)) = about.split_once(' ')
            && let Some((name, rest)) = rest.split_once(' ')
        {
            line(text, format_args!("# {what} {} {rest}", format.family(name)));
        } else if let Some((before, bound, after)) = split_at_bound(words) {
            line(text, format_args!("{before}{}{after}", canonical_bound(bound)));
        } else {
            line(text, format_args!("{words}"));
        }
    }
}

/// What stands before a bucket's bound, the bound, and what follows. No name can look like it: quotes in
/// names are escaped.
fn split_at_bound(words: &str) -> Option<(&str, &str, &str)> {
    let start = words.rfind(",le=\"")? + ",le=\"".len();
    let end = start + words[start..].find('"')?;
    Some((&words[..start], &words[start..end], &words[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "# HELP a_total Tasks that ended\n# TYPE a_total counter\na_total{pool=\"m\"} 3\n\
                        # HELP b_seconds How long\n# TYPE b_seconds histogram\n\
                        b_seconds_bucket{pool=\"m\",le=\"1\"} 2\n\
                        b_seconds_bucket{pool=\"m\",le=\"+Inf\"} 2\n";

    #[test]
    fn descriptions_and_bounds_are_put_into_the_format_and_nothing_else_is_touched() {
        let (mut plain, mut open) = (String::new(), String::new());
        write(&mut plain, Format::Prometheus, POOL);
        write(&mut open, Format::OpenMetrics, POOL);
        let canonical = POOL.replace("le=\"1\"", "le=\"1.0\"");
        assert_eq!(plain, canonical);
        assert_eq!(open, canonical.replace("HELP a_total", "HELP a").replace("TYPE a_total", "TYPE a"));
    }
}
