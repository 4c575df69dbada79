//! Which known name was probably meant by an unknown one.
//!
//! Nobody who mistypes a name wants a list of sixty. Two letters that changed places count as one mistake,
//! and whoever gets more than a third of a name wrong meant something else. A name is also found that is
//! right but for its section, or that was only begun, or gone on with.
//!
//! Settings, fields of requests, arguments of handlers and names of regions all ask here, so that a slip is
//! answered alike wherever it happens.

/// How many letters of a stranger's text a message shows.
const SHOWN_MAX: usize = 64;

/// A wrong section is as bad as two wrong letters.
const SECTION_COST: usize = 2;

/// Half a name is as bad as three wrong letters, and must have some letters to be told from others.
const HALF_COST: usize = 3;
const HALF_LETTERS_MIN: usize = 4;

/// The known name that is most like `unknown`, if one is like it at all. Upper and lower case are the same.
pub(crate) fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes time for every pair of letters, and nobody mistypes a name by a page.
    let unknown = unknown.chars().take(SHOWN_MAX).collect::<String>().to_ascii_lowercase();
    let distance = |name: &'a str| {
        let cost = cost(&unknown, &name.to_ascii_lowercase())?;
        // Of two that are as near, the one without a section: it is the one more people know.
        Some((cost, name.contains('.'), unknown.len().abs_diff(name.len()), name))
    };
    known.into_iter().filter_map(distance).min().map(|(.., name)| name)
}

fn cost(unknown: &str, name: &str) -> Option<usize> {
    let edits = Some(strsim::osa_distance(unknown, name)).filter(|edits| edits * 3 <= name.len());
    let key = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let elsewhere = (key(unknown) == key(name)).then_some(SECTION_COST);
    let is_half = unknown.len().min(name.len()) >= HALF_LETTERS_MIN
        && (name.starts_with(unknown) || unknown.starts_with(name));
    [edits, elsewhere, is_half.then_some(HALF_COST)].into_iter().flatten().min()
}

/// `did you mean this?`, or what to do if no name is near.
pub(crate) fn did_you_mean<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    match nearest(unknown, known) {
        Some(name) => format!("did you mean {name}?"),
        None => otherwise.to_owned(),
    }
}

/// A stranger's text as a message shows it: quoted, and cut if it is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?} and so on", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        let known = ["workers", "workers_max", "stealing.size", "results.full", "spin", "delay_ms"];
        let find = |unknown| nearest(unknown, known);
        assert_eq!(find("wrokers"), Some("workers"));
        assert_eq!(find("worker_max"), Some("workers_max"));
        assert_eq!(find("steeling.size"), Some("stealing.size"));
        assert_eq!(find("size"), Some("stealing.size"), "right but for its section");
        assert_eq!(find("pool.workers"), Some("workers"));
        assert_eq!(find("pool.workers_max"), Some("workers_max"));
        assert_eq!(find("Workers"), Some("workers"), "the case does not matter");
        assert_eq!(find("delay"), Some("delay_ms"), "only begun");
        assert_eq!(find("spin_time"), Some("spin"), "gone on with");
        assert_eq!(find("workers_maximum"), Some("workers_max"), "the longer half");
        assert_eq!(find("del"), None, "too little to tell");
        assert_eq!(find("colour"), None);
        assert_eq!(find(""), None);
        assert_eq!(find(&"warkers".repeat(100_000)), None);
    }

    #[test]
    fn long_text_is_cut_between_letters() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        let long = shown(&"ü".repeat(65));
        assert_eq!(long, format!("\"{}\" and so on", "ü".repeat(64)));
    }
}
