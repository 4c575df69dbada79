//! Bad input: requests that cannot be run, and servers that cannot be used.
//!
//! Each is told in words that say what to do, and within a time that somebody waits for.

use crate::ground::{Daemon, Other, name, settings, until, value};
use crate::server::{NatsServer, free_port};
use millpond_nats::{Lane, NatsDoor, NatsError, RecordState, given_id};
use millpond_tasks::config::NatsSettings;
use millpond_tasks::{Log, Registry, Service, ServiceConfig, Symbols};
use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn refused(settings: NatsSettings) -> NatsError {
    let service =
        Service::start(ServiceConfig::default(), Registry::new(), Symbols::default()).expect("it starts");
    let began = Instant::now();
    let error = NatsDoor::open(settings, service.handle(), Log::silent()).expect_err("it must not open");
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    error
}

#[test]
fn requests_that_cannot_be_read_become_dead_letters_with_a_reason() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let bad = other.submit(Lane::Normal, "{\"handler\": oh no");
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"r","retries":"many"}"#);
    let record = other.ended(&given_id(bad));
    assert_eq!((record.state, &value(&record)["error"]), (RecordState::Failed, &"invalid-request".into()));
    assert_eq!(value(&other.ended(&name("r")))["error"], "invalid-request");
    other.empty();
    assert_eq!((other.messages("MILL_jobs_DEAD"), daemon.stats().dead, daemon.runs()), (2, 2, 0));
}

#[test]
fn a_task_that_failed_for_good_is_a_dead_letter_before_it_leaves_the_queue() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"bad","task_id":"b","retries":5}"#);
    other.submit(Lane::Normal, r#"{"handler":"fail","task_id":"f"}"#);
    assert_eq!(value(&other.ended(&name("b")))["error"], "bad-arguments");
    assert_eq!(value(&other.ended(&name("f")))["error"], "handler-error");
    other.empty();
    assert_eq!((other.messages("MILL_jobs_DEAD"), daemon.runs()), (2, 2));
    let _context = other.runtime.enter();
    let context = async_nats::jetstream::new(other.client.clone());
    let letter = other.wait(async {
        let stream = context.get_stream("MILL_jobs_DEAD").await.unwrap();
        stream.get_raw_message(1).await.unwrap()
    });
    let reason = letter.headers.get(millpond_nats::header::REASON).expect("it has a reason").as_str();
    assert!(reason.contains("bad-arguments") || reason.contains("handler-error"), "{reason}");
    assert!(letter.headers.get(millpond_nats::header::TASK).is_some());
}

#[test]
fn a_stream_of_somebody_else_is_left_alone() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let other = Other::new(&settings);
    other.wait(async {
        let config = async_nats::jetstream::stream::Config {
            name: "MILL_jobs".to_owned(),
            subjects: vec!["mill.jobs.*".to_owned()],
            ..Default::default()
        };
        async_nats::jetstream::new(other.client.clone()).create_stream(config).await.unwrap();
    });
    let error = refused(settings);
    assert!(matches!(error, NatsError::Incompatible(_)), "{error:?}");
    let said = error.to_string();
    assert!(
        said.starts_with("stream MILL_jobs: expected ") && said.contains("choose another queue"),
        "{said}"
    );
}

#[test]
fn daemons_of_a_queue_must_agree_on_the_lease() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let _daemon = Daemon::start(settings.clone());
    let said = refused(NatsSettings { lease: Duration::from_secs(7), ..settings }).to_string();
    assert!(said.contains("expected ack_wait 7000000000, got 2000000000"), "{said}");
    assert!(said.contains("nats.lease"), "{said}");
}

#[test]
fn a_server_without_jetstream_is_refused() {
    let server = NatsServer::with(false, &[]);
    let said = refused(settings(&server)).to_string();
    assert!(said.contains("has no JetStream; start it with -js"), "{said}");
}

#[test]
fn nobody_there_is_told_with_the_address() {
    let server = NatsServer::start();
    let url = format!("nats://127.0.0.1:{}", free_port());
    let error = refused(NatsSettings { url: url.clone(), ..settings(&server) });
    assert!(matches!(error, NatsError::Unreachable(_)), "{error:?}");
    assert!(error.to_string().starts_with(&url), "{error}");
}

#[test]
fn a_port_that_speaks_something_else_is_refused_in_time() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        // One that waits to be asked, as a web server does, and one that says something else.
        for (number, stream) in listener.incoming().flatten().enumerate() {
            if number % 2 == 1 {
                let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
            kept.push(stream);
        }
    });
    for _ in 0..2 {
        let url = format!("nats://127.0.0.1:{port}");
        let connect_timeout = Duration::from_millis(300);
        let error = refused(NatsSettings { url: url.clone(), connect_timeout, ..NatsSettings::default() });
        assert!(matches!(error, NatsError::Unreachable(_)), "{error:?}");
        assert!(error.to_string().starts_with(&url), "{error}");
    }
}

#[test]
fn a_server_that_wants_a_password_says_so() {
    let server = NatsServer::with(true, &["--user", "me", "--pass", "secret"]);
    let error = refused(settings(&server));
    assert!(matches!(error, NatsError::Unauthorized(_)), "{error:?}");
    let url = server.url().replace("nats://", "nats://me:secret@");
    let daemon = Daemon::start(NatsSettings { url, ..settings(&server) });
    assert!(daemon.stats().connected);
    assert!(!daemon.stats().url.contains("secret"), "{}", daemon.stats().url);
    assert!(!daemon.door.as_ref().unwrap().server().contains("secret"));
}

#[test]
fn a_server_with_tls_is_trusted_by_its_certificate_and_not_without() {
    let file = |name: &str| format!("{}/tests/server/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let server = NatsServer::with(true, &["--tls", "--tlscert", &certificate, "--tlskey", &key]);
    let error = refused(settings(&server)).to_string();
    assert!(error.contains("no secure connection") && error.contains("check nats.ca"), "{error}");
    let settings = NatsSettings { ca: Some(file("ca.pem").into()), ..settings(&server) };
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    other.submit(Lane::Normal, r#"{"handler":"once","task_id":"secret"}"#);
    assert_eq!(other.ended(&name("secret")).state, RecordState::Done);
    assert_eq!(daemon.runs(), 1);
}

#[test]
fn more_replicas_than_servers_are_refused() {
    let server = NatsServer::start();
    let error = refused(NatsSettings { replicas: 3, ..settings(&server) });
    assert!(matches!(error, NatsError::Unable(_)), "{error:?}");
    assert!(error.to_string().contains("nats.replicas"), "{error}");
}

#[test]
fn headers_that_nobody_should_send_do_no_harm() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let headers = ["Mill-Failures", "Mill-Run-At", "Mill-Since", "Mill-Origin"];
    for (number, header) in headers.into_iter().enumerate() {
        for value in ["4294967295", "-1", "", "x", "18446744073709551615"] {
            if header == "Mill-Run-At" && value.len() > 10 {
                continue;
            }
            let json = format!(r#"{{"handler":"bad","task_id":{number},"retries":1}}"#);
            other.submit_with(Lane::Normal, &json, &[(header, value)]);
        }
    }
    other.empty();
    until("nothing is held", || (daemon.stats().in_flight == 0).then_some(()));
    assert_eq!(daemon.stats().restarts, 0);
}

#[test]
fn a_request_as_large_as_the_server_takes_is_not_lost_when_it_has_to_wait() {
    let server = NatsServer::start();
    let settings = settings(&server);
    let daemon = Daemon::start(settings.clone());
    let other = Other::new(&settings);
    let json = r#"{"handler":"once","task_id":"big","delay_ms":300}"#;
    other.submit(Lane::Normal, &format!("{json}{}", " ".repeat((1 << 20) - json.len())));
    other.submit(Lane::Normal, &format!("{{{}", " ".repeat((1 << 20) - 1)));
    assert_eq!(other.ended(&name("big")).state, RecordState::Done);
    other.empty();
    until("what cannot be read is a letter", || (other.messages("MILL_jobs_DEAD") == 1).then_some(()));
    assert_eq!(daemon.runs(), 1);
}
