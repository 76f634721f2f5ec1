//! Character sets, and conversion between them and UTF-8.
//!
//! Neighbours: the wire layer and casts convert at the edges; inside, text is UTF-8 (`utf8`). `byte_sets`, `multibyte`,
//! `gb18030` and `wide` have the tables and rules of the character sets that store something else.
//! **Invariants**: whatever a set can decode it can encode again; nothing panics on malformed input.

use std::borrow::Cow;

use super::byte_sets::ByteSet;
use super::gb18030::{self, Gb18030};
use super::list::Collation;
use super::multibyte::{self, MultiSet};
use super::utf8::{char_count, char_len, decode_char, valid_utf8};
use super::wide::Wide;

/// How a character set stores characters.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Form {
    /// Bytes without a meaning.
    Bytes,
    /// UTF-8.
    Utf8,
    /// One byte below 128 each.
    Ascii,
    /// One byte each; the number in `charsets8.bin`.
    Byte(u8),
    /// One to three bytes each; the number in `MULTIBYTE`.
    Multi(u8),
    /// One, two or four bytes each.
    Gb18030,
    /// Units of two or four bytes.
    Wide(Wide),
}

/// What SHOW CHARACTER SET says about a character set, and how it works.
#[derive(Debug)]
struct Info {
    name: &'static str,
    description: &'static str,
    min_len: u32,
    max_len: u32,
    default: Collation,
    bin: Collation,
    form: Form,
}

macro_rules! charsets {
    ($($set:ident $name:literal $description:literal $min:literal $max:literal $default:literal $bin:literal
       $form:expr;)*) => {
        /// A character set.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
        pub enum Charset {
            $(#[doc = $description] $set,)*
            /// UTF-8 Unicode
            #[default]
            Utf8mb4,
        }

        impl Charset {
            /// Every character set, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$set,)* Self::Utf8mb4];
        }

        /// By `Charset as usize`.
        const INFOS: &[Info] = &[$(Info {
            name: $name,
            description: $description,
            min_len: $min,
            max_len: $max,
            default: Collation($default),
            bin: Collation($bin),
            form: $form,
        },)* Info {
            name: "utf8mb4",
            description: "UTF-8 Unicode",
            min_len: 1,
            max_len: 4,
            default: Collation(255),
            bin: Collation(46),
            form: Form::Utf8,
        }];
    };
}

// Name, description, shortest and longest character, default collation and that of bytes, form.
charsets! {
    Armscii8 "armscii8" "ARMSCII-8 Armenian" 1 1 32 64 Form::Byte(0);
    Ascii "ascii" "US ASCII" 1 1 11 65 Form::Ascii;
    Big5 "big5" "Big5 Traditional Chinese" 1 2 1 84 Form::Multi(0);
    Binary "binary" "Binary pseudo charset" 1 1 63 63 Form::Bytes;
    Cp1250 "cp1250" "Windows Central European" 1 1 26 66 Form::Byte(1);
    Cp1251 "cp1251" "Windows Cyrillic" 1 1 51 50 Form::Byte(2);
    Cp1256 "cp1256" "Windows Arabic" 1 1 57 67 Form::Byte(3);
    Cp1257 "cp1257" "Windows Baltic" 1 1 59 58 Form::Byte(4);
    Cp850 "cp850" "DOS West European" 1 1 4 80 Form::Byte(5);
    Cp852 "cp852" "DOS Central European" 1 1 40 81 Form::Byte(6);
    Cp866 "cp866" "DOS Russian" 1 1 36 68 Form::Byte(7);
    Cp932 "cp932" "SJIS for Windows Japanese" 1 2 95 96 Form::Multi(1);
    Dec8 "dec8" "DEC West European" 1 1 3 69 Form::Byte(8);
    Eucjpms "eucjpms" "UJIS for Windows Japanese" 1 3 97 98 Form::Multi(2);
    Euckr "euckr" "EUC-KR Korean" 1 2 19 85 Form::Multi(3);
    Gb18030 "gb18030" "China National Standard GB18030" 1 4 248 249 Form::Gb18030;
    Gb2312 "gb2312" "GB2312 Simplified Chinese" 1 2 24 86 Form::Multi(4);
    Gbk "gbk" "GBK Simplified Chinese" 1 2 28 87 Form::Multi(5);
    Geostd8 "geostd8" "GEOSTD8 Georgian" 1 1 92 93 Form::Byte(9);
    Greek "greek" "ISO 8859-7 Greek" 1 1 25 70 Form::Byte(10);
    Hebrew "hebrew" "ISO 8859-8 Hebrew" 1 1 16 71 Form::Byte(11);
    Hp8 "hp8" "HP West European" 1 1 6 72 Form::Byte(12);
    Keybcs2 "keybcs2" "DOS Kamenicky Czech-Slovak" 1 1 37 73 Form::Byte(13);
    Koi8r "koi8r" "KOI8-R Relcom Russian" 1 1 7 74 Form::Byte(14);
    Koi8u "koi8u" "KOI8-U Ukrainian" 1 1 22 75 Form::Byte(15);
    Latin1 "latin1" "cp1252 West European" 1 1 8 47 Form::Byte(16);
    Latin2 "latin2" "ISO 8859-2 Central European" 1 1 9 77 Form::Byte(17);
    Latin5 "latin5" "ISO 8859-9 Turkish" 1 1 30 78 Form::Byte(18);
    Latin7 "latin7" "ISO 8859-13 Baltic" 1 1 41 79 Form::Byte(19);
    Macce "macce" "Mac Central European" 1 1 38 43 Form::Byte(20);
    Macroman "macroman" "Mac West European" 1 1 39 53 Form::Byte(21);
    Sjis "sjis" "Shift-JIS Japanese" 1 2 13 88 Form::Multi(6);
    Swe7 "swe7" "7bit Swedish" 1 1 10 82 Form::Byte(22);
    Tis620 "tis620" "TIS620 Thai" 1 1 18 89 Form::Byte(23);
    Ucs2 "ucs2" "UCS-2 Unicode" 2 2 35 90 Form::Wide(Wide::Ucs2);
    Ujis "ujis" "EUC-JP Japanese" 1 3 12 91 Form::Multi(7);
    Utf16 "utf16" "UTF-16 Unicode" 2 4 54 55 Form::Wide(Wide::Utf16);
    Utf16le "utf16le" "UTF-16LE Unicode" 2 4 56 62 Form::Wide(Wide::Utf16le);
    Utf32 "utf32" "UTF-32 Unicode" 4 4 60 61 Form::Wide(Wide::Utf32);
    Utf8mb3 "utf8mb3" "UTF-8 Unicode" 1 3 33 83 Form::Utf8;
}

/// Where a conversion met something it cannot represent: the byte offset in its input.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BadChar(pub usize);

impl Charset {
    fn info(self) -> &'static Info {
        &INFOS[self as usize]
    }

    /// MySQL's name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// `Description` of SHOW CHARACTER SET.
    pub fn description(self) -> &'static str {
        self.info().description
    }

    /// Least bytes a character takes.
    pub fn min_len(self) -> u32 {
        self.info().min_len
    }

    /// Most bytes a character takes.
    pub fn max_len(self) -> u32 {
        self.info().max_len
    }

    /// Its default collation.
    pub fn default_collation(self) -> Collation {
        self.info().default
    }

    /// Its collation by bytes or code points.
    pub fn bin_collation(self) -> Collation {
        self.info().bin
    }

    /// The character set of this name, any case; `utf8` is utf8mb3, as in MySQL 8.4.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Self::Utf8mb3);
        }
        let mut all = Self::ALL.iter().copied();
        all.find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// Does it store texts as they are inside?
    pub fn stores_utf8(self) -> bool {
        matches!(self.info().form, Form::Bytes | Form::Utf8 | Form::Ascii)
    }

    /// Does it hold characters of all scripts?
    pub fn is_unicode(self) -> bool {
        matches!(self.info().form, Form::Utf8 | Form::Wide(_))
    }

    /// May a client send statements in it? Its characters may not all be longer than the bytes of ASCII.
    pub fn of_clients(self) -> bool {
        self.min_len() == 1
    }

    /// Is it one of the sets of East Asia, in which a character has one byte or several?
    pub fn is_of_several_bytes(self) -> bool {
        matches!(self.info().form, Form::Multi(_) | Form::Gb18030)
    }

    /// The set's table, if it is one of single bytes.
    pub(super) fn byte_set(self) -> Option<&'static ByteSet> {
        self.byte_set_number().map(ByteSet::get)
    }

    /// The number of its table, if it is a set of single bytes.
    pub(super) fn byte_set_number(self) -> Option<u8> {
        match self.info().form {
            Form::Byte(number) => Some(number),
            _ => None,
        }
    }

    /// The set's table, if it is a multi-byte one.
    pub(super) fn multi_set(self) -> Option<&'static MultiSet> {
        self.multi_set_number().map(MultiSet::get)
    }

    /// The number of its table, if it is a multi-byte set.
    pub(super) fn multi_set_number(self) -> Option<u8> {
        match self.info().form {
            Form::Multi(number) => Some(number),
            _ => None,
        }
    }

    /// Length of the code of several bytes at the start of `bytes` in a multi-byte set, whether or not it is a
    /// character: half of it is neither a quote nor a separator. 0 where there is none, and in all other sets.
    pub fn code_len(self, bytes: &[u8]) -> usize {
        match self.info().form {
            Form::Multi(number) => multibyte::code_len(number, bytes),
            Form::Gb18030 => gb18030::code_len(bytes),
            _ => 0,
        }
    }

    /// Are ASCII's bytes the same characters in it?
    pub fn keeps_ascii(self) -> bool {
        self.min_len() == 1 && self != Self::Swe7
    }

    /// Length of the character at the start of `bytes`, at least 1 but for no bytes; single bytes of a binary string.
    pub fn first_len(self, bytes: &[u8]) -> usize {
        match self {
            Self::Binary => bytes.len().min(1),
            _ if bytes.is_empty() => 0,
            _ => self.decode_first(bytes).1,
        }
    }

    /// Bytes with zeros in front as far as the first unit of the character set lacks them: `_utf16 X'41'` is an A.
    pub fn whole_units(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        let unit = self.min_len() as usize;
        match bytes.len() % unit {
            0 => Cow::Borrowed(bytes),
            over => Cow::Owned([&vec![0; unit - over], bytes].concat()),
        }
    }

    /// Appends a character; false if it does not exist in the set.
    fn encode_char(self, c: char, out: &mut Vec<u8>) -> bool {
        match self.info().form {
            Form::Utf8 | Form::Ascii | Form::Bytes => {
                let has = self.has(c);
                if has {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                has
            }
            Form::Byte(number) => {
                let byte = ByteSet::get(number).byte_of(u32::from(c));
                out.extend(byte);
                byte.is_some()
            }
            // Some of the tables have a second code for a character of ASCII.
            Form::Multi(_) if c.is_ascii() => {
                out.push(c as u8);
                true
            }
            Form::Multi(number) => {
                let bytes = MultiSet::get(number).bytes_of(u32::from(c));
                if let Some((bytes, len)) = bytes {
                    out.extend_from_slice(&bytes[..len]);
                }
                bytes.is_some()
            }
            Form::Gb18030 => {
                let bytes = Gb18030::get().bytes_of(u32::from(c));
                if let Some((bytes, len)) = bytes {
                    out.extend_from_slice(&bytes[..len]);
                }
                bytes.is_some()
            }
            Form::Wide(wide) => wide.encode(c, out),
        }
    }

    /// The character at the start of `bytes`, which is not empty, and its length; `None` for what is no character.
    pub fn decode_first(self, bytes: &[u8]) -> (Option<char>, usize) {
        match self.info().form {
            Form::Utf8 | Form::Ascii | Form::Bytes => {
                let (cp, len) = decode_char(bytes);
                (cp.and_then(char::from_u32).filter(|c| self.has(*c)), len)
            }
            Form::Byte(number) => (ByteSet::get(number).char_of(bytes[0]), 1),
            Form::Multi(number) => MultiSet::get(number).decode(bytes),
            Form::Gb18030 => Gb18030::get().decode(bytes),
            Form::Wide(wide) => wide.decode(bytes),
        }
    }

    /// Can a set that stores UTF-8 represent this character?
    fn has(self, c: char) -> bool {
        match self {
            Self::Utf8mb3 => u32::from(c) < 0x1_0000,
            Self::Ascii => c.is_ascii(),
            _ => true,
        }
    }

    /// UTF-8 to this character set; the error is the first character that does not exist in it.
    pub fn encode(self, utf8: &[u8]) -> Result<Cow<'_, [u8]>, BadChar> {
        if self == Self::Binary || (self.keeps_ascii() && utf8.is_ascii()) {
            return Ok(Cow::Borrowed(utf8));
        }
        if self.stores_utf8() {
            return self
                .first_bad(utf8)
                .map_or(Ok(Cow::Borrowed(utf8)), |at| Err(BadChar(at)));
        }
        let mut out = Vec::with_capacity(utf8.len());
        match self.encode_from(utf8, 0, &mut out) {
            None => Ok(Cow::Owned(out)),
            Some(at) => Err(BadChar(at)),
        }
    }

    /// UTF-8 to this character set with `?` for what does not exist in it, as MySQL converts.
    pub fn encode_lossy(self, utf8: &[u8]) -> Cow<'_, [u8]> {
        if let Ok(encoded) = self.encode(utf8) {
            return encoded;
        }
        let mut out = Vec::with_capacity(utf8.len());
        let mut at = 0;
        while let Some(bad) = self.encode_from(utf8, at, &mut out) {
            self.encode_char('?', &mut out);
            at = bad + char_len(&utf8[bad..]);
        }
        Cow::Owned(out)
    }

    /// Appends the characters from `at` on, to the first that does not exist in this set: its offset.
    fn encode_from(self, utf8: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
        while at < utf8.len() {
            let (cp, len) = decode_char(&utf8[at..]);
            match cp.and_then(char::from_u32) {
                Some(c) if self.encode_char(c, out) => at += len,
                _ => return Some(at),
            }
        }
        None
    }

    /// Bytes in this character set to UTF-8; the error is the first byte that is not valid in it.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>, BadChar> {
        if self.stores_utf8() || (self.keeps_ascii() && bytes.is_ascii()) {
            return match self {
                Self::Binary => Ok(Cow::Borrowed(bytes)),
                _ => self
                    .first_bad(bytes)
                    .map_or(Ok(Cow::Borrowed(bytes)), |at| Err(BadChar(at))),
            };
        }
        let mut out = String::with_capacity(bytes.len());
        match self.decode_from(bytes, 0, &mut out) {
            None => Ok(Cow::Owned(out.into_bytes())),
            Some(at) => Err(BadChar(at)),
        }
    }

    /// Bytes in this character set to UTF-8 with `?` for what is not valid in it.
    pub fn decode_lossy(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        if let Ok(text) = self.decode(bytes) {
            return text;
        }
        let mut out = String::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(bad) = self.decode_from(bytes, at, &mut out) {
            out.push('?');
            at = bad + self.decode_first(&bytes[bad..]).1;
        }
        Cow::Owned(out.into_bytes())
    }

    /// A text of characters of this set: what it cannot hold is `?`, as if it had been converted there and back.
    pub fn fit(self, utf8: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Utf8mb4 => utf8,
            _ => self.decode_lossy(&self.encode_lossy(&utf8)).into_owned(),
        }
    }

    /// Appends the characters from `at` on, to the first bytes that are none: their offset.
    fn decode_from(self, bytes: &[u8], mut at: usize, out: &mut String) -> Option<usize> {
        while at < bytes.len() {
            let (c, len) = self.decode_first(&bytes[at..]);
            debug_assert!(len > 0 && at + len <= bytes.len());
            out.push(match c {
                Some(c) => c,
                None => return Some(at),
            });
            at += len;
        }
        None
    }

    /// Bytes that `utf8` takes when stored in this character set (for length rules).
    pub fn encoded_len(self, utf8: &[u8]) -> usize {
        match self.info().form {
            Form::Byte(_) => char_count(utf8),
            Form::Multi(_) | Form::Gb18030 | Form::Wide(_) => self.encode_lossy(utf8).len(),
            Form::Bytes | Form::Utf8 | Form::Ascii => utf8.len(),
        }
    }

    /// Offset of the first malformed or unrepresentable character of a text in a set that stores UTF-8.
    fn first_bad(self, utf8: &[u8]) -> Option<usize> {
        debug_assert!(self.stores_utf8() || utf8.is_ascii());
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
    fn other_sets_convert_as_mysql() {
        let cp1251 = Charset::Cp1251;
        assert_eq!(&*cp1251.encode("жЯ".as_bytes()).unwrap(), b"\xE6\xDF");
        assert_eq!(cp1251.decode(b"a\x98"), Err(BadChar(1)));
        assert_eq!(&*cp1251.decode_lossy(b"\xE6\x98b"), "ж?b".as_bytes());
        assert_eq!(&*Charset::Swe7.decode(b"[").unwrap(), "Ä".as_bytes());
        assert_eq!(Charset::Swe7.encode(b"["), Err(BadChar(0)));
        assert_eq!(
            &*Charset::Utf16.encode("a😀".as_bytes()).unwrap(),
            b"\0a\xD8\x3D\xDE\0"
        );
        assert_eq!(&*Charset::Ucs2.encode_lossy("a😀".as_bytes()), b"\0a\0?");
        assert_eq!(&*Charset::Utf32.decode_lossy(b"\0\0\0a\0"), b"a?");
        assert_eq!(Charset::Utf32.encoded_len("aé".as_bytes()), 8);
        assert_eq!(Charset::Latin1.encoded_len("é".as_bytes()), 1);
    }

    #[test]
    fn multi_byte_sets_convert_as_mysql() {
        let bytes = |set: Charset, text: &str| set.encode(text.as_bytes()).unwrap().into_owned();
        assert_eq!(bytes(Charset::Gbk, "a中"), b"a\xD6\xD0");
        assert_eq!(bytes(Charset::Big5, "功"), b"\xA5\x5C");
        assert_eq!(bytes(Charset::Sjis, "ｱ表"), b"\xB1\x95\x5C");
        assert_eq!(bytes(Charset::Sjis, "\\表"), b"\\\x95\x5C");
        assert_eq!(bytes(Charset::Ujis, "ｱ丂"), b"\x8E\xB1\x8F\xB0\xA1");
        assert_eq!(bytes(Charset::Euckr, "한"), b"\xC7\xD1");
        assert_eq!(Charset::Gb2312.encode("a€".as_bytes()), Err(BadChar(1)));
        assert_eq!(Charset::Ujis.encoded_len("a丂".as_bytes()), 4);
        assert_eq!(
            &*Charset::Gbk.decode_lossy(b"\xD6\xD0\xD6"),
            "中?".as_bytes()
        );
        assert_eq!(&*Charset::Sjis.decode_lossy(b"\x95'a"), "?'a".as_bytes());
    }

    #[test]
    fn the_list_is_consistent() {
        assert_eq!(Charset::by_name("UTF8"), Some(Charset::Utf8mb3));
        assert_eq!(Charset::by_name("klingon"), None);
        assert!(Charset::ALL.is_sorted_by_key(|c| c.name()));
        for charset in Charset::ALL.iter().copied() {
            assert_eq!(Charset::by_name(charset.name()), Some(charset));
            assert_eq!(charset.default_collation().charset(), charset);
            assert_eq!(charset.bin_collation().charset(), charset);
        }
    }
}
