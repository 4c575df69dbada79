//! Redirects: the server that is asked must not decide who is asked next.
//!
//! Each hop is checked like the first. The servers here lead to this machine, to the address under which
//! clouds tell their machines secrets, to files, and in circles.

use super::http::{daemon_for, settings};
use super::server::{Server, page, redirect};
use super::{Daemon, error};
use millpond_tasks::config::BuiltinSettings;
use serde_json::json;

#[test]
fn a_redirect_to_who_is_allowed_is_followed() {
    let other = Server::start(vec![("/there", page("found"))]);
    let server = Server::start(vec![
        ("/absolute", redirect(302, other.url("/there"))),
        ("/relative/from", redirect(301, "../to?q=1")),
        ("/to", page("relative")),
    ]);
    let daemon = daemon_for(&[server.address.to_string(), other.address.to_string()]);
    let result = daemon.run("http_get", json!({ "url": server.url("/absolute") }));
    assert_eq!((&result["body"], &result["url"]), (&json!("found"), &json!(other.url("/there"))));
    let result = daemon.run("http_get", json!({ "url": server.url("/relative/from") }));
    assert_eq!((&result["body"], &result["url"]), (&json!("relative"), &json!(server.url("/to?q=1"))));
}

#[test]
fn a_redirect_to_who_is_not_allowed_is_refused_and_nobody_is_asked() {
    let secret = Server::start(vec![("/", page("secret"))]);
    let port = secret.address.port();
    let same_port = |host: &str| format!("http://{host}:{port}/");
    let locations = [
        secret.url("/"),
        same_port("localhost"),
        same_port("127.1"),
        same_port("2130706433"),
        same_port("[::ffff:127.0.0.1]"),
        same_port("0.0.0.0"),
        format!("//127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
    ];
    for location in locations {
        let server = Server::start(vec![("/", redirect(302, location.clone()))]);
        let daemon = daemon_for(&[server.address.to_string()]);
        let (code, message) = daemon.fail("http_get", json!({ "url": server.url("/") }));
        assert_eq!(code, "not-allowed", "{location}: {message}");
        assert!(message.starts_with("redirect 1: \"http://"), "{message}");
        // The server's own address is allowed, but only with its own port.
        assert!(message.contains("allow.hosts"), "{message}");
    }
    assert!(secret.asked().is_empty(), "{:?}", secret.asked());
}

#[test]
fn a_redirect_to_something_that_is_not_the_web_is_refused() {
    for location in
        ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/x", "javascript:1", "http://a@b/"]
    {
        let server = Server::start(vec![("/", redirect(307, location))]);
        let daemon = daemon_for(&[server.address.to_string()]);
        let (code, message) = daemon.fail("http_get", json!({ "url": server.url("/") }));
        assert_eq!(code, "not-allowed", "{location}: {message}");
        let start = format!(
            "args.url: \"{}\": not allowed: redirect 1 leads to {location:?}, expected ",
            server.url("/")
        );
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn a_circle_ends_after_as_many_redirects_as_are_allowed() {
    let server = Server::start(vec![("/", redirect(302, "/"))]);
    let daemon = daemon_for(&[server.address.to_string()]);
    let url = server.url("/");
    assert_eq!(
        daemon.fail("http_get", json!({ "url": url })),
        error(
            "handler-error",
            format!("redirect 5: \"{url}\": expected an answer after 5 redirects, got another redirect")
        )
    );
    assert_eq!(server.asked().len(), 6);
}

#[test]
fn where_no_redirect_is_followed_it_is_the_answer() {
    let server = Server::start(vec![("/", redirect(302, "/elsewhere"))]);
    let settings = BuiltinSettings { http_redirects_max: 0, ..settings(&[server.address.to_string()]) };
    let result = Daemon::new(&settings).run("http_get", json!({ "url": server.url("/") }));
    assert_eq!((&result["status"], &result["headers"]["location"]), (&json!(302), &json!("/elsewhere")));
}

#[test]
fn a_post_is_repeated_only_where_the_status_says_so_and_secrets_stay_behind() {
    let other = Server::start(vec![("/", page(""))]);
    let server = Server::start(vec![
        ("/303", redirect(303, other.url("/"))),
        ("/307", redirect(307, other.url("/"))),
        ("/308", redirect(308, "/here")),
        ("/here", page("")),
    ]);
    let daemon = daemon_for(&[server.address.to_string(), other.address.to_string()]);
    for path in ["/303", "/307", "/308"] {
        let headers = json!({ "authorization": "secret", "x-key": "secret", "accept": "a/b" });
        daemon.run("http_post", json!({ "url": server.url(path), "body": "data", "headers": headers }));
    }
    let [get, post] = &other.asked()[..] else { panic!("{:?}", other.asked()) };
    assert_eq!((&*get.line, &*get.body), ("GET / HTTP/1.1", ""));
    assert_eq!((&*post.line, &*post.body), ("POST / HTTP/1.1", "data"));
    for asked in [get, post] {
        assert_eq!(asked.headers["accept"], "a/b");
        assert!(!asked.headers.values().any(|value| value == "secret"), "{asked:?}");
    }
    let here = server.asked().pop().unwrap();
    assert_eq!(
        (&*here.line, &*here.body, &*here.headers["x-key"]),
        ("POST /here HTTP/1.1", "data", "secret")
    );
}
