//! Where a redirect leads: the header `location`, read against the URL that was asked.
//!
//! Only the shape is worked out here. Whatever comes out is checked like a URL from the arguments, so a
//! mistake here could lead to a wrong page but never past the allow-list.

use ureq::http::Uri;

/// The URL that `location` means in an answer from `base`, if it means one at all.
pub(super) fn resolve(base: &Uri, location: &[u8]) -> Option<Uri> {
    let location = printable(location);
    let location = location.split('#').next().unwrap_or_default();
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    let path = base.path();
    let target = if has_scheme(location) {
        return location.parse().ok();
    } else if location.starts_with("//") {
        return format!("{scheme}:{location}").parse().ok();
    } else if location.is_empty() {
        base.path_and_query()?.to_string()
    } else if location.starts_with('?') {
        format!("{path}{location}")
    } else {
        let folder = if location.starts_with('/') { "" } else { &path[..=path.rfind('/')?] };
        let (way, query) = location.split_at(location.find('?').unwrap_or(location.len()));
        format!("{}{query}", without_dots(&format!("{folder}{way}")))
    };
    format!("{scheme}://{authority}{target}").parse().ok()
}

/// Bytes that may not stand in a URL as they are, but do in the wild, are written as browsers write them.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if !b"\"<>\\^`{|}".contains(byte) => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_letter)
}

/// A path from the root with `.` and `..` worked out.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                // What ends in dots is a folder, and keeps its slash.
                if is_last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_location_leads_where_a_browser_would_go() {
        let base: Uri = "http://a.org:81/b/c/d?q".parse().unwrap();
        for (location, target) in [
            ("https://x.org/y?z#f", Some("https://x.org/y?z")),
            ("//x.org/y", Some("http://x.org/y")),
            ("/y", Some("http://a.org:81/y")),
            ("y", Some("http://a.org:81/b/c/y")),
            ("./y/", Some("http://a.org:81/b/c/y/")),
            ("../y?z=../w", Some("http://a.org:81/b/y?z=../w")),
            ("../../../../y", Some("http://a.org:81/y")),
            ("..", Some("http://a.org:81/b/")),
            (".", Some("http://a.org:81/b/c/")),
            ("?z", Some("http://a.org:81/b/c/d?z")),
            ("", Some("http://a.org:81/b/c/d?q")),
            ("#f", Some("http://a.org:81/b/c/d?q")),
            ("/a b/ü", Some("http://a.org:81/a%20b/%C3%BC")),
            ("y:1/z", None),
            ("/\\evil.org", Some("http://a.org:81/%5Cevil.org")),
            ("http://", None),
        ] {
            let found = resolve(&base, location.as_bytes()).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), target, "{location}");
        }
    }
}
