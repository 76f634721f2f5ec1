//! From a literal's source bytes to its value.
//!
//! Neighbours: the parser and `digest` call these on tokens.
//! **Invariants**: the input is a token of the named kind, so its quotes and digits are well-formed.

use super::ast::Literal;
use super::lexer::Tok;

/// Contents of a quoted string (`'…'` or `"…"`).
pub(super) fn unescape(quoted: &[u8], no_backslash: bool) -> Vec<u8> {
    let quote = quoted[0];
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.iter().any(|&b| b == b'\\' || b == quote) {
        return inner.to_vec();
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(b) = bytes.next() {
        if b == quote {
            bytes.next();
            out.push(b);
        } else if b == b'\\' && !no_backslash {
            match bytes.next() {
                Some(c) => push_escaped(c, &mut out),
                None => out.push(b),
            }
        } else {
            out.push(b);
        }
    }
    out
}

/// What a backslash and `c` stand for.
pub(super) fn push_escaped(c: u8, out: &mut Vec<u8>) {
    match c {
        b'0' => out.push(0),
        b'b' => out.push(8),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'Z' => out.push(0x1a),
        // Kept for LIKE, which takes them as escaped wildcards.
        b'%' | b'_' => out.extend([b'\\', c]),
        _ => out.push(c),
    }
}

/// Bytes of `0x…`, `x'…'`, `0b…`, `b'…'`.
pub(super) fn bits(tok: Tok, raw: &[u8]) -> Vec<u8> {
    let digits = match tok {
        Tok::HexStr | Tok::BitStr => &raw[2..raw.len() - 1],
        _ => &raw[2..],
    };
    let radix_bits = if matches!(tok, Tok::HexNum | Tok::HexStr) {
        4
    } else {
        1
    };
    let per_byte = 8 / radix_bits;
    let mut out = Vec::with_capacity(digits.len().div_ceil(per_byte));
    let (mut byte, mut have) = (0u8, (per_byte - digits.len() % per_byte) % per_byte);
    for &d in digits {
        let v = match d {
            b'0'..=b'9' => d - b'0',
            _ => (d | 0x20) - b'a' + 10,
        };
        byte = (byte << radix_bits) | v;
        have += 1;
        if have == per_byte {
            out.push(byte);
            (byte, have) = (0, 0);
        }
    }
    out
}

/// An `Int`, `Decimal` or `Float` token.
pub(super) fn number(tok: Tok, raw: &[u8]) -> Literal {
    let text = std::str::from_utf8(raw).unwrap_or("0");
    match tok {
        Tok::Int => match int(raw) {
            Some(v) => Literal::Int(v),
            None => Literal::Decimal(text.into()),
        },
        Tok::Float => Literal::Double(text.parse().unwrap_or(0.0)),
        _ => Literal::Decimal(text.into()),
    }
}

/// Is a `Float` token's value beyond all doubles?
pub(super) fn is_infinite(raw: &[u8]) -> bool {
    matches!(number(Tok::Float, raw), Literal::Double(v) if !v.is_finite())
}

/// Decimal digits that fit 64 bits.
pub(super) fn int(raw: &[u8]) -> Option<u64> {
    let mut v = 0u64;
    for &d in raw {
        v = v.checked_mul(10)?.checked_add(u64::from(d - b'0'))?;
    }
    Some(v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(
            unescape(br"'a\nb\\c\'d''e\%\_\x\0'", false),
            b"a\nb\\c'd'e\\%\\_x\0"
        );
        assert_eq!(unescape(br"'a\nb''c'", true), br"a\nb'c");
        assert_eq!(unescape(br#""it's ""so""""#, false), br#"it's "so""#);
    }

    #[test]
    fn bit_and_hex_strings_pad_on_the_left() {
        assert_eq!(bits(Tok::HexNum, b"0x4D2"), [0x04, 0xd2]);
        assert_eq!(bits(Tok::HexStr, b"x'4d'"), [0x4d]);
        assert_eq!(bits(Tok::HexStr, b"x''"), [0u8; 0]);
        assert_eq!(bits(Tok::BitNum, b"0b101"), [5]);
        assert_eq!(bits(Tok::BitStr, b"b'100000001'"), [1, 1]);
    }

    #[test]
    fn numbers() {
        assert_eq!(
            number(Tok::Int, b"18446744073709551615"),
            Literal::Int(u64::MAX)
        );
        let big = Literal::Decimal("18446744073709551616".into());
        assert_eq!(number(Tok::Int, b"18446744073709551616"), big);
        assert_eq!(number(Tok::Decimal, b".5"), Literal::Decimal(".5".into()));
        assert_eq!(number(Tok::Float, b"1.5e-3"), Literal::Double(0.0015));
    }
}
