//! Character sets, and conversion between them and UTF-8.
//!
//! Neighbours: the wire layer and casts convert at the edges; inside, text is UTF-8.
//! **Invariants**: latin1 is MySQL's (cp1252 with the five holes mapped to their C1 controls), so
//! every byte decodes and `encode(decode(b)) == b`; nothing panics on malformed input.

use std::borrow::Cow;

use super::list::Collation;

/// A character set.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Charset {
    /// Bytes.
    Binary,
    /// All of Unicode.
    Utf8mb4,
    /// The basic multilingual plane.
    Utf8mb3,
    /// Western European (cp1252).
    Latin1,
    /// 7 bit.
    Ascii,
}

/// Where a conversion met something it cannot represent: the byte offset in its input.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BadChar(pub usize);

/// cp1252 in 0x80..0xA0; the holes map to themselves.
const CP1252: [u16; 32] = [
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
    0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178,
];

/// The latin1 byte of a code point.
pub(super) fn to_latin1(cp: u32) -> Option<u8> {
    match cp {
        0..0x80 | 0xA0..0x100 => Some(cp as u8),
        _ => CP1252
            .iter()
            .position(|&c| u32::from(c) == cp)
            .map(|i| 0x80 + i as u8),
    }
}

/// The code point of a latin1 byte.
fn from_latin1(byte: u8) -> char {
    let cp = match byte {
        0x80..0xA0 => u32::from(CP1252[usize::from(byte - 0x80)]),
        _ => u32::from(byte),
    };
    char::from_u32(cp).unwrap_or(char::REPLACEMENT_CHARACTER)
}

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

impl Charset {
    /// Every character set, sorted by name.
    pub const ALL: [Charset; 5] = [
        Self::Ascii,
        Self::Binary,
        Self::Latin1,
        Self::Utf8mb3,
        Self::Utf8mb4,
    ];

    /// MySQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Utf8mb4 => "utf8mb4",
            Self::Utf8mb3 => "utf8mb3",
            Self::Latin1 => "latin1",
            Self::Ascii => "ascii",
        }
    }

    /// `Description` of SHOW CHARACTER SET.
    pub fn description(self) -> &'static str {
        match self {
            Self::Binary => "Binary pseudo charset",
            Self::Utf8mb4 => "UTF-8 Unicode",
            Self::Utf8mb3 => "UTF-8 Unicode",
            Self::Latin1 => "cp1252 West European",
            Self::Ascii => "US ASCII",
        }
    }

    /// Most bytes a character takes.
    pub fn max_len(self) -> u32 {
        match self {
            Self::Utf8mb4 => 4,
            Self::Utf8mb3 => 3,
            Self::Binary | Self::Latin1 | Self::Ascii => 1,
        }
    }

    /// Its default collation.
    pub fn default_collation(self) -> Collation {
        match self {
            Self::Binary => Collation::BINARY,
            Self::Utf8mb4 => Collation::UTF8MB4_0900_AI_CI,
            Self::Utf8mb3 => Collation::UTF8MB3_GENERAL_CI,
            Self::Latin1 => Collation::LATIN1_SWEDISH_CI,
            Self::Ascii => Collation::ASCII_GENERAL_CI,
        }
    }

    /// The character set of this name, any case; `utf8` is utf8mb3, as in MySQL 8.4.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Self::Utf8mb3);
        }
        Self::ALL
            .into_iter()
            .find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// Can it represent this code point?
    pub fn has(self, c: char) -> bool {
        match self {
            Self::Binary | Self::Utf8mb4 => true,
            Self::Utf8mb3 => u32::from(c) < 0x1_0000,
            Self::Latin1 => to_latin1(u32::from(c)).is_some(),
            Self::Ascii => c.is_ascii(),
        }
    }

    /// UTF-8 to this character set; the error is the first character that does not exist in it.
    pub fn encode(self, utf8: &[u8]) -> Result<Cow<'_, [u8]>, BadChar> {
        if self == Self::Binary || utf8.is_ascii() {
            return Ok(Cow::Borrowed(utf8));
        }
        self.first_bad(utf8)
            .map_or_else(|| Ok(self.encode_lossy(utf8)), |at| Err(BadChar(at)))
    }

    /// UTF-8 to this character set with `?` for what does not exist in it, as MySQL converts.
    pub fn encode_lossy(self, utf8: &[u8]) -> Cow<'_, [u8]> {
        if self == Self::Binary
            || utf8.is_ascii()
            || self.first_bad(utf8).is_none() && self.is_utf8()
        {
            return Cow::Borrowed(utf8);
        }
        let mut out = Vec::with_capacity(utf8.len());
        let mut at = 0;
        while at < utf8.len() {
            let (cp, len) = decode_char(&utf8[at..]);
            match cp.and_then(char::from_u32).filter(|c| self.has(*c)) {
                Some(c) if self == Self::Latin1 => {
                    out.push(to_latin1(u32::from(c)).unwrap_or(b'?'));
                }
                Some(_) => out.extend_from_slice(&utf8[at..at + len]),
                None => out.push(b'?'),
            }
            at += len;
        }
        Cow::Owned(out)
    }

    /// Bytes in this character set to UTF-8; the error is the first byte that is not valid in it.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>, BadChar> {
        match self {
            Self::Binary => Ok(Cow::Borrowed(bytes)),
            Self::Latin1 if bytes.is_ascii() => Ok(Cow::Borrowed(bytes)),
            Self::Latin1 => {
                let text: String = bytes.iter().map(|b| from_latin1(*b)).collect();
                Ok(Cow::Owned(text.into_bytes()))
            }
            Self::Ascii | Self::Utf8mb3 | Self::Utf8mb4 => match self.first_bad(bytes) {
                None => Ok(Cow::Borrowed(bytes)),
                Some(at) => Err(BadChar(at)),
            },
        }
    }

    /// Bytes in this character set to UTF-8 with `?` for what is not valid in it.
    pub fn decode_lossy(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self.decode(bytes) {
            Ok(text) => text,
            Err(_) => self.encode_lossy(bytes),
        }
    }

    /// Bytes that `utf8` takes when stored in this character set (for length rules).
    pub fn encoded_len(self, utf8: &[u8]) -> usize {
        match self {
            Self::Latin1 => char_count(utf8),
            _ => utf8.len(),
        }
    }

    fn is_utf8(self) -> bool {
        matches!(self, Self::Utf8mb3 | Self::Utf8mb4)
    }

    /// Offset of the first malformed or unrepresentable character of a UTF-8 string.
    fn first_bad(self, utf8: &[u8]) -> Option<usize> {
        let valid = valid_utf8(utf8);
        let bad = (valid < utf8.len()).then_some(valid);
        if self == Self::Utf8mb4 {
            return bad;
        }
        let mut at = 0;
        while at < valid {
            let (cp, len) = decode_char(&utf8[at..]);
            if !cp.and_then(char::from_u32).is_some_and(|c| self.has(c)) {
                return Some(at);
            }
            at += len;
        }
        bad
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
    fn latin1_round_trips_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = Charset::Latin1.decode(&bytes).unwrap();
        assert_eq!(&*Charset::Latin1.encode(&text).unwrap(), &bytes[..]);
        assert_eq!(&*Charset::Latin1.decode(b"\x80").unwrap(), "€".as_bytes());
        assert_eq!(Charset::Latin1.encode("a漢".as_bytes()), Err(BadChar(1)));
        assert_eq!(
            &*Charset::Latin1.encode_lossy("é漢€".as_bytes()),
            b"\xE9?\x80"
        );
    }

    #[test]
    fn utf8mb3_refuses_what_needs_four_bytes() {
        assert_eq!(Charset::Utf8mb3.encode("a😀".as_bytes()), Err(BadChar(1)));
        assert_eq!(
            &*Charset::Utf8mb3.encode_lossy("é😀".as_bytes()),
            "é?".as_bytes()
        );
        assert!(Charset::Utf8mb4.encode("a😀".as_bytes()).is_ok());
        assert_eq!(Charset::Utf8mb4.decode(b"ab\xFF"), Err(BadChar(2)));
        assert_eq!(&*Charset::Utf8mb4.decode_lossy(b"ab\xFFc"), b"ab?c");
    }

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
        assert_eq!(Charset::by_name("UTF8"), Some(Charset::Utf8mb3));
        assert_eq!(Charset::Latin1.encoded_len("é".as_bytes()), 1);
    }
}
