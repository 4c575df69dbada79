//! `http_get` and `http_post`: one message to a server that the allow-list names, and its answer.
//!
//! Every URL is checked before it is used, whether it came from the task or from a redirect: its kind, its
//! host and port against the list, and the addresses of its name. The connection goes to an address that was
//! checked and to no other; proxies from the environment are not used. Time, size and the number of redirects
//! are bounded for the whole of it, and a cancelled task closes its socket.
//!
//! A worker waits for the network, and another stands in for it. Each request has a connection of its own:
//! what one task sends never meets what another one receives.

mod addresses;
mod answer;
mod ask;
mod hosts;
mod location;
mod lookup;
mod socket;
mod stopper;

#[cfg(test)]
mod tests;

use super::about;
use crate::call::Call;
use crate::config::BuiltinSettings;
use crate::error::{ErrorCode, TaskFailure};
use crate::handler::{About, Handler};
use crate::nearest::shown;
use answer::{Broken, Head, Incoming};
use ask::{Ask, Wanted, is_redirect};
use hosts::{AllowedHosts, Host, Target};
use lookup::{LookupError, Lookups};
use serde_json::value::RawValue;
use socket::{AlreadyFound, Dial, SharedTls};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stopper::Stopper;
use ureq::config::Config;
use ureq::http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue, LOCATION};
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::Connector as _;
use ureq::{Agent, Body};

/// What all requests share.
pub(super) struct Client {
    hosts: AllowedHosts,
    timeout: Duration,
    body_bytes_max: u64,
    redirects_max: u32,
    lookups: Lookups,
    tls: SharedTls,
    config: Config,
}

pub(super) struct HttpGet(pub(super) Arc<Client>);

pub(super) struct HttpPost(pub(super) Arc<Client>);

impl Handler for HttpGet {
    fn start(&self, call: Call) {
        let outcome = Wanted::read_get(call.args()).and_then(|wanted| self.0.run(&call, wanted));
        call.finish(outcome);
    }

    fn about(&self) -> About {
        about("Fetches a page from an allowed host.", r#"{"url": "https://api.example.org/"}"#)
    }
}

impl Handler for HttpPost {
    fn start(&self, call: Call) {
        let outcome = Wanted::read_post(call.args()).and_then(|wanted| self.0.run(&call, wanted));
        call.finish(outcome);
    }

    fn about(&self) -> About {
        about("Sends a body to an allowed host.", r#"{"url": "https://api.example.org/", "json": {"n": 1}}"#)
    }
}

/// One request on its way, through all its redirects.
struct Journey<'a> {
    client: &'a Client,
    timeout: Duration,
    deadline: Instant,
    stopper: Arc<Stopper>,
    /// How many redirects were followed.
    redirects: u32,
}

impl Client {
    pub(super) fn new(settings: &BuiltinSettings) -> Self {
        Self {
            hosts: AllowedHosts::new(&settings.allow.hosts),
            timeout: settings.http_timeout,
            body_bytes_max: settings.http_body_bytes_max,
            redirects_max: settings.http_redirects_max,
            lookups: Lookups::of_system(),
            tls: SharedTls::default(),
            config: Self::config(TlsConfig::default()),
        }
    }

    fn config(tls: TlsConfig) -> Config {
        let config = Agent::config_builder()
            // These would be decided behind our back: who is spoken to, and what an answer means.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0);
        config.tls_config(tls).user_agent(concat!("millpond/", env!("CARGO_PKG_VERSION"))).build()
    }

    fn run(&self, call: &Call, wanted: Wanted) -> Result<Box<RawValue>, TaskFailure> {
        let timeout = wanted.timeout.map_or(self.timeout, |timeout| timeout.min(self.timeout));
        let deadline = Instant::now() + timeout;
        let deadline = call.deadline().map_or(deadline, |of_task| deadline.min(of_task));
        let stopper = Arc::new(Stopper::default());
        let of_call = Arc::clone(&stopper);
        call.on_stop(move |_| of_call.stop());
        let journey = Journey { client: self, timeout, deadline, stopper, redirects: 0 };
        millpond::blocking(|| journey.travel(call, wanted.ask, wanted.stream))
    }
}

impl Journey<'_> {
    fn travel(mut self, call: &Call, mut ask: Ask, stream: bool) -> Result<Box<RawValue>, TaskFailure> {
        let response = loop {
            let response = self.send(&mut ask)?;
            let redirects_max = self.client.redirects_max;
            let Some(location) = response.headers().get(LOCATION).filter(|_| redirects_max > 0) else {
                break response;
            };
            if !is_redirect(response.status()) {
                break response;
            }
            let to = location.as_bytes().to_vec();
            if self.redirects == redirects_max {
                let message =
                    format!("expected an answer after {redirects_max} redirects, got another redirect");
                return Err(self.failed(&ask, ErrorCode::HandlerError, &message));
            }
            ask = self.redirected(ask, response, &to)?;
            self.redirects += 1;
        };
        self.read(call, &ask, response, stream)
    }

    /// Sends one message, if it may be sent, and waits for the head of the answer.
    fn send(&self, ask: &mut Ask) -> Result<Response<Body>, TaskFailure> {
        let addresses = self.addresses(ask)?;
        let dial = Dial { addresses, deadline: self.deadline, stopper: Arc::clone(&self.stopper) };
        let connector = dial.chain(self.client.tls.clone());
        let agent = Agent::with_parts(self.client.config.clone(), connector, AlreadyFound);
        let mut request = Request::builder().method(ask.method.clone()).uri(ask.uri.clone());
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&ask.headers);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let no_request = |error| self.failed(ask, ErrorCode::HandlerError, &format!("{error}"));
        let answer = if ask.method == Method::POST {
            agent.run(request.body(ask.body.as_slice()).map_err(no_request)?)
        } else {
            agent.run(request.body(()).map_err(no_request)?)
        };
        answer.map_err(|error| match error {
            ureq::Error::Timeout(_) => self.timed_out(ask),
            ureq::Error::Io(error) => self.broken(ask, &error.to_string()),
            error => self.broken(ask, &error.to_string()),
        })
    }

    /// The addresses that may be talked to for this message.
    fn addresses(&self, ask: &Ask) -> Result<Vec<SocketAddr>, TaskFailure> {
        let refused = |why: &str| self.failed(ask, ErrorCode::NotAllowed, &format!("not allowed: {why}"));
        let Target { host, port } = &ask.target;
        let verdict = self.client.hosts.ask(&ask.target).map_err(|why| refused(&why))?;
        let name = match host {
            Host::Address(address) => return Ok(vec![SocketAddr::new(*address, *port)]),
            Host::Name(name) => name,
        };
        let found = self.client.lookups.find(name, *port, self.deadline, &self.stopper);
        let found = found.map_err(|error| match error {
            LookupError::TimedOut => self.timed_out(ask),
            LookupError::Stopped => self.broken(ask, "stopped"),
            LookupError::TooMany => {
                self.broken(ask, "too many names are being looked up; the name server does not answer")
            }
            LookupError::Failed(error) => self.broken(
                ask,
                &format!("the host {name} cannot be found: {}", in_lower_case(&error.to_string())),
            ),
        })?;
        let (allowed, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|at| verdict.allows(at.ip()));
        if let (true, Some(other)) = (allowed.is_empty(), others.first()) {
            return Err(refused(&hosts::refusal(name, other.ip())));
        }
        Ok(allowed)
    }

    fn redirected(&self, ask: Ask, response: Response<Body>, to: &[u8]) -> Result<Ask, TaskFailure> {
        let status = response.status();
        // The body is of no use, and the connection is closed with it.
        drop(response);
        let words = shown(&String::from_utf8_lossy(to));
        let refused = |why: &str| {
            let message =
                format!("not allowed: redirect {} leads to {words}, expected {why}", self.redirects + 1);
            self.failed(&ask, ErrorCode::NotAllowed, &message)
        };
        let uri = location::resolve(&ask.uri, to).ok_or_else(|| refused("a URL"))?;
        let target = Target::of(&uri).map_err(refused)?;
        Ok(ask.redirected(status, uri, target))
    }

    fn read(
        &self,
        call: &Call,
        ask: &Ask,
        response: Response<Body>,
        stream: bool,
    ) -> Result<Box<RawValue>, TaskFailure> {
        let (parts, body) = response.into_parts();
        let url = (self.redirects > 0).then(|| ask.uri.to_string());
        let head = Head::new(parts.status.as_u16(), &parts.headers, url);
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let incoming =
            Incoming { body: body.into_reader(), announced, bytes_max: self.client.body_bytes_max };
        let answer = if stream { incoming.stream(&head, call) } else { incoming.whole(&head) };
        match answer {
            // A socket that was shut ends like one whose peer had said everything.
            Ok(_) if self.stopper.is_stopped() => Err(self.broken(ask, "stopped")),
            Ok(answer) => Ok(answer),
            Err(Broken::Other(failure)) => Err(self.failed(ask, failure.code, &failure.message)),
            Err(Broken::Read(_)) if Instant::now() >= self.deadline => Err(self.timed_out(ask)),
            Err(Broken::Read(error)) => Err(self.broken(ask, &error.to_string())),
        }
    }

    fn timed_out(&self, ask: &Ask) -> TaskFailure {
        let message = format!("expected the whole answer within {} ms", self.timeout.as_millis());
        self.failed(ask, ErrorCode::TimedOut, &message)
    }

    /// The network failed, or was told to.
    fn broken(&self, ask: &Ask, message: &str) -> TaskFailure {
        let code = if self.stopper.is_stopped() { ErrorCode::Cancelled } else { ErrorCode::HandlerError };
        self.failed(ask, code, &in_lower_case(message))
    }

    fn failed(&self, ask: &Ask, code: ErrorCode, message: &str) -> TaskFailure {
        let url = shown(&ask.uri.to_string());
        let place =
            if self.redirects == 0 { "args.url".to_owned() } else { format!("redirect {}", self.redirects) };
        TaskFailure::new(code, format!("{place}: {url}: {message}"))
    }
}

/// As messages are written here. Names and addresses are in lower case anyway.
fn in_lower_case(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or(text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
