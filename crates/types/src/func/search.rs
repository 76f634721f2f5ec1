//! String functions that find and compare.
//!
//! Neighbours: `collation` decides what is equal; `string` cuts.
//! **Invariant**: everything but FIELD, REPLACE, SUBSTRING_INDEX, LOCATE and INSTR compares in the operands' collation;
//! FIELD does in its first operand's, LOCATE and INSTR in that of the text they look into, the others compare exactly
//! in the character set of that text, as in MySQL.

use std::sync::Arc;

use memchr::memmem;

use super::call::{Call, int, is_int, string};
use super::ret::{
    any_nullable, check_convertible, collation_of, compared_in, int as ret_int, int_never_null,
    int_null, like_first, string_type, text_chars,
};
use super::{ANY_ARGS, ArgType, FuncDef, PURE, RetCtx, Signature, TOTAL, def};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// What a step of a loop counts for besides the bytes it looks at.
const EACH: usize = 16;

pub(super) const DEFS: &[FuncDef] = &[
    def("instr", 2, 2, PURE, ret_locate::<0>, instr),
    def("locate", 2, 3, PURE, ret_locate::<1>, locate),
    def("position", 2, 2, PURE, ret_locate::<1>, locate),
    def("strcmp", 2, 2, PURE, ret_strcmp, strcmp),
    def("find_in_set", 2, 2, PURE, ret_find_in_set, find_in_set),
    def("field", 2, ANY_ARGS, TOTAL, ret_field, field),
    def("elt", 2, ANY_ARGS, TOTAL, ret_elt, elt),
    def("make_set", 2, ANY_ARGS, TOTAL, ret_make_set, make_set),
    def("replace", 3, 3, PURE, ret_replace, replace),
    def(
        "substring_index",
        3,
        3,
        PURE,
        ret_substring_index,
        substring_index,
    ),
];

fn instr(c: &Call) -> SqlResult<Value> {
    let collation = c.types.collation;
    let (text, wanted) = (c.text(0), c.text_in(1, collation)?);
    let found = collation.find(&text, &wanted, 0, c.ctx.session)?;
    int(found.map_or(0, |at| at as i64 + 1))
}

/// `TEXT` is the argument that is looked into; its collation says what is equal.
fn ret_locate<const TEXT: usize>(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, _) = collation_of(&args[TEXT..=TEXT], ctx, "locate")?;
    check_convertible(&args[1 - TEXT], collation)?;
    let sig = int_null::<11>(args, ctx)?.nullable(any_nullable(args));
    Ok(Signature { collation, ..sig })
}

fn locate(c: &Call) -> SqlResult<Value> {
    let from = if c.has(2) { c.integer(2)? - 1 } else { 0 };
    let Ok(from) = usize::try_from(from) else {
        return int(0);
    };
    let collation = c.types.collation;
    let (wanted, text) = (c.text_in(0, collation)?, c.text(1));
    let found = collation.find(&text, &wanted, from, c.ctx.session)?;
    int(found.map_or(0, |at| at as i64 + 1))
}

fn ret_strcmp(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let collation = compared_in(args, ctx, "strcmp")?;
    Ok(Signature {
        collation,
        ..ret_int::<2>(args, ctx)?
    })
}

fn strcmp(c: &Call) -> SqlResult<Value> {
    let mut work = Work::new(c.ctx.session);
    let order = c
        .types
        .collation
        .compare_watched(&c.text(0), &c.text(1), &mut work)?;
    int(order as i64)
}

fn ret_find_in_set(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let collation = compared_in(args, ctx, "find_in_set")?;
    Ok(Signature {
        collation,
        ..ret_int::<11>(args, ctx)?
    })
}

fn find_in_set(c: &Call) -> SqlResult<Value> {
    let (wanted, list) = (c.text(0), c.text(1));
    // The place of a member of a SET is the one in its definition.
    if let (Value::Label(members, _), TypeKind::Set(labels)) = (c.args[1], &c.ty(1).kind) {
        let is_it = |label: &Arc<str>| c.types.collation.eq(label.as_bytes(), &wanted);
        let found = labels.iter().position(is_it);
        let found = found.filter(|at| members >> at & 1 == 1);
        return int(found.map_or(0, |at| at as i64 + 1));
    }
    if list.is_empty() || wanted.contains(&b',') {
        return int(0);
    }
    let mut work = Work::new(c.ctx.session);
    for (i, item) in list.split(|b| *b == b',').enumerate() {
        work.done(item.len() + EACH)?;
        if c.types.collation.eq(item, &wanted) {
            return int(i as i64 + 1);
        }
    }
    int(0)
}

fn ret_field(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let first = args[0].ty.collation;
    let collation = if args[0].ty.is_string() {
        for arg in &args[1..] {
            check_convertible(arg, first)?;
        }
        first
    } else {
        collation_of(args, ctx, "field")?.0
    };
    Ok(Signature {
        collation,
        ..int_never_null::<11>(args, ctx)?
    })
}

fn compares_as_text(ty: &SqlType) -> bool {
    let has_text = matches!(
        ty.kind,
        TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json
    );
    has_text || ty.is_string() || ty.is_temporal()
}

/// FIELD compares as strings, in the first one's collation, when all are strings, as integers when all are, else as
/// doubles.
fn field(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return int(0);
    }
    let rest = (1..c.argc()).filter(|i| !c.null(*i));
    let known = c.types.args.iter().filter(|t| t.kind != TypeKind::Null);
    let all = |f: fn(&SqlType) -> bool| known.clone().all(f);
    let mut found = None;
    if all(compares_as_text) {
        let wanted = c.text(0);
        found = rest
            .clone()
            .find(|i| c.types.collation.eq(&wanted, &c.text(*i)));
    } else if all(is_int) {
        let wanted = c.integer(0)?;
        for i in rest {
            if c.integer(i)? == wanted {
                found = Some(i);
                break;
            }
        }
    } else {
        let wanted = c.real(0)?;
        for i in rest {
            if c.real(i)? == wanted {
                found = Some(i);
                break;
            }
        }
    }
    int(found.unwrap_or(0) as i64)
}

fn ret_elt(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = args[1..]
        .iter()
        .map(|a| text_chars(&a.ty))
        .max()
        .unwrap_or(0);
    let (collation, coercibility) = collation_of(&args[1..], ctx, "elt")?;
    Ok(Signature {
        ret: string_type(u64::from(chars), collation),
        coercibility,
        collation,
    })
}

fn elt(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    match usize::try_from(c.integer(0)?) {
        Ok(i @ 1..) if c.has(i) && !c.null(i) => string(c.text(i)),
        _ => Ok(Value::Null),
    }
}

fn ret_make_set(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = collation_of(&args[1..], ctx, "make_set")?;
    let chars: u64 = args[1..].iter().map(|a| u64::from(text_chars(&a.ty))).sum();
    let ret = string_type(chars + args.len() as u64 - 2, collation);
    Ok(Signature {
        ret: ret.with_nullable(args[0].ty.nullable),
        coercibility,
        collation,
    })
}

fn make_set(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let bits = c.int(0)? as u64;
    let chosen = (1..c.argc()).filter(|i| *i <= 64 && bits >> (i - 1) & 1 == 1 && !c.null(*i));
    let parts: Vec<_> = chosen.map(|i| c.text(i)).collect();
    string(parts.join(&b','))
}

fn ret_replace(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (text, from, to) = (
        text_chars(&args[0].ty),
        text_chars(&args[1].ty),
        text_chars(&args[2].ty),
    );
    // Every character may be an occurrence, each growing by the difference.
    let growth = u64::from(to.saturating_sub(from)) * u64::from(text / from.max(1));
    like_first(args, &[1, 2], u64::from(text) + growth, ctx, "replace")
}

fn replace(c: &Call) -> SqlResult<Value> {
    let collation = c.types.collation;
    let (from, to) = (c.text_in(1, collation)?, c.text_in(2, collation)?);
    let s = c.text(0);
    if from.is_empty() {
        return string(s);
    }
    let mut work = Work::new(c.ctx.session);
    let mut out = Vec::with_capacity(s.len());
    let mut at = 0;
    // Exact search; UTF-8 never matches in the middle of a character.
    for found in memmem::find_iter(&s, &*from) {
        out.extend_from_slice(&s[at..found]);
        out.extend_from_slice(&to);
        at = found + from.len();
        let len = out.len() + s.len() - at;
        if len as u64 > c.ctx.max_allowed_packet && c.too_large("replace", len as u128)? {
            return Ok(Value::Null);
        }
        work.done(to.len() + EACH)?;
    }
    out.extend_from_slice(&s[at..]);
    string(out)
}

fn ret_substring_index(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let chars = u64::from(text_chars(&args[0].ty));
    like_first(args, &[1], chars, ctx, "substring_index")
}

fn substring_index(c: &Call) -> SqlResult<Value> {
    let (s, count) = (c.text(0), c.integer(2)?);
    let delimiter = c.text_in(1, c.types.collation)?;
    if s.is_empty() || delimiter.is_empty() || count == 0 {
        return string("");
    }
    let nth = usize::try_from(count.unsigned_abs() - 1).unwrap_or(usize::MAX);
    // From the right, occurrences are counted from the end, without overlap.
    let (ahead, back) = match count > 0 {
        true => (Some(memmem::find_iter(&s, &*delimiter)), None),
        false => (None, Some(from_the_right(&s, &delimiter))),
    };
    let mut work = Work::new(c.ctx.session);
    let places = ahead
        .into_iter()
        .flatten()
        .chain(back.into_iter().flatten());
    for (i, at) in places.enumerate() {
        work.done(EACH)?;
        if i == nth {
            return string(match count > 0 {
                true => &s[..at],
                false => &s[at + delimiter.len()..],
            });
        }
    }
    string(s)
}

/// Where `wanted` is, from the end on.
fn from_the_right(s: &[u8], wanted: &[u8]) -> impl Iterator<Item = usize> {
    let finder = memmem::FinderRev::new(wanted);
    let first = finder.rfind(s);
    std::iter::successors(first, move |end| finder.rfind(&s[..*end]))
}
