//! A collector to play with: a real HTTP server that decodes what comes, and answers as a test says.
//!
//! It reads OTLP with the messages that OpenTelemetry publishes, and is strict about everything else: method,
//! path, content type and length.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Nothing in these tests takes so long, unless it never happens.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// What the collector says to a request.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// It takes all spans.
    Taken,
    /// It takes all but so many.
    Partly(i64),
    /// This status, with a header line.
    Status(u16, &'static str),
    /// Nothing, until the other end of the channel is dropped; then that it takes all.
    Hold(Arc<Mutex<Receiver<()>>>),
}

/// One request that came.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) resource: Resource,
    pub(crate) spans: Vec<Span>,
}

/// The server. It lives as long as the test.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    requests: Receiver<Got>,
}

impl Collector {
    /// Answers the first requests as the list says, and takes all others.
    pub(crate) fn start(answers: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers: Vec<_> = answers.into_iter().collect();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let (tell, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tell, answers) = (tell.clone(), Arc::clone(&answers));
                thread::spawn(move || serve(&stream, &tell, &answers));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request.
    pub(crate) fn next(&self) -> Got {
        self.requests.recv_timeout(SOON).expect("spans are sent")
    }

    /// So many spans, however many requests they take.
    pub(crate) fn spans(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < count {
            spans.extend(self.next().spans);
        }
        assert_eq!(spans.len(), count);
        spans
    }

    /// What came and was not looked at.
    pub(crate) fn rest(&self) -> Vec<Got> {
        self.requests.try_iter().collect()
    }
}

/// A collector's answer that is not given before the other end is dropped.
pub(crate) fn hold() -> (Say, Sender<()>) {
    let (release, held) = mpsc::channel();
    (Say::Hold(Arc::new(Mutex::new(held))), release)
}

/// Answers requests until the client leaves.
fn serve(stream: &TcpStream, tell: &Sender<Got>, answers: &Mutex<std::vec::IntoIter<Say>>) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = read_request(&mut reader) {
        let say = answers.lock().unwrap().next().unwrap_or(Say::Taken);
        let request = ExportTraceServiceRequest::decode(&body[..]).expect("the body is OTLP");
        let [resource_spans] = &request.resource_spans[..] else { panic!("one resource: {request:?}") };
        let [scope_spans] = &resource_spans.scope_spans[..] else { panic!("one scope: {request:?}") };
        let resource = resource_spans.resource.clone().expect("there is a resource");
        assert_eq!(scope_spans.scope.as_ref().map(|scope| scope.name.as_str()), Some("millpond-otel"));
        // A test that has ended wants to know nothing more.
        let _ = tell.send(Got { resource, spans: scope_spans.spans.clone() });
        if write_answer(stream, &say).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let mut body = vec![0; headers["content-length"].parse().expect("the length is known")];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn write_answer(mut stream: &TcpStream, say: &Say) -> std::io::Result<()> {
    let (status, header, rejected_spans) = match say {
        Say::Taken => (200, "X-Is: taken", 0),
        Say::Partly(rejected) => (200, "X-Is: partly", *rejected),
        Say::Status(status, header) => (*status, *header, 0),
        Say::Hold(held) => {
            // An error is what ends the wait.
            let _ = held.lock().unwrap().recv();
            (200, "X-Is: late", 0)
        }
    };
    let error_message = if rejected_spans > 0 { "too much".to_owned() } else { String::new() };
    let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
    let body = ExportTraceServiceResponse { partial_success }.encode_to_vec();
    let length = body.len();
    let kind = "application/x-protobuf";
    let head = format!(
        "HTTP/1.1 {status} X\r\n{header}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &body].concat())
}

/// Attributes by name, as text.
pub(crate) fn named(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let shown = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?} is neither text nor number"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), shown(attribute))).collect()
}
