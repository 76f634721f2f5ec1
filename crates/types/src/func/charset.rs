//! `CHAR(n, … USING charset)` and `CONVERT(x USING charset)`: characters by their codes, and texts of other character
//! sets.
//!
//! Neighbours: `collation::Charset` converts; `encode` has hexadecimal and other forms of the same bytes. The parser
//! makes one function of each character set.
//! **Invariant**: what is not well-formed gives NULL, with MySQL's warning.

use super::call::{Call, string};
use super::ret::{string_type, text_chars};
use super::{ANY_ARGS, ArgType, FuncDef, PURE, RetCtx, Signature, TOTAL, def};
use crate::collation::{Charset, Coercibility};
use crate::error::SqlResult;
use crate::errors;
use crate::sqltype::TypeKind;
use crate::value::Value;

macro_rules! using {
    ($($charset:ident $name:literal;)*) => {
        pub(super) const CHAR: &[FuncDef] = &[
            def("char", 1, ANY_ARGS, TOTAL, ret_char::<BINARY>, char_using::<BINARY>),
            $(def(
                concat!("char_using_", $name),
                1,
                ANY_ARGS,
                TOTAL,
                ret_char::<{ Charset::$charset as usize }>,
                char_using::<{ Charset::$charset as usize }>,
            ),)*
        ];
        pub(super) const CONVERT: &[FuncDef] = &[$(def(
            concat!("convert_using_", $name),
            1,
            1,
            PURE,
            ret_convert::<{ Charset::$charset as usize }>,
            convert_using::<{ Charset::$charset as usize }>,
        ),)*];
    };
}

const BINARY: usize = Charset::Binary as usize;

using! {
    Big5 "big5";
    Cp932 "cp932";
    Eucjpms "eucjpms";
    Euckr "euckr";
    Gb18030 "gb18030";
    Gb2312 "gb2312";
    Gbk "gbk";
    Sjis "sjis";
    Ujis "ujis";
    Armscii8 "armscii8";
    Ascii "ascii";
    Binary "binary";
    Cp1250 "cp1250";
    Cp1251 "cp1251";
    Cp1256 "cp1256";
    Cp1257 "cp1257";
    Cp850 "cp850";
    Cp852 "cp852";
    Cp866 "cp866";
    Dec8 "dec8";
    Geostd8 "geostd8";
    Greek "greek";
    Hebrew "hebrew";
    Hp8 "hp8";
    Keybcs2 "keybcs2";
    Koi8r "koi8r";
    Koi8u "koi8u";
    Latin1 "latin1";
    Latin2 "latin2";
    Latin5 "latin5";
    Latin7 "latin7";
    Macce "macce";
    Macroman "macroman";
    Swe7 "swe7";
    Tis620 "tis620";
    Ucs2 "ucs2";
    Utf16 "utf16";
    Utf16le "utf16le";
    Utf32 "utf32";
    Utf8mb3 "utf8mb3";
    Utf8mb4 "utf8mb4";
    Utf8mb3 "utf8";
}

fn ret_char<const CS: usize>(args: &[ArgType], _ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = args.len() as u64 * 4;
    Ok(Signature::plain(string_type(
        chars,
        Charset::ALL[CS].default_collation(),
    )))
}

/// The bytes of CHAR(): each number big-endian, without leading zeros but for whole units of the character set.
fn char_using<const CS: usize>(c: &Call) -> SqlResult<Value> {
    let charset = Charset::ALL[CS];
    let unit = charset.min_len() as usize;
    debug_assert!(matches!(unit, 1 | 2 | 4));
    let mut bytes = Vec::new();
    for i in (0..c.argc()).filter(|i| !c.null(*i)) {
        let code = (c.int(i)? as u32).to_be_bytes();
        let first = code.iter().position(|b| *b != 0).unwrap_or(3);
        bytes.extend_from_slice(&code[first - first % unit..]);
    }
    decoded(c, charset, &bytes)
}

/// The text that bytes of a character set are; NULL with the warning 1300 where they are none.
fn decoded(c: &Call, charset: Charset, bytes: &[u8]) -> SqlResult<Value> {
    match charset.decode(bytes) {
        Ok(text) => string(text),
        Err(bad) => {
            let e = errors::invalid_characters(charset, &bytes[bad.0..]);
            c.raise(e.code, e.state, e.message)?;
            Ok(Value::Null)
        }
    }
}

fn ret_convert<const CS: usize>(args: &[ArgType], _ctx: &RetCtx) -> SqlResult<Signature> {
    let charset = Charset::ALL[CS];
    let chars = u64::from(text_chars(&args[0].ty));
    let chars = match charset {
        Charset::Binary => chars * u64::from(args[0].ty.collation.charset().max_len()),
        _ => chars,
    };
    let mut sig = Signature::plain(string_type(chars, charset.default_collation()));
    sig.coercibility = Coercibility::Implicit;
    Ok(sig)
}

/// CONVERT(x USING charset): bytes are taken as being in that character set already.
fn convert_using<const CS: usize>(c: &Call) -> SqlResult<Value> {
    let charset = Charset::ALL[CS];
    if charset == Charset::Binary {
        return string(c.bytes(0));
    }
    let text = c.text(0);
    if c.is_binary(0) || c.ty(0).kind == TypeKind::Bit {
        return decoded(c, charset, &charset.whole_units(&text));
    }
    string(charset.fit(text.into_owned()))
}
