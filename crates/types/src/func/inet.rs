//! Network addresses as text and numbers.
//!
//! Neighbours: `std::net` parses IPv6 and writes both.
//! **Invariant**: what is not an address gives NULL (0 for the IS_ functions).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::call::{Call, int, string};
use super::ret::{binary, int as ret_int, text, uint_null};
use super::{FuncDef, PURE, def};
use crate::error::SqlResult;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("inet_aton", 1, 1, PURE, uint_null::<21>, inet_aton),
    def("inet_ntoa", 1, 1, PURE, text::<31>, inet_ntoa),
    def("inet6_aton", 1, 1, PURE, binary::<16>, inet6_aton),
    def("inet6_ntoa", 1, 1, PURE, text::<39>, inet6_ntoa),
    def("is_ipv4", 1, 1, PURE, ret_int::<1>, is_ipv4),
    def("is_ipv6", 1, 1, PURE, ret_int::<1>, is_ipv6),
    def("is_ipv4_compat", 1, 1, PURE, ret_int::<1>, is_ipv4_compat),
    def("is_ipv4_mapped", 1, 1, PURE, ret_int::<1>, is_ipv4_mapped),
];

/// INET_ATON takes short forms: 127.1 is 127.0.0.1.
fn inet_aton(c: &Call) -> SqlResult<Value> {
    let text = c.text(0);
    let parsed = parse_short_v4(&text);
    if parsed.is_none() {
        super::incorrect_string(c, &text, "inet_aton")?;
    }
    Ok(parsed.map_or(Value::Null, |n| Value::UInt(u64::from(n))))
}

fn parse_short_v4(text: &[u8]) -> Option<u32> {
    let mut parts = Vec::new();
    for part in text.split(|b| *b == b'.') {
        if parts.len() == 4 || !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = part.iter().try_fold(0_u32, |n, b| {
            Some(n * 10 + u32::from(b - b'0')).filter(|n| *n <= 255)
        })?;
        parts.push(number);
    }
    // The last part must not be empty; missing middle parts are zero.
    if text.is_empty() || text.ends_with(b".") {
        return None;
    }
    let last = parts.pop()?;
    parts.resize(3, 0);
    Some(parts.iter().fold(0, |n, p| n << 8 | p) << 8 | last)
}

fn inet_ntoa(c: &Call) -> SqlResult<Value> {
    match u32::try_from(c.integer(0)?) {
        Ok(n) => string(Ipv4Addr::from(n).to_string()),
        Err(_) => {
            super::incorrect_string(c, &c.text(0), "inet_ntoa")?;
            Ok(Value::Null)
        }
    }
}

fn parse_v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split(|b| *b == b'.');
    for octet in &mut octets {
        let part = parts.next().filter(|p| (1..=3).contains(&p.len()))?;
        *octet = part.iter().try_fold(0_u32, |n, b| {
            b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0'))
        })?;
    }
    if parts.next().is_some() {
        return None;
    }
    let [a, b, c, d] = octets.map(u8::try_from);
    Some(Ipv4Addr::new(a.ok()?, b.ok()?, c.ok()?, d.ok()?))
}

/// Its last two groups may be written as an IPv4 address, whose numbers may have zeros in front.
fn parse_v6(text: &[u8]) -> Option<Ipv6Addr> {
    let text = std::str::from_utf8(text).ok()?;
    match text.rsplit_once(':') {
        Some((groups, end)) if end.contains('.') => {
            let v4 = parse_v4(end.as_bytes())?;
            format!("{groups}:{v4}").parse().ok()
        }
        _ => text.parse().ok(),
    }
}

fn inet6_aton(c: &Call) -> SqlResult<Value> {
    let text = c.text(0);
    if let Some(v4) = parse_v4(&text) {
        return string(v4.octets());
    }
    if let Some(v6) = parse_v6(&text) {
        return string(v6.octets());
    }
    super::incorrect_string(c, &text, "inet6_aton")?;
    Ok(Value::Null)
}

/// The address in a byte string of 16 bytes.
fn v6_bytes(c: &Call) -> Option<Ipv6Addr> {
    if !c.is_binary(0) {
        return None;
    }
    <[u8; 16]>::try_from(&*c.text(0)).ok().map(Ipv6Addr::from)
}

fn inet6_ntoa(c: &Call) -> SqlResult<Value> {
    if let Some(v6) = v6_bytes(c) {
        return string(write_v6(v6));
    }
    let bytes = c.text(0);
    match <[u8; 4]>::try_from(&*bytes) {
        Ok(v4) if c.is_binary(0) => string(Ipv4Addr::from(v4).to_string()),
        _ => {
            super::incorrect_string(c, &bytes, "inet6_ntoa")?;
            Ok(Value::Null)
        }
    }
}

/// As RFC 5952, but that a single zero is shortened, too, and with a dotted tail for compatible addresses
/// (`::1.2.3.4`).
fn write_v6(v6: Ipv6Addr) -> String {
    let n = u128::from(v6);
    if n >> 32 == 0 && n >> 16 != 0 {
        return format!("::{}", Ipv4Addr::from(n as u32));
    }
    let segments = v6.segments();
    match segments.iter().position(|s| *s == 0) {
        Some(zero) if is_alone(&segments) && v6.to_ipv4_mapped().is_none() => {
            let hex = |part: &[u16]| {
                let words: Vec<_> = part.iter().map(|s| format!("{s:x}")).collect();
                words.join(":")
            };
            format!("{}::{}", hex(&segments[..zero]), hex(&segments[zero + 1..]))
        }
        _ => v6.to_string(),
    }
}

/// Is no zero beside another?
fn is_alone(segments: &[u16; 8]) -> bool {
    !segments.windows(2).any(|pair| pair == [0, 0])
}

fn is_ipv4(c: &Call) -> SqlResult<Value> {
    int(i64::from(parse_v4(&c.text(0)).is_some()))
}

fn is_ipv6(c: &Call) -> SqlResult<Value> {
    int(i64::from(parse_v6(&c.text(0)).is_some()))
}

fn is_ipv4_compat(c: &Call) -> SqlResult<Value> {
    int(i64::from(v6_bytes(c).is_some_and(|a| {
        u128::from(a) >> 32 == 0 && u128::from(a) > 0xFFFF
    })))
}

fn is_ipv4_mapped(c: &Call) -> SqlResult<Value> {
    int(i64::from(
        v6_bytes(c).is_some_and(|a| a.to_ipv4_mapped().is_some()),
    ))
}
