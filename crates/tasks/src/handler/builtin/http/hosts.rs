//! Who may be talked to: the allow-list, asked for every URL and for every address that its name leads to.
//!
//! An entry is a name, a name with `*.` for all that end so, or an address, each with or without a port. A
//! name leads to where its owner says, so the address is judged too:
//!
//! | entry | public | private, loopback | link, group, reserved |
//! |---|---|---|---|
//! | `*.example.org` | yes | no | no |
//! | `api.example.org` | yes | yes | no |
//! | `169.254.169.254` | yes | yes | yes |
//!
//! Not here: looking names up (`lookup.rs`), redirects (`http.rs`).

use super::addresses::Reach;
use crate::nearest::{nearest, shown};
use std::fmt;
use std::net::IpAddr;
use ureq::http::Uri;
use ureq::http::uri::Scheme;

/// The list.
#[derive(Debug)]
pub(super) struct AllowedHosts(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    /// As it stands in the configuration.
    text: String,
    host: EntryHost,
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum EntryHost {
    Name(String),
    /// The end of a name, with its dot.
    Suffix(String),
    Address(IpAddr),
}

/// Whom a URL means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// A host as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// In lower case, without the dot at its end.
    Name(String),
    /// IPv4 addresses that were written as IPv6 are IPv4.
    Address(IpAddr),
}

/// What the list says to a target: which addresses may be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    PublicOnly,
    PublicAndPrivate,
    Any,
}

impl Target {
    /// Whom `uri` means, if it is a whole URL of this kind.
    pub(super) fn of(uri: &Uri) -> Result<Self, &'static str> {
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("a URL that begins with http:// or https://"),
        };
        let authority = uri.authority().ok_or("a URL with a host")?;
        if authority.as_str().contains('@') {
            return Err("a URL without a user; send an authorization header instead");
        }
        let host = Host::read(authority.host());
        if host == Host::Name(String::new()) {
            return Err("a URL with a host");
        }
        let port = match authority.as_str().get(authority.host().len()..).unwrap_or_default() {
            "" | ":" if is_https => 443,
            "" | ":" => 80,
            colon_and_port => {
                let port = colon_and_port[1..].parse().ok().filter(|port| *port > 0);
                port.ok_or("a port from 1 to 65535")?
            }
        };
        Ok(Self { host, port })
    }
}

impl Host {
    fn read(text: &str) -> Self {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Name(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl AllowedHosts {
    pub(super) fn new(hosts: &[String]) -> Self {
        Self(hosts.iter().map(|text| Entry::read(text)).collect())
    }

    /// What may be talked to on behalf of this target, or why nothing may.
    pub(super) fn ask(&self, target: &Target) -> Result<Verdict, String> {
        let of_host = || self.0.iter().filter_map(|entry| Some((entry, entry.verdict(&target.host)?)));
        let allowing = of_host().filter(|(entry, _)| entry.port.is_none_or(|port| port == target.port));
        if let Some(verdict) = allowing.map(|(_, verdict)| verdict).max_by_key(|verdict| *verdict as u8) {
            return Ok(verdict);
        }
        let Target { host, port } = target;
        let others: Vec<_> = of_host().map(|(entry, _)| entry.text.as_str()).collect();
        if !others.is_empty() {
            return Err(format!(
                "allow.hosts has {} and not port {port}; add \"{host}:{port}\"",
                others.join(", ")
            ));
        }
        let host = host.to_string();
        let near = nearest(&host, self.0.iter().map(|entry| entry.text.as_str()));
        let advice =
            near.map_or_else(|| format!("add {}", shown(&host)), |near| format!("did you mean {near}?"));
        Err(format!("the host {host} is not in allow.hosts; {advice}"))
    }
}

impl Entry {
    fn read(text: &str) -> Self {
        // What is no port leaves its colon in the name, and no host has a name with a colon.
        let (host, port) = match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) if text.parse::<IpAddr>().is_err() => (host, Some(port)),
            _ => (text, None),
        };
        let host = match (Host::read(host), host.strip_prefix('*')) {
            (Host::Address(address), _) => EntryHost::Address(address),
            (_, Some(suffix)) if suffix.starts_with('.') => EntryHost::Suffix(suffix.to_ascii_lowercase()),
            (Host::Name(name), _) => EntryHost::Name(name),
        };
        Self { text: text.to_owned(), host, port }
    }

    fn verdict(&self, host: &Host) -> Option<Verdict> {
        match (&self.host, host) {
            (EntryHost::Address(mine), Host::Address(address)) if mine == address => Some(Verdict::Any),
            (EntryHost::Name(mine), Host::Name(name)) if mine == name => Some(Verdict::PublicAndPrivate),
            (EntryHost::Suffix(end), Host::Name(name)) if name.len() > end.len() && name.ends_with(end) => {
                Some(Verdict::PublicOnly)
            }
            _ => None,
        }
    }
}

impl Verdict {
    /// Whether this address may be talked to.
    pub(super) fn allows(self, address: IpAddr) -> bool {
        match Reach::of(address) {
            Reach::Public => true,
            Reach::Private => self != Self::PublicOnly,
            Reach::Special => self == Self::Any,
        }
    }
}

/// Why a name that leads to this address is not followed there.
pub(super) fn refusal(name: &str, address: IpAddr) -> String {
    match Reach::of(address) {
        Reach::Special => format!("the host {name} leads to {address}, to which no name may lead"),
        _ => format!(
            "the host {name} leads to the private address {address}; add {} to allow.hosts if that is meant",
            shown(name)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(list: &[&str], url: &str) -> Result<Verdict, String> {
        let hosts = AllowedHosts::new(&list.iter().map(|text| text.to_string()).collect::<Vec<_>>());
        hosts.ask(&Target::of(&url.parse::<Uri>().unwrap()).unwrap())
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        assert_eq!(
            ask(&[], "http://example.org/"),
            Err("the host example.org is not in allow.hosts; add \"example.org\"".to_owned())
        );
    }

    #[test]
    fn a_name_stands_for_itself_at_any_port_or_at_its_own() {
        let list = ["Example.org", "api.example.org:8080"];
        for url in ["http://example.org/", "https://EXAMPLE.ORG:9/x", "http://example.org./"] {
            assert_eq!(ask(&list, url), Ok(Verdict::PublicAndPrivate), "{url}");
        }
        assert_eq!(ask(&list, "http://api.example.org:8080/"), Ok(Verdict::PublicAndPrivate));
        assert_eq!(
            ask(&list, "http://api.example.org/"),
            Err("allow.hosts has api.example.org:8080 and not port 80; add \"api.example.org:80\"".to_owned())
        );
        for url in ["http://example.org.evil.net/", "http://notexample.org/", "http://x.example.org/"] {
            assert!(ask(&list, url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_star_stands_for_names_below_and_never_for_addresses() {
        let list = ["*.example.org"];
        assert_eq!(ask(&list, "http://a.b.example.org/"), Ok(Verdict::PublicOnly));
        for url in ["http://example.org/", "http://.example.org/", "http://aexample.org/", "http://1.2.3.4/"]
        {
            assert!(ask(&list, url).is_err(), "{url}");
        }
        let both = ["*.example.org", "db.example.org"];
        assert_eq!(
            ask(&both, "http://db.example.org/"),
            Ok(Verdict::PublicAndPrivate),
            "the wider one counts"
        );
    }

    #[test]
    fn an_address_stands_for_itself_however_it_is_written() {
        assert_eq!(ask(&["127.0.0.1:8080"], "http://127.0.0.1:8080/"), Ok(Verdict::Any));
        assert_eq!(ask(&["127.0.0.1"], "http://[::ffff:127.0.0.1]/"), Ok(Verdict::Any));
        assert_eq!(ask(&["[::1]:80"], "http://[0:0::1]/"), Ok(Verdict::Any));
        assert!(ask(&["[::1]:80"], "http://[::1]:81/").is_err());
        assert_eq!(ask(&["::1"], "http://[::1]:81/"), Ok(Verdict::Any));
        assert!(ask(&["127.0.0.1:x"], "http://127.0.0.1/").is_err(), "no port is not every port");
        for url in
            ["http://127.0.0.2/", "http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::1]/"]
        {
            assert!(ask(&["127.0.0.1"], url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_kind_of_entry_decides_where_a_name_may_lead() {
        let [public, private, special] =
            ["8.8.8.8", "10.0.0.1", "169.254.169.254"].map(|text| text.parse().unwrap());
        let may = |verdict: Verdict| [public, private, special].map(|address| verdict.allows(address));
        assert_eq!(may(Verdict::PublicOnly), [true, false, false]);
        assert_eq!(may(Verdict::PublicAndPrivate), [true, true, false]);
        assert_eq!(may(Verdict::Any), [true, true, true]);
    }

    #[test]
    fn what_is_no_url_of_this_kind_is_told_so() {
        let of = |url: &str| Target::of(&url.parse::<Uri>().unwrap()).unwrap_err();
        assert_eq!(of("/path"), "a URL that begins with http:// or https://");
        assert_eq!(of("ftp://example.org/"), "a URL that begins with http:// or https://");
        assert_eq!(
            of("http://a:b@example.org/"),
            "a URL without a user; send an authorization header instead"
        );
        assert_eq!(of("http://example.org:0/"), "a port from 1 to 65535");
        assert_eq!(of("http://example.org:99999/"), "a port from 1 to 65535");
    }
}
