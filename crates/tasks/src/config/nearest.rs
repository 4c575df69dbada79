//! Which known name was probably meant by an unknown one.
//!
//! Nobody who mistypes a key wants a list of sixty. Two letters that changed places count as one mistake, and
//! whoever gets more than a third of a name wrong meant something else. A name that is right but for its
//! section is found too.

/// How many letters of a stranger's text a message shows.
const SHOWN_MAX: usize = 64;

/// A wrong section is as bad as two wrong letters.
const SECTION_COST: usize = 2;

/// The known name that is most like `unknown`, if one is like it at all.
pub(super) fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes time for every pair of letters, and nobody mistypes a name by a page.
    let unknown: String = unknown.chars().take(SHOWN_MAX).collect();
    let key = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |name: &'a str| {
        let edits = Some(strsim::osa_distance(&unknown, name)).filter(|edits| edits * 3 <= name.len());
        let elsewhere = (key(&unknown) == key(name)).then_some(SECTION_COST);
        let cost = [edits, elsewhere].into_iter().flatten().min()?;
        Some((cost, name.len(), name))
    };
    known.into_iter().filter_map(distance).min().map(|(_, _, name)| name)
}

/// `did you mean this?`, or what to do if no name is near.
pub(super) fn did_you_mean<'a>(
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
pub(super) fn shown(text: &str) -> String {
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
        let known = ["workers", "workers_max", "stealing.size", "results.full"];
        let find = |unknown| nearest(unknown, known);
        assert_eq!(find("wrokers"), Some("workers"));
        assert_eq!(find("worker_max"), Some("workers_max"));
        assert_eq!(find("steeling.size"), Some("stealing.size"));
        assert_eq!(find("size"), Some("stealing.size"), "right but for its section");
        assert_eq!(find("pool.workers"), Some("workers"));
        assert_eq!(find("pool.workers_max"), Some("workers_max"));
        assert_eq!(find("colour"), None);
        assert_eq!(find(&"workers".repeat(100_000)), None);
    }

    #[test]
    fn long_text_is_cut_between_letters() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        let long = shown(&"ü".repeat(65));
        assert_eq!(long, format!("\"{}\" and so on", "ü".repeat(64)));
    }
}
