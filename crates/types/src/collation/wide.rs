//! UTF-16, UCS-2 and UTF-32: character sets whose units are wider than a byte.
//!
//! Neighbours: `charset` converts with them. Like all text theirs is UTF-8 inside.
//! **Invariant**: units that are no character (halves of a pair alone, codes above U+10FFFF) are refused, in UCS-2 too.

/// How code points become bytes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Wide {
    /// Two bytes, the basic plane only.
    Ucs2,
    /// Two or four bytes, the high one first.
    Utf16,
    /// Two or four bytes, the low one first.
    Utf16le,
    /// Four bytes, the high one first.
    Utf32,
}

impl Wide {
    /// Appends a character; false if it does not exist in the set.
    pub(super) fn encode(self, c: char, out: &mut Vec<u8>) -> bool {
        let mut units = [0; 2];
        match self {
            Self::Ucs2 if u32::from(c) > 0xFFFF => return false,
            Self::Ucs2 | Self::Utf16 => {
                for unit in c.encode_utf16(&mut units) {
                    out.extend_from_slice(&unit.to_be_bytes());
                }
            }
            Self::Utf16le => {
                for unit in c.encode_utf16(&mut units) {
                    out.extend_from_slice(&unit.to_le_bytes());
                }
            }
            Self::Utf32 => out.extend_from_slice(&u32::from(c).to_be_bytes()),
        }
        true
    }

    /// The character at the start of `bytes`, which is not empty, and its length; `None` for units that are none.
    pub(super) fn decode(self, bytes: &[u8]) -> (Option<char>, usize) {
        if self == Self::Utf32 {
            return match bytes.first_chunk() {
                Some(code) => (char::from_u32(u32::from_be_bytes(*code)), 4),
                None => (None, bytes.len()),
            };
        }
        let unit = |at: usize| -> Option<u16> {
            let two = *bytes.get(at..)?.first_chunk()?;
            Some(match self {
                Self::Utf16le => u16::from_le_bytes(two),
                _ => u16::from_be_bytes(two),
            })
        };
        let Some(first) = unit(0) else {
            return (None, bytes.len());
        };
        if let Some(c) = char::from_u32(u32::from(first)) {
            return (Some(c), 2);
        }
        let second = unit(2).filter(|_| self != Self::Ucs2);
        let pair = second.map(|second| char::decode_utf16([first, second]).next());
        match pair {
            Some(Some(Ok(c))) => (Some(c), 4),
            _ => (None, 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_round_trips() {
        for wide in [Wide::Ucs2, Wide::Utf16, Wide::Utf16le, Wide::Utf32] {
            for c in (0..0x11_0000).filter_map(char::from_u32) {
                let mut bytes = Vec::new();
                assert_eq!(
                    wide.encode(c, &mut bytes),
                    wide != Wide::Ucs2 || c < '\u{10000}'
                );
                if !bytes.is_empty() {
                    assert_eq!(wide.decode(&bytes), (Some(c), bytes.len()));
                }
            }
        }
    }

    #[test]
    fn what_is_no_character_is_refused() {
        assert_eq!(Wide::Utf16.decode(b"\xD8\x3D"), (None, 2));
        assert_eq!(Wide::Utf16.decode(b"\xD8\x3D\0a"), (None, 2));
        assert_eq!(Wide::Utf16.decode(b"\xDE\x00\xD8\x3D"), (None, 2));
        assert_eq!(Wide::Ucs2.decode(b"\xD8\x3D\xDE\x00"), (None, 2));
        assert_eq!(Wide::Utf16le.decode(b"\x3D\xD8\x00\xDE"), (Some('😀'), 4));
        assert_eq!(Wide::Utf32.decode(b"\0\x11\0\0"), (None, 4));
        assert_eq!(Wide::Utf32.decode(b"\0\0\0"), (None, 3));
        assert_eq!(Wide::Utf16.decode(b"a"), (None, 1));
    }
}
