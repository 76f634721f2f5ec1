//! String functions that count, cut and join.
//!
//! Neighbours: `search` (finding), `encode` (other representations), `ret` (result types).
//! **Invariant**: positions and lengths are characters, except for byte strings.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::call::{Call, int, string};
use super::ret::{
    any_nullable, collation_of, const_int, int as ret_int, like_args, like_first, same_text,
    string_type, text_chars, text_units,
};
use super::{ANY_ARGS, ArgType, FuncDef, PURE, RetCtx, Signature, TOTAL, def};
use crate::collation::Collation;
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("length", 1, 1, PURE, ret_int::<11>, length),
    def("octet_length", 1, 1, PURE, ret_int::<11>, length),
    def("bit_length", 1, 1, PURE, ret_int::<11>, bit_length),
    def("char_length", 1, 1, PURE, ret_int::<11>, char_length),
    def("character_length", 1, 1, PURE, ret_int::<11>, char_length),
    def("lower", 1, 1, PURE, same_text, lower),
    def("lcase", 1, 1, PURE, same_text, lower),
    def("upper", 1, 1, PURE, same_text, upper),
    def("ucase", 1, 1, PURE, same_text, upper),
    def("reverse", 1, 1, PURE, same_text, reverse),
    def("concat", 1, ANY_ARGS, PURE, ret_concat, concat),
    def("concat_ws", 2, ANY_ARGS, TOTAL, ret_concat_ws, concat_ws),
    def("left", 2, 2, PURE, ret_left, left),
    def("right", 2, 2, PURE, ret_left, right),
    def("substring", 2, 3, PURE, ret_substring, substring),
    def("substr", 2, 3, PURE, ret_substring, substring),
    def("mid", 2, 3, PURE, ret_substring, substring),
    def("insert", 4, 4, PURE, ret_insert, insert),
    def("lpad", 3, 3, PURE, ret_pad, lpad),
    def("rpad", 3, 3, PURE, ret_pad, rpad),
    def("repeat", 2, 2, PURE, ret_repeat, repeat),
    def("space", 1, 1, PURE, ret_space, space),
    def("trim", 1, 1, PURE, same_text, trim_both),
    def("ltrim", 1, 1, PURE, same_text, trim_leading),
    def("rtrim", 1, 1, PURE, same_text, trim_trailing),
    def("trim_both", 1, 2, PURE, ret_trim, trim_both),
    def("trim_leading", 1, 2, PURE, ret_trim, trim_leading),
    def("trim_trailing", 1, 2, PURE, ret_trim, trim_trailing),
];

fn length(c: &Call) -> SqlResult<Value> {
    let charset = c.ty(0).collation.charset();
    int(charset.encoded_len(&c.text(0)) as i64)
}

fn bit_length(c: &Call) -> SqlResult<Value> {
    let charset = c.ty(0).collation.charset();
    int(charset.encoded_len(&c.text(0)) as i64 * 8)
}

fn char_length(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    int(if c.is_binary(0) {
        s.len()
    } else {
        crate::collation::char_count(&s)
    } as i64)
}

fn lower(c: &Call) -> SqlResult<Value> {
    change_case(c, Collation::lower)
}

fn upper(c: &Call) -> SqlResult<Value> {
    change_case(c, Collation::upper)
}

fn change_case(c: &Call, change: fn(Collation, &[u8]) -> Vec<u8>) -> SqlResult<Value> {
    let s = c.text(0);
    let mut out = Vec::with_capacity(s.len());
    let mut work = Work::new(c.ctx.session);
    work.pieces(&s, |piece| {
        out.extend_from_slice(&change(c.ret_collation(), piece));
    })?;
    string(out)
}

fn reverse(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    let is_binary = c.ret_collation().is_binary();
    let mut out = vec![0; s.len()];
    // The characters not yet written belong before this.
    let mut end = s.len();
    let mut work = Work::new(c.ctx.session);
    work.pieces(&s, |piece| {
        let mut rest = piece;
        while !rest.is_empty() {
            let bytes = match is_binary {
                true => 1,
                false => crate::collation::char_len(rest),
            };
            let (first, behind) = rest.split_at(bytes);
            out[end - bytes..end].copy_from_slice(first);
            end -= bytes;
            rest = behind;
        }
    })?;
    debug_assert_eq!(end, 0, "every character has its place");
    string(out)
}

/// Characters of all texts together, or bytes where they become bytes.
fn total_chars(args: &[ArgType], collation: Collation) -> u64 {
    args.iter().map(|a| text_units(&a.ty, collation)).sum()
}

fn ret_concat(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let all: Vec<usize> = (0..args.len()).collect();
    let (collation, _) = collation_of(args, ctx, "concat")?;
    like_args(args, &all, total_chars(args, collation), ctx, "concat")
}

fn concat(c: &Call) -> SqlResult<Value> {
    join(c, "concat", &[], 0)
}

/// The arguments from `first` on that are not NULL, or NULL with a warning when that is more than a packet may be: it
/// is known before it is made.
fn join(c: &Call, name: &str, separator: &[u8], first: usize) -> SqlResult<Value> {
    let given = (first..c.argc()).filter(|i| !c.null(*i));
    let parts: SmallVec<[Cow<'_, [u8]>; 8]> = given.map(|i| c.text(i)).collect();
    let separators = separator.len() as u128 * parts.len().saturating_sub(1) as u128;
    let len = parts.iter().map(|p| p.len() as u128).sum::<u128>() + separators;
    if c.too_large(name, len)? {
        return Ok(Value::Null);
    }
    let mut out = Vec::with_capacity(len as usize);
    for (nth, part) in parts.iter().enumerate() {
        if nth > 0 {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(part);
    }
    string(out)
}

fn ret_concat_ws(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let all: Vec<usize> = (0..args.len()).collect();
    let separators = u64::from(text_chars(&args[0].ty)) * (args.len() as u64).saturating_sub(2);
    let (collation, _) = collation_of(args, ctx, "concat_ws")?;
    let chars = total_chars(&args[1..], collation) + separators;
    let sig = like_args(args, &all, chars, ctx, "concat_ws")?;
    Ok(sig.nullable(any_nullable(args)))
}

fn concat_ws(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    join(c, "concat_ws", &c.text(0), 1)
}

fn ret_left(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty));
    let chars = const_int(args.get(1)).map_or(chars, |n| chars.min(n.max(0) as u64));
    like_args(args, &[0], chars, ctx, "left")
}

fn left(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    let end = c.offset(&s, c.count(1)?);
    string(&s[..end])
}

fn right(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    let start = c.offset(&s, c.chars(&s).saturating_sub(c.count(1)?));
    string(&s[start..])
}

fn ret_substring(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let mut chars = u64::from(text_chars(&args[0].ty));
    if let Some(start) = const_int(args.get(1)) {
        chars = match start {
            0 => 0,
            1.. => chars.saturating_sub(start as u64 - 1),
            _ if start.unsigned_abs() > chars => 0,
            _ => start.unsigned_abs(),
        };
    }
    if let Some(n) = const_int(args.get(2)) {
        chars = chars.min(n.max(0) as u64);
    }
    like_args(args, &[0], chars, ctx, "substr")
}

fn substring(c: &Call) -> SqlResult<Value> {
    let s = c.text(0);
    let start = c.integer(1)?;
    let wanted = if c.has(2) { c.count(2)? } else { usize::MAX };
    let chars = if start < 0 { c.chars(&s) as i128 } else { 0 };
    let start = if start < 0 { chars + start } else { start - 1 };
    let Ok(start) = usize::try_from(start) else {
        return string("");
    };
    let rest = &s[c.offset(&s, start)..];
    string(&rest[..c.offset(rest, wanted)])
}

fn ret_insert(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty)) + u64::from(text_chars(&args[3].ty));
    like_first(args, &[3], chars, ctx, "insert")
}

fn insert(c: &Call) -> SqlResult<Value> {
    let (s, new) = (c.text(0), c.text_in(3, c.ret_collation())?);
    let chars = c.chars(&s);
    let Some(start) = usize::try_from(c.integer(1)?)
        .ok()
        .filter(|p| (1..=chars).contains(p))
    else {
        return string(s);
    };
    // A negative length reaches to the end.
    let removed = usize::try_from(c.integer(2)?).unwrap_or(usize::MAX);
    let from = c.offset(&s, start - 1);
    let to = from + c.offset(&s[from..], removed);
    if c.too_large("insert", (from + new.len() + s.len() - to) as u128)? {
        return Ok(Value::Null);
    }
    string([&s[..from], &new, &s[to..]].concat())
}

fn ret_pad(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let limit = ctx.max_allowed_packet;
    let chars = const_int(args.get(1)).map_or(limit, |n| u64::try_from(n).unwrap_or(limit));
    let sig = like_first(args, &[2], chars, ctx, "lpad")?;
    Ok(sig.nullable(true))
}

fn lpad(c: &Call) -> SqlResult<Value> {
    pad(c, "lpad", |s, fill| [fill, s].concat())
}

fn rpad(c: &Call) -> SqlResult<Value> {
    pad(c, "rpad", |s, fill| [s, fill].concat())
}

fn pad(c: &Call, name: &str, join: fn(&[u8], &[u8]) -> Vec<u8>) -> SqlResult<Value> {
    let (s, filler) = (c.text(0), c.text_in(2, c.ret_collation())?);
    let Ok(wanted) = usize::try_from(c.integer(1)?) else {
        return Ok(Value::Null);
    };
    let chars = c.chars(&s);
    if wanted <= chars {
        return string(&s[..c.offset(&s, wanted)]);
    }
    let per_filler = c.chars(&filler);
    if per_filler == 0 {
        return string(s);
    }
    let missing = wanted - chars;
    let (full, rest) = (missing / per_filler, missing % per_filler);
    let rest = &filler[..c.offset(&filler, rest)];
    let bytes = s.len() as u128 + full as u128 * filler.len() as u128 + rest.len() as u128;
    if c.too_large(name, bytes)? {
        return Ok(Value::Null);
    }
    let mut fill = filler.repeat(full);
    fill.extend_from_slice(rest);
    string(join(&s, &fill))
}

fn ret_repeat(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = const_int(args.get(1))
        .filter(|n| *n >= 0)
        .map_or(ctx.max_allowed_packet, |n| {
            u64::from(text_chars(&args[0].ty)).saturating_mul(n as u64)
        });
    let sig = like_args(args, &[0], chars, ctx, "repeat")?;
    Ok(sig.nullable(true))
}

fn repeat(c: &Call) -> SqlResult<Value> {
    let (s, n) = (c.text(0), c.count(1)?);
    if c.too_large("repeat", s.len() as u128 * n as u128)? {
        return Ok(Value::Null);
    }
    string(s.repeat(n))
}

fn ret_space(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars =
        const_int(args.first()).map_or(ctx.max_allowed_packet, |n| u64::try_from(n).unwrap_or(0));
    Ok(Signature::plain(string_type(
        chars,
        ctx.collation_connection,
    )))
}

fn space(c: &Call) -> SqlResult<Value> {
    let n = c.count(0)?;
    if c.too_large("space", n as u128)? {
        return Ok(Value::Null);
    }
    string(vec![b' '; n])
}

/// TRIM(… remove FROM text) is lowered to (text, remove).
fn ret_trim(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty));
    Ok(like_first(args, &[1], chars, ctx, "trim")?.nullable(any_nullable(args)))
}

fn trim_both(c: &Call) -> SqlResult<Value> {
    trim(c, true, true)
}

fn trim_leading(c: &Call) -> SqlResult<Value> {
    trim(c, true, false)
}

fn trim_trailing(c: &Call) -> SqlResult<Value> {
    trim(c, false, true)
}

fn trim(c: &Call, leading: bool, trailing: bool) -> SqlResult<Value> {
    let s = c.text(0);
    let remove = match c.has(1) {
        true => c.text_in(1, c.ret_collation())?,
        false => b" ".as_slice().into(),
    };
    let mut rest = &*s;
    if remove.is_empty() {
        return string(rest);
    }
    let mut work = Work::new(c.ctx.session);
    while leading && let Some(shorter) = rest.strip_prefix(&*remove) {
        rest = shorter;
        work.done(remove.len())?;
    }
    while trailing && let Some(shorter) = rest.strip_suffix(&*remove) {
        rest = shorter;
        work.done(remove.len())?;
    }
    string(rest)
}
