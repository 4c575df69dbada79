//! Who may ask: by host, by the page that asks, and by token.
//!
//! A daemon on this machine is reached by every page in every browser on it. These are the ways in which such
//! a page, or a stranger, would try.

use crate::http::SOON;
use crate::start::{Daemon, ECHO, JSON};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

const TOKEN: &str = "0123456789abcdef-write";
const READ_TOKEN: &str = "0123456789abcdef-read";

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millpond-http-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with_tokens(folder: &Folder) -> Daemon {
    Daemon::with(|web, _| {
        web.token_file = Some(folder.file("token", &format!("{TOKEN}\n")));
        web.read_token_file = Some(folder.file("read", READ_TOKEN));
    })
}

#[test]
fn a_strangers_name_for_us_is_refused() {
    let daemon = Daemon::with(|web, _| web.hosts = vec!["door.example".to_owned()]);
    let port = daemon.address().port();
    for host in ["localhost", "127.0.0.1", "[::1]", "door.example", "DOOR.example:99", "192.168.7.7:80"] {
        assert_eq!(daemon.ask("GET /healthz", &[&format!("Host: {host}")], None).status, 200, "{host}");
    }
    assert_eq!(daemon.ask("GET /healthz", &[&format!("Host: localhost:{port}")], None).status, 200);
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
        let answer = daemon.ask("GET /v1/tasks", &[&format!("Host: {host}")], None);
        assert_eq!(answer.refusal(), (421, "host-not-allowed".to_owned()), "{host:?}");
    }
    let absolute = daemon.ask("GET http://evil.example/healthz", &["Host: localhost"], None);
    assert_eq!(absolute.refusal(), (421, "host-not-allowed".to_owned()));
    let twice = daemon.ask("GET /healthz", &["Host: localhost", "Host: evil.example"], None);
    assert_eq!(twice.refusal(), (400, "bad-header".to_owned()));
    let mut connection = daemon.connect();
    connection.send("GET /healthz HTTP/1.1\r\n\r\n");
    assert_eq!(connection.answer().refusal(), (400, "bad-header".to_owned()));
    let mut connection = daemon.connect();
    connection.send("GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(connection.answer().status, 200, "HTTP/1.0 knows no host, and no browser speaks it");
}

#[test]
fn a_page_of_another_site_is_refused() {
    let daemon = Daemon::start();
    let post = |header: &str| daemon.ask("POST /v1/tasks", &[JSON, header], Some(ECHO));
    let cross_site = (403, "cross-site".to_owned());
    assert_eq!(post("Sec-Fetch-Site: cross-site").refusal(), cross_site);
    assert_eq!(post("Origin: https://evil.example").refusal(), cross_site);
    assert_eq!(post("Origin: null").refusal(), cross_site);
    assert_eq!(post("Origin: http://localhost:3000").refusal(), cross_site, "another port is another origin");
    assert_eq!(post("Origin: http://localhost").status, 202, "the page of this door");
    assert_eq!(post("Sec-Fetch-Site: same-origin").status, 202);
    let get = |path: &str| daemon.ask(&format!("GET {path}"), &["Sec-Fetch-Site: cross-site"], None);
    assert_eq!(get("/v1/tasks").refusal(), cross_site);
    assert_eq!(get("/healthz").status, 200, "a link may lead to what is open to all");
    let preflight = ["Origin: https://evil.example", "Access-Control-Request-Method: POST"];
    let answer = daemon.ask("OPTIONS /v1/tasks", &preflight, None);
    assert_eq!(answer.refusal(), cross_site);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn a_page_whose_host_is_listed_may_ask_and_read() {
    let daemon = Daemon::with(|web, _| web.origins = vec!["app.example".to_owned()]);
    let origin = "Origin: https://app.example";
    let answer = daemon.ask("POST /v1/tasks", &[JSON, origin, "Sec-Fetch-Site: cross-site"], Some(ECHO));
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("vary"), Some("origin"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("location"));
    let preflight = daemon.ask("OPTIONS /v1/tasks", &[origin, "Access-Control-Request-Method: POST"], None);
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("content-type"));
    let refused = daemon.ask("GET /v1/nothing", &[origin], None);
    assert_eq!(
        refused.header("access-control-allow-origin"),
        Some("https://app.example"),
        "errors can be read too"
    );
    assert_eq!(daemon.get("/healthz").header("access-control-allow-origin"), None);
}

#[test]
fn a_token_opens_the_door_as_far_as_it_goes() {
    let folder = Folder::new("tokens");
    let daemon = with_tokens(&folder);
    let ask =
        |line: &str, token: &str| daemon.ask(line, &[JSON, &format!("Authorization: {token}")], Some(ECHO));
    let (all, read) = (format!("Bearer {TOKEN}"), format!("bearer {READ_TOKEN}"));
    assert_eq!(ask("POST /v1/tasks", &all).status, 202);
    assert_eq!(ask("GET /v1/tasks", &all).status, 200);
    assert_eq!(ask("GET /v1/tasks", &read).status, 200);
    let answer = ask("POST /v1/tasks", &read);
    assert_eq!(answer.refusal(), (403, "forbidden".to_owned()));
    for wrong in ["Bearer", "Bearer ", "Bearer 0123456789abcdef-writ", "Basic eDp5", TOKEN] {
        let answer = ask("GET /v1/tasks", wrong);
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{wrong}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer realm=\"millpond\""));
        assert!(!answer.text().contains(TOKEN));
    }
}

#[test]
fn without_a_token_only_what_is_open_is_shown() {
    let folder = Folder::new("open");
    let daemon = with_tokens(&folder);
    for path in ["/healthz", "/readyz", "/version"] {
        assert_eq!(daemon.get(path).status, 200, "{path}");
    }
    for path in [
        "/v1/tasks",
        "/v1/tasks/t1",
        "/v1/tasks/t1/events",
        "/v1/events",
        "/v1/handlers",
        "/v1/workers",
        "/stats",
        "/metrics",
        "/openapi.json",
    ] {
        assert_eq!(daemon.get(path).refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
    for path in
        ["/v1/tasks", "/v1/exec", "/v1/batch", "/v1/bulk", "/v1/tasks/t1/cancel", "/v1/tasks/t1/retry"]
    {
        assert_eq!(daemon.post(path, ECHO).refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
    assert_eq!(daemon.ask("DELETE /v1/tasks/t1", &[], None).refusal(), (401, "unauthorized".to_owned()));
}

#[test]
fn a_program_of_the_same_user_needs_no_token_at_the_socket() {
    let folder = Folder::new("socket");
    let socket = folder.0.join("http.sock");
    let daemon = Daemon::with(|web, _| {
        web.token_file = Some(folder.file("token", TOKEN));
        web.socket = Some(socket.clone());
    });
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"GET /v1/tasks HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(daemon.get("/v1/tasks").status, 401, "others do");
}

#[test]
fn a_token_that_is_too_short_does_not_start_a_door() {
    let folder = Folder::new("short");
    let token = folder.file("token", "secret");
    let error = Daemon::refused(|web, _| web.token_file = Some(token));
    assert!(error.contains("expected a token of 16 to"), "{error}");
    let missing = folder.0.join("missing");
    let error = Daemon::refused(|web, _| web.token_file = Some(missing));
    assert!(error.contains("web.token_file: "), "{error}");
    let read = folder.file("read", READ_TOKEN);
    let error = Daemon::refused(|web, _| web.read_token_file = Some(read));
    assert!(error.contains("set web.token_file too"), "{error}");
}
