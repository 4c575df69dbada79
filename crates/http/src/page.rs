//! The dashboard's files, inside the program: `/` and `/assets/…`.
//!
//! They are the files of `assets/` as they stand there, compressed once, when the first browser asks. A
//! browser asks again each time with the tag it has and is told that nothing changed; so a new release is
//! seen at once, without names that change. The policy sent with the page allows what comes from this door
//! and nothing else: no inline code or style, no other host, no frame around it.
//!
//! Not here: who may see it (anybody; the figures need a token, not the page), and what it shows (`assets/`).

use crate::reply::Reply;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use std::io::Write as _;
use std::sync::LazyLock;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file as it was built in: its name in `assets/`, what it is, its bytes.
type BuiltIn = (&'static str, &'static str, &'static [u8]);

macro_rules! built_in {
    ($($name:literal $kind:ident),+ $(,)?) => {
        &[$(($name, $kind, include_bytes!(concat!("../assets/", $name)))),+]
    };
}

/// All of them. The first is what `/` shows.
const FILES: &[BuiltIn] = built_in![
    "index.html" HTML,
    "theme.css" STYLE,
    "page.css" STYLE,
    "tasks.css" STYLE,
    "icon.svg" PICTURE,
    "announce.js" SCRIPT,
    "api.js" SCRIPT,
    "dead.js" SCRIPT,
    "dom.js" SCRIPT,
    "drawer.js" SCRIPT,
    "events.js" SCRIPT,
    "exact.js" SCRIPT,
    "figures.js" SCRIPT,
    "format.js" SCRIPT,
    "handlers.js" SCRIPT,
    "history.js" SCRIPT,
    "keys.js" SCRIPT,
    "lanes.js" SCRIPT,
    "latency.js" SCRIPT,
    "live.js" SCRIPT,
    "main.js" SCRIPT,
    "plot.js" SCRIPT,
    "queues.js" SCRIPT,
    "sse.js" SCRIPT,
    "submit.js" SCRIPT,
    "taskgrid.js" SCRIPT,
    "tasklist.js" SCRIPT,
    "tasks.js" SCRIPT,
    "theme.js" SCRIPT,
    "throughput.js" SCRIPT,
    "token.js" SCRIPT,
];

/// A file ready to be sent.
struct Asset {
    name: &'static str,
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
    tag: HeaderValue,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| FILES.iter().map(Asset::new).collect());

impl Asset {
    fn new(&(name, kind, bytes): &BuiltIn) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(bytes).and_then(|()| encoder.finish());
        let gzip = gzip.expect("writing into memory does not fail").into();
        // Weak, because one tag stands for the plain and for the compressed bytes.
        let tag = format!("W/\"{:016x}\"", hash(bytes));
        let tag = HeaderValue::try_from(tag).expect("digits and quotes may stand in a header");
        Self { name, kind, plain: Bytes::from_static(bytes), gzip, tag }
    }
}

/// The file of this path, if it is one of the page's. The headers say what the browser understands and has.
pub(crate) fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Reply>> {
    let asset = match path.strip_prefix("/assets/") {
        Some(name) => ASSETS.iter().find(|asset| asset.name == name)?,
        None if path == "/" => ASSETS.first()?,
        None => return None,
    };
    let said = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let accept_gzip = said(header::ACCEPT_ENCODING).is_some_and(accepts_gzip);
    let known = said(header::IF_NONE_MATCH).is_some_and(|tags| names_tag(tags, &asset.tag));
    let body = match (known, accept_gzip) {
        (true, _) => Bytes::new(),
        (false, true) => asset.gzip.clone(),
        (false, false) => asset.plain.clone(),
    };
    let mut response = Response::new(Reply::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::ETAG, asset.tag.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Some(response);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    if accept_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}

/// Whether a list of encodings names gzip, and not only to say no to it.
fn accepts_gzip(encodings: &str) -> bool {
    encodings.split(',').any(|encoding| {
        let (name, quality) = encoding.split_once(';').unwrap_or((encoding, ""));
        let quality = quality.trim().strip_prefix("q=").and_then(|text| text.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && quality != Some(0.0)
    })
}

/// Whether a list of tags, as `If-None-Match` has it, names this one. Weak or strong is the same there.
fn names_tag(tags: &str, tag: &HeaderValue) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let own = tag.to_str().map(bare).expect("the tag was made from text");
    tags.split(',').any(|tag| tag.trim() == "*" || bare(tag) == own)
}

/// FNV-1a: the tag has to differ between releases, and need not withstand anybody.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read as _;
    use std::path::Path;

    const BUDGET_BYTES: usize = 60 * 1024;
    const LINES_MAX: usize = 400;

    fn text(file: &BuiltIn) -> &'static str {
        std::str::from_utf8(file.2).expect("assets are text")
    }

    fn asset(path: &str, accept_gzip: bool, if_none_match: Option<&str>) -> Option<Response<Reply>> {
        let mut headers = HeaderMap::new();
        if accept_gzip {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.8"));
        }
        if let Some(tags) = if_none_match {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(tags).expect("it may stand there"));
        }
        answer(path, &headers)
    }

    fn body(response: &Response<Reply>) -> &Bytes {
        match response.body() {
            Reply::Whole(bytes) => bytes,
            Reply::Large { .. } | Reply::Stream(_) => panic!("assets are whole"),
        }
    }

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut there: Vec<_> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("it can be read").file_name().into_string().expect("names are text"))
            .collect();
        let mut known: Vec<_> = FILES.iter().map(|file| file.0.to_owned()).collect();
        there.sort();
        known.sort();
        assert_eq!(there, known);
    }

    #[test]
    fn the_page_fits_its_budget() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes <= BUDGET_BYTES, "{bytes} bytes compressed, {BUDGET_BYTES} are allowed");
    }

    #[test]
    fn every_file_is_short_and_says_what_it_is_for() {
        for file in FILES {
            let text = text(file);
            assert!(text.lines().count() <= LINES_MAX, "{} is longer than {LINES_MAX} lines", file.0);
            let mut opening = text.lines().skip_while(|line| line.starts_with("<!doctype"));
            let opens = opening
                .next()
                .is_some_and(|line| ["//", "/*", "<!--"].iter().any(|sign| line.starts_with(sign)));
            assert!(opens, "{} does not open with a comment", file.0);
        }
    }

    #[test]
    fn every_file_that_is_named_exists() {
        for file in FILES {
            for mark in ["from \"./", "\"/assets/"] {
                for rest in text(file).split(mark).skip(1) {
                    let name = rest.split('"').next().unwrap_or_default();
                    assert!(FILES.iter().any(|file| file.0 == name), "{} names {name}", file.0);
                }
            }
        }
    }

    #[test]
    fn every_script_is_asked_for_at_once() {
        let page = text(&FILES[0]);
        for (name, ..) in FILES.iter().filter(|file| file.1 == SCRIPT) {
            assert!(
                page.contains(&format!("\"/assets/{name}\"")),
                "{name} would wait for whoever imports it"
            );
        }
    }

    #[test]
    fn nothing_comes_from_another_host_or_goes_around_the_policy() {
        for file in FILES {
            let text = text(file).replace("http://www.w3.org/2000/svg", "");
            for banned in ["http://", "https://", "style=\"", " onclick", "<style", "innerHTML", "eval("] {
                assert!(!text.contains(banned), "{} contains {banned}", file.0);
            }
        }
    }

    #[test]
    fn the_root_is_the_page_and_unknown_names_are_nobodys() {
        let page = asset("/", false, None).expect("it is there");
        assert_eq!(body(&page), &FILES[0].2);
        assert_eq!(page.headers()[header::CONTENT_TYPE], HTML);
        for path in ["/assets/", "/assets/none.js", "/index.html", "/assets/../page.rs", ""] {
            assert!(asset(path, true, None).is_none(), "{path}");
        }
    }

    #[test]
    fn compressed_files_come_out_as_they_were() {
        for file in FILES {
            let response = asset(&format!("/assets/{}", file.0), true, None).expect("it is there");
            assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
            let mut plain = Vec::new();
            GzDecoder::new(body(&response).as_ref()).read_to_end(&mut plain).expect("it is gzip");
            assert_eq!(plain, file.2, "{}", file.0);
        }
    }

    #[test]
    fn gzip_is_sent_only_to_whoever_takes_it() {
        for yes in ["gzip", "br, GZIP", "deflate , gzip;q=0.5", "gzip; q=1"] {
            assert!(accepts_gzip(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0", "x-gzip2"] {
            assert!(!accepts_gzip(no), "{no}");
        }
        let plain = asset("/assets/main.js", false, None).expect("it is there");
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[test]
    fn a_browser_that_has_the_file_is_told_so() {
        let first = asset("/assets/main.js", true, None).expect("it is there");
        let tag = first.headers()[header::ETAG].to_str().expect("it is text").to_owned();
        for tags in [tag.clone(), format!("\"other\", {tag}"), tag.replace("W/", ""), "*".to_owned()] {
            let again = asset("/assets/main.js", true, Some(&tags)).expect("it is there");
            assert_eq!(again.status(), 304, "{tags}");
            assert!(body(&again).is_empty());
            assert!(!again.headers().contains_key(header::CONTENT_ENCODING));
        }
        let other = asset("/assets/main.js", true, Some("\"other\"")).expect("it is there");
        assert_eq!(other.status(), 200);
    }
}
