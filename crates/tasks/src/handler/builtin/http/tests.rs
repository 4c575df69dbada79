//! What only shows when names lead where an attacker says, when a server speaks TLS, or when nobody answers.
//!
//! Names are looked up in a table here. The tests with a real server and plain names are with those of the
//! public interface.

use super::lookup::Names;
use super::socket::dial;
use super::stopper::Stopper;
use super::{Client, HttpGet, Lookups};
use crate::config::{AllowSettings, BuiltinSettings};
use crate::{Registry, Service, ServiceConfig, Submit, Symbols};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

const PATIENCE: Duration = Duration::from_secs(60);

fn client(hosts: &[String], names: Names) -> Client {
    let allow = AllowSettings { hosts: hosts.to_vec(), ..AllowSettings::default() };
    let mut client = Client::new(&BuiltinSettings { allow, ..BuiltinSettings::default() });
    client.lookups = Lookups::new(names);
    client
}

/// What a task gets from this client: status of the task, then body or message.
fn get(client: Client, url: &str) -> (i64, String) {
    let mut registry = Registry::new();
    registry.add("http_get", HttpGet(Arc::new(client))).unwrap();
    let service = Service::start(ServiceConfig::default(), registry, Symbols::new()).unwrap();
    let request = json!({ "handler": "http_get", "args": { "url": url } }).to_string();
    let task = service.handle().submit(request.as_bytes(), Submit::default()).unwrap().task;
    task.wait(PATIENCE).expect("it ends");
    let mut json = Vec::new();
    task.write_outcome(&mut json);
    let outcome: Value = serde_json::from_slice(&json).unwrap();
    let words = outcome["result"]["body"].as_str().or(outcome["message"].as_str()).unwrap();
    (outcome["status"].as_i64().unwrap(), words.to_owned())
}

/// A server that answers everybody, and counts them.
fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let of_thread = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            of_thread.fetch_add(1, Relaxed);
            answer(&mut stream.unwrap());
        }
    });
    (address, count)
}

fn answer(stream: &mut (impl Read + Write)) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        asked.push(byte[0]);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let _ = stream.flush();
}

#[test]
fn a_name_below_a_star_that_leads_to_this_machine_or_a_private_network_is_refused() {
    let (server, count) = server();
    let port = server.port();
    for address in ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "::ffff:127.0.0.1", "fd00::1"] {
        let names: Names = Arc::new(move |_, port| Ok(vec![SocketAddr::new(address.parse().unwrap(), port)]));
        let url = format!("http://evil.example.org:{port}/");
        let (status, message) = get(client(&["*.example.org".to_owned()], names), &url);
        assert_eq!(status, -107, "{message}");
        assert_eq!(
            message,
            format!(
                "args.url: \"{url}\": not allowed: the host evil.example.org leads to the private address \
                 {address}; add \"evil.example.org\" to allow.hosts if that is meant"
            )
        );
    }
    assert_eq!(count.load(Relaxed), 0, "nobody was asked");
}

#[test]
fn a_name_that_is_listed_may_be_private_but_never_lead_to_the_secrets_of_a_cloud() {
    let (server, _) = server();
    let url = format!("http://db.internal:{}/", server.port());
    let hosts = ["db.internal".to_owned()];
    let here: Names = Arc::new(move |_, _| Ok(vec![server]));
    assert_eq!(get(client(&hosts, here), &url), (0, "hello".to_owned()));
    let link: Names = Arc::new(|_, port| Ok(vec![SocketAddr::new([169, 254, 169, 254].into(), port)]));
    let (status, message) = get(client(&hosts, link), &url);
    assert_eq!(status, -107);
    assert!(
        message.ends_with("db.internal leads to 169.254.169.254, to which no name may lead"),
        "{message}"
    );
}

#[test]
fn of_several_addresses_only_those_that_are_allowed_are_tried() {
    let (server, _) = server();
    let names: Names = Arc::new(move |_, port| Ok(vec![SocketAddr::new([0, 0, 0, 0].into(), port), server]));
    let url = format!("http://db.internal:{}/", server.port());
    assert_eq!(get(client(&["db.internal".to_owned()], names), &url), (0, "hello".to_owned()));
}

#[test]
fn a_name_is_asked_once_so_it_cannot_change_its_mind_after_the_check() {
    let (server, count) = server();
    let asked = Arc::<AtomicUsize>::default();
    let of_names = Arc::clone(&asked);
    // The first answer is fine; any other would lead to where nothing is.
    let names: Names = Arc::new(move |_, _| {
        let is_first = of_names.fetch_add(1, Relaxed) == 0;
        Ok(vec![if is_first { server } else { SocketAddr::new([127, 0, 0, 9].into(), 9) }])
    });
    let url = format!("http://rebind.test:{}/", server.port());
    assert_eq!(get(client(&["rebind.test".to_owned()], names), &url), (0, "hello".to_owned()));
    assert_eq!((asked.load(Relaxed), count.load(Relaxed)), (1, 1));
}

#[test]
fn a_server_proves_who_it_is() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["secure.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            answer(&mut StreamOwned::new(connection, stream.unwrap()));
        }
    });
    let ask = |host: &str, trusts: bool| {
        let names: Names = Arc::new(move |_, _| Ok(vec![server]));
        let mut client = client(&[host.to_owned()], names);
        if trusts {
            let root = Certificate::from_der(cert.der()).to_owned();
            let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root])).build();
            client.config = Client::config(tls);
        }
        get(client, &format!("https://{host}:{}/", server.port()))
    };
    assert_eq!(ask("secure.test", true), (0, "hello".to_owned()));
    let (status, message) = ask("secure.test", false);
    assert_eq!(status, -109, "{message}");
    assert!(message.contains("certificate"), "an unknown issuer: {message}");
    let (status, message) = ask("other.test", true);
    assert_eq!(status, -109, "{message}");
    assert!(message.contains("certificate"), "another name: {message}");
}

#[test]
fn a_connection_that_is_never_accepted_can_be_stopped() {
    // A listener whose queue is full drops whoever knocks, so a connection neither succeeds nor fails.
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
    let short = Duration::from_millis(200);
    let waiting: Vec<_> = (0..8).map_while(|_| TcpStream::connect_timeout(&address, short).ok()).collect();
    assert!(waiting.len() < 8, "the queue never fills");
    let stopper = Arc::new(Stopper::default());
    let of_thread = Arc::clone(&stopper);
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let far = Instant::now() + Duration::from_secs(3600);
        let stream = dial(address, far, &of_thread);
        let is_connected = stream.is_ok_and(|stream| stream.peer_addr().is_ok());
        done.send(is_connected).unwrap();
    });
    let patience = Instant::now() + PATIENCE;
    while !is_knocking(address) {
        assert!(Instant::now() < patience, "nobody knocks");
        thread::yield_now();
    }
    stopper.stop();
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(false));
}

/// Whether somebody waits for this address to accept a connection, as the system's own table says.
fn is_knocking(address: SocketAddr) -> bool {
    let to = format!("0100007F:{:04X}", address.port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let is_it = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(2) == Some(&&*to) && fields.get(3) == Some(&"02")
    };
    table.lines().any(is_it)
}
