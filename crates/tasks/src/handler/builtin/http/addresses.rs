//! Which addresses belong to the public network, which to a private one, and which to neither.
//!
//! A name on the allow-list says who is meant, not where they are; whoever answers for the name decides that.
//! So an address is judged after it was looked up. For IPv4 the exceptions are listed, after the registry of
//! special addresses; for IPv6 only what is known to be public counts. An IPv4 address in an IPv6 dress is
//! judged as what it is.
//!
//! Not here: what follows from the judgement (`hosts.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Anybody's on the internet.
    Public,
    /// This machine or a private network.
    Private,
    /// A link, a group, a reserved block: nothing that a name should lead to. The addresses under which
    /// clouds tell their machines secrets are among these.
    Special,
}

impl Reach {
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        // This machine, and the private networks; the third is shared by a provider's customers.
        [127, ..] | [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Reach::Private,
        // "This network", links, protocol assignments, the old 6to4 relay.
        [0, ..] | [169, 254, ..] | [192, 0, 0, _] | [192, 88, 99, _] => Reach::Special,
        // Examples and measurements.
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => Reach::Special,
        // Groups, reserved, everybody.
        [224..=255, ..] => Reach::Special,
        _ => Reach::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Reach {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = || {
        let ([g1, g2], [h1, h2]) = (g.to_be_bytes(), h.to_be_bytes());
        of_v4(Ipv4Addr::new(g1, g2, h1, h2))
    };
    match (a, b) {
        _ if address.is_loopback() => Reach::Private,
        // ::ffff:0:0/96 is IPv4 itself, 64:ff9b::/96 is IPv4 behind a translator.
        (0, 0) if (c, d, e, f) == (0, 0, 0, 0xFFFF) => embedded(),
        (0x64, 0xFF9B) if (c, d, e, f) == (0, 0, 0, 0) => embedded(),
        (0xFC00..=0xFDFF, _) => Reach::Private,
        // Protocol assignments with Teredo, examples, 6to4: inside the public block, but nobody's.
        (0x2001, 0..=0x01FF) | (0x2001, 0x0DB8) | (0x2002, _) | (0x3FFF, 0..=0x0FFF) => Reach::Special,
        (0x2000..=0x3FFF, _) => Reach::Public,
        _ => Reach::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_address_is_told_apart() {
        let hold = |reach, addresses: &[&str]| {
            for address in addresses {
                assert_eq!(Reach::of(address.parse().unwrap()), reach, "{address}");
            }
        };
        hold(
            Reach::Public,
            &["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"],
        );
        hold(Reach::Public, &["126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0"]);
        hold(
            Reach::Public,
            &["192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"],
        );
        hold(Reach::Public, &["2606:4700:4700::1111", "2001:200::1", "2003::1", "2400::1", "3ffe::1"]);
        hold(Reach::Public, &["::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]);

        hold(Reach::Private, &["127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255"]);
        hold(Reach::Private, &["192.168.0.1", "100.64.0.1", "100.127.255.255", "::1", "fc00::1", "fdff::1"]);
        hold(Reach::Private, &["::ffff:127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::192.168.1.1"]);

        hold(
            Reach::Special,
            &["0.0.0.0", "0.1.2.3", "169.254.169.254", "192.0.0.8", "192.88.99.1", "192.0.2.1"],
        );
        hold(Reach::Special, &["198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1"]);
        hold(Reach::Special, &["239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::2", "::127.0.0.1"]);
        hold(
            Reach::Special,
            &["fe80::1", "fec0::1", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1"],
        );
        hold(Reach::Special, &["64:ff9b:1::1", "100::1", "4000::1", "5f00::1", "::ffff:169.254.169.254"]);
        hold(Reach::Special, &["::ffff:0:127.0.0.1", "64:ff9b::0.0.0.0", "64:ff9b::a9fe:a9fe"]);
    }
}
