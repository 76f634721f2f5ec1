//! Hosts of accounts: addresses, networks, and patterns of names and addresses.
//!
//! Neighbours: `mod` sorts accounts by [`rank`] and takes the first whose host [`matches`].
//!
//! As in MySQL, `10.1.2.3` is an address, `10.0.0.0/8` and `10.0.0.0/255.0.0.0` are networks, and any other text is a
//! pattern for the name or the address of a client: `%` is any run, `_` any one character. The empty text is any host.
//!
//! **Invariant**: a network whose address has bits outside of its mask has no client.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};

/// Where a client comes from.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// `localhost`, or the address as a text.
    pub name: &'a str,
    /// None for who comes by a Unix socket.
    pub ip: Option<IpAddr>,
}

/// How a network is written; the first goes before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Address,
    Bits,
    Mask,
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    form: Form,
    address: u32,
    mask: u32,
}

impl Network {
    fn parse(host: &str) -> Option<Network> {
        let Some((address, size)) = host.split_once('/') else {
            return Some(Network {
                form: Form::Address,
                address: address(host)?,
                mask: u32::MAX,
            });
        };
        let address = self::address(address)?;
        let (form, mask) = match number(size) {
            Some(bits @ 1..=32) => (Form::Bits, u32::MAX << (32 - bits)),
            Some(_) => return None,
            None => (Form::Mask, self::address(size)?),
        };
        (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(Network {
            form,
            address,
            mask,
        })
    }

    fn has(self, ip: Ipv4Addr) -> bool {
        u32::from(ip) & self.mask == self.address
    }
}

fn address(text: &str) -> Option<u32> {
    let mut parts = text.split('.');
    let mut address = 0;
    for _ in 0..4 {
        address = address << 8 | u32::from(number(parts.next()?)?);
    }
    parts.next().is_none().then_some(address)
}

/// Digits only: zeros may lead.
fn number(text: &str) -> Option<u8> {
    let is_digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// The order in which accounts are tried: addresses and small networks first, then names and patterns by where their
/// first wildcard stands.
pub(super) fn rank(host: &str) -> impl Ord + use<> {
    const ANY: usize = 1;
    match Network::parse(host) {
        Some(network) => (0, Some((network.form, Reverse(network.mask))), Reverse(0)),
        None => {
            let place = match host {
                "" => 0,
                "%" => ANY,
                _ => host.find(['%', '_']).map_or(usize::MAX, |at| ANY + 1 + at),
            };
            (1, None, Reverse(place))
        }
    }
}

/// Does the host of an account stand for where a client comes from?
pub(super) fn matches(host: &str, origin: Origin<'_>) -> bool {
    let ip = origin.ip.map(|ip| ip.to_canonical());
    if let Some(network) = Network::parse(host) {
        return matches!(ip, Some(IpAddr::V4(ip)) if network.has(ip));
    }
    let pattern = host.to_ascii_lowercase();
    let fits = |text: &str| like(pattern.as_bytes(), text.to_ascii_lowercase().as_bytes());
    host.is_empty() || fits(origin.name) || ip.is_some_and(|ip| fits(&ip.to_string()))
}

/// Linear with one place to come back to.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut restart: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                restart = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'_' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match restart {
                Some((star, from)) => {
                    restart = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In MySQL's order: of any two that fit, it takes the first.
    const BY_RANK: [&str; 12] = [
        "127.0.0.1",
        "127.0.0.0/24",
        "127.0.0.0/8",
        "127.0.0.0/255.255.255.0",
        "127.0.0.0/255.0.0.0",
        "localhost",
        "127.0.0.%",
        "local%",
        "127.%",
        "%.1",
        "%",
        "",
    ];

    fn loopback() -> Origin<'static> {
        Origin {
            name: "localhost",
            ip: Some(Ipv4Addr::LOCALHOST.into()),
        }
    }

    #[test]
    fn the_most_special_host_is_first() {
        assert!(BY_RANK.is_sorted_by(|a, b| rank(a) < rank(b)));
        assert!(BY_RANK.iter().all(|host| matches(host, loopback())));
    }

    #[test]
    fn hosts_are_addresses_networks_and_patterns() {
        for host in [
            "127.0.0._",
            "%.0.0.1",
            "127.0.0.1/32",
            "127.0.0.1/255.255.255.255",
            "127.0.0.01",
            "LOCALHOST",
        ] {
            assert!(matches(host, loopback()), "{host}");
        }
        for host in [
            "127.0.0.1/8",
            "127.0.0.1/255.255.255.0",
            "128.0.0.0/8",
            "127.0.0.0/33",
            "127.0.0.0/",
            "127.0.0/8",
            "0.0.0.0/0",
            "127.0.0.1/0",
            "::1",
            "127.0.0.0/0.0.255.255",
            "0.0.0.1/0.0.0.255",
            "127.0.0",
            "10.%",
        ] {
            assert!(!matches(host, loopback()), "{host}");
        }
    }

    #[test]
    fn a_unix_socket_has_a_name_and_no_address() {
        let socket = Origin {
            name: "localhost",
            ip: None,
        };
        assert!(matches("localhost", socket) && matches("%", socket) && matches("", socket));
        assert!(!matches("127.0.0.1", socket) && !matches("127.%", socket));
    }

    #[test]
    fn addresses_of_version_6_are_texts() {
        let from = |ip: &'static str| Origin {
            name: ip,
            ip: ip.parse().ok(),
        };
        assert!(matches("fe80::1", from("fe80::1")) && matches("fe80::%", from("fe80::1")));
        assert!(matches("10.1.2.0/24", from("::ffff:10.1.2.3")));
        assert!(!matches("10.1.2.0/24", from("fe80::1")));
    }

    #[test]
    fn patterns() {
        assert!(like(b"%", b""));
        assert!(like(b"10.%.3", b"10.1.2.3"));
        assert!(!like(b"10.%.3", b"10.1.2.4"));
        assert!(like(b"h_st", b"host"));
        assert!(!like(b"", b"x"));
    }
}
