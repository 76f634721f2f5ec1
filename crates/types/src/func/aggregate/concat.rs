//! GROUP_CONCAT.
//!
//! Neighbours: the executor feeds rows in the order that ORDER BY asks for.
//! **Invariant**: the result is at most `group_concat_max_len` bytes in its character set, cut between characters with
//! warning 1260.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::cast;
use crate::collation::{Charset, Collation, char_len, valid_utf8};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::func::ret::collation_of;
use crate::func::{ANY_ARGS, ArgType, RetCtx, Signature};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

pub(super) const DEFS: &[AggDef] = &[AggDef {
    name: "group_concat",
    min_args: 1,
    max_args: ANY_ARGS,
    ret: ret_group_concat,
    new: group_concat,
}];

fn ret_group_concat(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = collation_of(args, ctx, "group_concat")?;
    let bytes = ctx
        .group_concat_max_len
        .saturating_mul(u64::from(collation.charset().max_len()));
    let length = u32::try_from(bytes).unwrap_or(u32::MAX);
    let ret = SqlType {
        length,
        collation,
        ..SqlType::new(TypeKind::LongText)
    };
    Ok(Signature {
        ret,
        coercibility,
        collation,
    })
}

struct Concat {
    args: Vec<SqlType>,
    separator: Vec<u8>,
    collation: Collation,
    out: Option<Vec<u8>>,
    /// Bytes of `out` in the character set of the result.
    encoded: usize,
    rows: u64,
    /// Nothing more fits; the warning has been given.
    cut: bool,
}

fn group_concat(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Concat {
        args: types.args.clone(),
        separator: types.separator.clone(),
        collation: types.ret.collation,
        out: None,
        encoded: 0,
        rows: 0,
        cut: false,
    })
}

impl Concat {
    /// Appends one row's text, or what of it fits.
    fn append(&mut self, ctx: &EvalCtx, text: &[&[u8]]) -> SqlResult<()> {
        self.rows += 1;
        if self.cut {
            return Ok(());
        }
        let limit = usize::try_from(ctx.group_concat_max_len).unwrap_or(usize::MAX);
        let before = self.out.as_ref().map_or(0, Vec::len);
        let out = match &mut self.out {
            Some(out) => {
                out.extend_from_slice(&self.separator);
                out
            }
            None => self.out.insert(Vec::new()),
        };
        let wanted = out.len() + text.iter().map(|t| t.len()).sum::<usize>();
        if wanted > out.capacity() {
            // What grows is there twice for a moment.
            ctx.session.may_make(2 * wanted)?;
        }
        text.iter().for_each(|t| out.extend_from_slice(t));
        let charset = self.collation.charset();
        self.encoded += charset.encoded_len(&out[before..]);
        if self.encoded > limit {
            out.truncate(fitting(out, charset, limit));
            self.cut = true;
            let message = format!("Row {} was cut by GROUP_CONCAT()", self.rows);
            ctx.raise(1260, "HY000", message)?;
        }
        Ok(())
    }
}

/// How much of a text has at most `limit` bytes in its character set: whole characters.
fn fitting(text: &[u8], charset: Charset, limit: usize) -> usize {
    if charset.stores_utf8() {
        let end = limit.min(text.len());
        return match charset {
            Charset::Binary => end,
            _ => valid_utf8(&text[..end]),
        };
    }
    let (mut at, mut encoded) = (0, 0);
    while at < text.len() {
        let end = at + char_len(&text[at..]);
        encoded += charset.encoded_len(&text[at..end]);
        if encoded > limit {
            break;
        }
        at = end;
    }
    at
}

impl AggState for Concat {
    fn update(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        if args.iter().any(Value::is_null) {
            return Ok(());
        }
        if let ([Value::Str(s)], [ty]) = (args, &self.args[..])
            && ty.collation.same_bytes(self.collation)
        {
            return self.append(ctx, &[s]);
        }
        let texts: Vec<_> = args
            .iter()
            .zip(&self.args)
            .map(|(v, ty)| match ty.is_string() || ty.is_label() {
                true => ty.collation.recode(cast::to_str(v, ty), self.collation),
                false => cast::to_str(v, ty),
            })
            .collect();
        let texts: Vec<&[u8]> = texts.iter().map(|t| &**t).collect();
        self.append(ctx, &texts)
    }

    fn merge(&mut self, ctx: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let other = same::<Self>(other);
        if let Some(text) = other.out {
            self.append(ctx, &[&text])?;
            self.rows += other.rows - 1;
            self.cut |= other.cut;
        }
        Ok(())
    }

    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value> {
        ctx.session
            .may_make(self.out.as_ref().map_or(0, Vec::len))?;
        Ok(self.out.clone().map_or(Value::Null, Value::Str))
    }

    fn bytes(&self) -> u64 {
        self.out.as_ref().map_or(0, |out| out.capacity() as u64)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
