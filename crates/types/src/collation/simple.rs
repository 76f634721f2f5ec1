//! The collations with one weight for each character, or few: `*_general_ci`, and those of other character sets than
//! Unicode's.
//!
//! Neighbours: `weights` has [`Weigh`], through which these are read, and the other tables; `byte_sets`, `multibyte`
//! and `gb18030` say which byte or code a character is.
//!
//! Formats, as in `weights`:
//! - `general_ci.bin`: `varint(code point - previous)`, `varint(zigzag(weight - code point))` where
//!   the weight is not the code point.
//! - `collations8.bin`: for each collation of single bytes 256 weights, the number of bytes that have a second one,
//!   and each of these bytes with it.
//!
//! **Invariants**: the files never change (a test holds their checksums); what a character set lacks sorts last.

use std::sync::{LazyLock, OnceLock};

use super::Charset;
use super::byte_sets::{BYTE_SETS, ByteSet};
use super::case::lower_of;
use super::gb18030::Gb18030;
use super::list::{Collation, Simple};
use super::multibyte::{MULTI_SETS, MultiSet};
use super::weights::{BEYOND_BMP, Few, MALFORMED, Weigh, read_pairs};

pub(super) static GENERAL_CI: &[u8] = include_bytes!("../../data/general_ci.bin");
pub(super) static COLLATIONS8: &[u8] = include_bytes!("../../data/collations8.bin");

/// First weights of characters that a collation of single bytes does not know; they sort last.
const FOREIGN: u16 = 0x200;
/// Weights of those among them that are ASCII, of which each has one weight: swe7 lacks some.
const FOREIGN_ASCII: u16 = 0x180;
/// First weights of characters that a collation of multi-byte codes does not know; they sort last.
const FOREIGN_WIDE: u16 = 0xFF80;

/// Most tables that `collations8.bin` can hold.
const MOST_TABLES: usize = COLLATIONS8.len() / 257;

/// A collation with one weight for each character.
pub(super) struct SimpleTable {
    ascii: [u16; 128],
    rest: Rest,
}

enum Rest {
    /// The basic plane, flat.
    Bmp(Box<[u16]>),
    /// By byte: a weight for each, and the bytes that have a second one, with it.
    Byte {
        set: &'static ByteSet,
        weights: &'static [u8],
        second: &'static [u8],
    },
    /// By code of a multi-byte set.
    Multi { set: &'static MultiSet, bin: bool },
    /// By code of GB 18030, or by what that weighs.
    Gb18030 { bin: bool },
    /// Nothing but ASCII.
    Nothing,
}

impl SimpleTable {
    fn general_ci() -> Self {
        let mut bmp: Vec<u16> = (0..=u16::MAX).collect();
        for (cp, weight) in read_pairs(GENERAL_CI, None).0 {
            bmp[cp as usize] = weight as u16;
        }
        Self {
            ascii: std::array::from_fn(|i| bmp[i]),
            rest: Rest::Bmp(bmp.into()),
        }
    }

    fn general_500_ci() -> Self {
        let mut table = Self::general_ci();
        if let Rest::Bmp(bmp) = &mut table.rest {
            bmp[0xDF] = 0xDF;
        }
        table
    }

    fn tolower_ci() -> Self {
        let bmp: Vec<u16> = (0..=u16::MAX)
            .map(|cp| lower_of(Collation::UTF8MB3_GENERAL_CI, cp))
            .collect();
        Self {
            ascii: std::array::from_fn(|i| bmp[i]),
            rest: Rest::Bmp(bmp.into()),
        }
    }

    fn byte(charset: Charset, number: u8) -> Self {
        let mut data = COLLATIONS8;
        for _ in 0..number {
            data = &data[256 + 1 + 2 * usize::from(data[256])..];
        }
        let (weights, rest) = data.split_at(256);
        let second = &rest[1..][..2 * usize::from(rest[0])];
        Self::by_byte(charset, weights, second)
    }

    fn byte_bin(charset: Charset) -> Self {
        static IDENTITY: [u8; 256] = {
            let mut t = [0; 256];
            let mut i = 0;
            while i < 256 {
                t[i] = i as u8;
                i += 1;
            }
            t
        };
        Self::by_byte(charset, &IDENTITY, &[])
    }

    fn by_byte(charset: Charset, weights: &'static [u8], second: &'static [u8]) -> Self {
        let set = charset.byte_set().expect("a set of single bytes");
        assert_eq!(weights.len(), 256);
        debug_assert!(second.chunks(2).all(|pair| pair[0] >= 0x80));
        let ascii = |i: usize| match set.byte_of(i as u32) {
            Some(byte) => u16::from(weights[usize::from(byte)]),
            None => FOREIGN_ASCII + i as u16,
        };
        Self {
            ascii: std::array::from_fn(ascii),
            rest: Rest::Byte {
                set,
                weights,
                second,
            },
        }
    }

    fn multi(charset: Charset, bin: bool) -> Self {
        let set = charset.multi_set().expect("a multi-byte set");
        let ascii = |i: usize| units_of(set.key_of(i as u32, bin)).as_slice()[0];
        Self {
            ascii: std::array::from_fn(ascii),
            rest: Rest::Multi { set, bin },
        }
    }

    fn gb18030(bin: bool) -> Self {
        let set = Gb18030::get();
        Self {
            ascii: std::array::from_fn(|i| set.units(i as u32, bin).as_slice()[0]),
            rest: Rest::Gb18030 { bin },
        }
    }

    fn ascii_ci() -> Self {
        let upper = |i: usize| u16::from((i as u8).to_ascii_uppercase());
        Self {
            ascii: std::array::from_fn(upper),
            rest: Rest::Nothing,
        }
    }

    pub(super) fn get(which: Simple) -> &'static Self {
        macro_rules! table {
            ($make:expr) => {{
                static TABLE: LazyLock<SimpleTable> = LazyLock::new(|| $make);
                &TABLE
            }};
        }
        match which {
            Simple::GeneralCi => table!(SimpleTable::general_ci()),
            Simple::General500Ci => table!(SimpleTable::general_500_ci()),
            Simple::ToLowerCi => table!(SimpleTable::tolower_ci()),
            Simple::AsciiCi => table!(SimpleTable::ascii_ci()),
            Simple::Gb18030Ci => table!(SimpleTable::gb18030(false)),
            Simple::Gb18030Bin => table!(SimpleTable::gb18030(true)),
            Simple::Byte(charset, number) => {
                static TABLES: [OnceLock<SimpleTable>; MOST_TABLES] =
                    [const { OnceLock::new() }; MOST_TABLES];
                TABLES[usize::from(number)].get_or_init(|| Self::byte(charset, number))
            }
            Simple::ByteBin(charset) => {
                static TABLES: [OnceLock<SimpleTable>; BYTE_SETS] =
                    [const { OnceLock::new() }; BYTE_SETS];
                let number = charset.byte_set_number().expect("a set of single bytes");
                TABLES[usize::from(number)].get_or_init(|| Self::byte_bin(charset))
            }
            Simple::Multi(charset) | Simple::MultiBin(charset) => {
                static TABLES: [OnceLock<SimpleTable>; 2 * MULTI_SETS] =
                    [const { OnceLock::new() }; 2 * MULTI_SETS];
                let number = charset.multi_set_number().expect("a multi-byte set");
                let bin = matches!(which, Simple::MultiBin(_));
                TABLES[2 * usize::from(number) + usize::from(bin)]
                    .get_or_init(|| Self::multi(charset, bin))
            }
        }
    }
}

impl Weigh for SimpleTable {
    const IGNORES_ZERO: bool = false;

    #[inline]
    fn ascii(&self) -> &[u16; 128] {
        &self.ascii
    }

    fn wide(&self, cp: Option<u32>) -> Few {
        let Some(cp) = cp else {
            return Few::one(MALFORMED);
        };
        match &self.rest {
            Rest::Bmp(bmp) => Few::one(bmp.get(cp as usize).copied().unwrap_or(BEYOND_BMP)),
            Rest::Byte {
                set,
                weights,
                second,
            } => {
                let Some(byte) = set.byte_of(cp) else {
                    return foreign(cp);
                };
                let first = u16::from(weights[usize::from(byte)]);
                match second.chunks_exact(2).find(|pair| pair[0] == byte) {
                    Some(pair) => Few::two(first, u16::from(pair[1])),
                    None => Few::one(first),
                }
            }
            Rest::Multi { set, bin } => match set.key_of(cp, *bin) {
                None => Few::two(FOREIGN_WIDE + (cp >> 16) as u16, cp as u16),
                bytes => units_of(bytes),
            },
            Rest::Gb18030 { bin } => Gb18030::get().units(cp, *bin),
            Rest::Nothing => foreign(cp),
        }
    }

    fn narrow(&self) -> bool {
        !matches!(
            self.rest,
            Rest::Bmp(_) | Rest::Multi { .. } | Rest::Gb18030 { .. }
        )
    }
}

/// The bytes that a character weighs as units of two, filled up with zeros.
fn units_of(bytes: Option<([u8; 3], usize)>) -> Few {
    let Some((bytes, len)) = bytes else {
        return Few::default();
    };
    let unit = |high, low| u16::from_be_bytes([high, low]);
    match len {
        1 | 2 => Few::one(unit(bytes[0], bytes[1])),
        _ => Few::two(unit(bytes[0], bytes[1]), unit(bytes[2], 0)),
    }
}

fn foreign(cp: u32) -> Few {
    Few::two(FOREIGN + (cp >> 16) as u16, cp as u16)
}
