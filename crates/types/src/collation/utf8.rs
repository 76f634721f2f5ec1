//! UTF-8, in which all text is inside: characters, their number and offsets.
//!
//! Neighbours: `charset` converts to and from it; `order`, `case` and `pattern` walk characters with [`decode_char`].
//! **Invariant**: malformed input never panics; a byte that starts no character counts as one.

/// Length in bytes of the longest valid UTF-8 prefix.
pub fn valid_utf8(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(e) => e.valid_up_to(),
    }
}

/// Length in bytes (at least 1) of the character at the start of `bytes`, which is not empty;
/// a byte that starts no character counts as one.
pub fn char_len(bytes: &[u8]) -> usize {
    decode_char(bytes).1
}

/// Code point and length of the character at the start of `bytes`, which is not empty; `None` with
/// length 1 for a byte that starts no valid character.
pub(super) fn decode_char(bytes: &[u8]) -> (Option<u32>, usize) {
    let b0 = bytes[0];
    if b0 < 0x80 {
        return (Some(u32::from(b0)), 1);
    }
    let cont = |i: usize| {
        bytes
            .get(i)
            .filter(|b| **b & 0xC0 == 0x80)
            .map(|b| u32::from(b & 0x3F))
    };
    let b = u32::from(b0);
    match b0 {
        0xC2..0xE0 => match cont(1) {
            Some(c1) => (Some((b & 0x1F) << 6 | c1), 2),
            None => (None, 1),
        },
        0xE0..0xF0 => match (cont(1), cont(2)) {
            (Some(c1), Some(c2)) => {
                let cp = (b & 0x0F) << 12 | c1 << 6 | c2;
                if cp < 0x800 || (0xD800..0xE000).contains(&cp) {
                    (None, 1)
                } else {
                    (Some(cp), 3)
                }
            }
            _ => (None, 1),
        },
        0xF0..0xF5 => match (cont(1), cont(2), cont(3)) {
            (Some(c1), Some(c2), Some(c3)) => {
                let cp = (b & 0x07) << 18 | c1 << 12 | c2 << 6 | c3;
                if (0x1_0000..0x11_0000).contains(&cp) {
                    (Some(cp), 4)
                } else {
                    (None, 1)
                }
            }
            _ => (None, 1),
        },
        _ => (None, 1),
    }
}

/// Number of characters of a UTF-8 string (malformed bytes count as one each).
pub fn char_count(utf8: &[u8]) -> usize {
    match std::str::from_utf8(utf8) {
        Ok(text) => text.chars().count(),
        Err(_) => {
            let (mut at, mut n) = (0, 0);
            while at < utf8.len() {
                at += char_len(&utf8[at..]);
                n += 1;
            }
            n
        }
    }
}

/// Byte offset of character number `chars` (0-based), or the length of the string when it has fewer.
pub fn char_offset(utf8: &[u8], chars: usize) -> usize {
    if utf8.is_ascii() {
        return chars.min(utf8.len());
    }
    let (mut at, mut n) = (0, 0);
    while at < utf8.len() && n < chars {
        at += char_len(&utf8[at..]);
        n += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_decoded_as_std_does() {
        for cp in (0..0x11_0000).filter_map(char::from_u32) {
            let mut buf = [0; 4];
            let s = cp.encode_utf8(&mut buf).as_bytes();
            assert_eq!(decode_char(s), (Some(u32::from(cp)), s.len()));
        }
        for bad in [
            &b"\x80"[..],
            b"\xC0\x80",
            b"\xC1\xBF",
            b"\xE0\x80\x80",
            b"\xED\xA0\x80",
        ] {
            assert_eq!(decode_char(bad), (None, 1));
        }
        for bad in [
            &b"\xF0\x80\x80\x80"[..],
            b"\xF4\x90\x80\x80",
            b"\xF5\x80\x80\x80",
            b"\xE2\x82",
        ] {
            assert_eq!(decode_char(bad), (None, 1));
        }
    }

    #[test]
    fn counting_and_offsets() {
        assert_eq!(char_count("aé漢😀".as_bytes()), 4);
        assert_eq!(char_count(b"a\xFFb"), 3);
        assert_eq!(char_offset("aé漢".as_bytes(), 2), 3);
        assert_eq!(char_offset("aé漢".as_bytes(), 9), 6);
    }
}
