//! One call as a kernel sees it: argument values converted on demand.
//!
//! Neighbours: every kernel in this directory takes a [`Call`]; `cast` converts.
//! **Invariant**: reading an argument twice gives the same value (warnings may repeat, so kernels
//! read each argument once).

use std::borrow::Cow;

use super::FuncTypes;
use super::ret::check_text;
use crate::cast;
use crate::collation::{Collation, char_count, char_offset};
use crate::ctx::{EvalCtx, MANY_BYTES};
use crate::decimal::Decimal;
use crate::error::{Level, SqlResult};
use crate::errors;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// Arguments, types and context of one call.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Statement context.
    pub ctx: &'a EvalCtx<'a>,
    /// Argument values, lent by whoever has them: a row, a constant, what was computed for this call.
    pub args: &'a [&'a Value],
    /// Static types.
    pub types: &'a FuncTypes<'a>,
}

impl<'a> Call<'a> {
    /// Number of arguments.
    pub fn argc(&self) -> usize {
        self.args.len()
    }

    /// Type of argument `i`.
    pub fn ty(&self, i: usize) -> &'a SqlType {
        &self.types.args[i]
    }

    /// Is argument `i` given and NULL?
    pub fn null(&self, i: usize) -> bool {
        self.args.get(i).is_some_and(|v| v.is_null())
    }

    /// Is argument `i` there?
    pub fn has(&self, i: usize) -> bool {
        i < self.args.len()
    }

    /// Argument `i` as text in UTF-8, or as bytes when it or the result is a byte string.
    pub fn text(&self, i: usize) -> Cow<'a, [u8]> {
        match self.types.ret.is_string() && self.ret_collation().is_binary() {
            true => self.bytes(i),
            false => cast::to_str(self.args[i], self.ty(i)),
        }
    }

    /// Argument `i` converted to `to`: a text in UTF-8, or bytes.
    ///
    /// # Errors
    /// 3854 for what does not exist in its character set.
    pub fn text_in(&self, i: usize, to: Collation) -> SqlResult<Cow<'a, [u8]>> {
        let (text, ty) = (cast::to_str(self.args[i], self.ty(i)), self.ty(i));
        let is_text = ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
        if !is_text || ty.collation.charset() == to.charset() {
            return Ok(text);
        }
        check_text(&text, ty.collation, to)?;
        Ok(ty.collation.recode(text, to))
    }

    /// Argument `i` as bytes in its own character set.
    pub fn bytes(&self, i: usize) -> Cow<'a, [u8]> {
        let text = cast::to_str(self.args[i], self.ty(i));
        self.ty(i).collation.recode(text, Collation::BINARY)
    }

    /// Argument `i` as a signed integer, rounded (an unsigned one keeps its bits).
    pub fn int(&self, i: usize) -> SqlResult<i64> {
        cast::to_u64(self.ctx, self.args[i]).map(|v| v as i64)
    }

    /// Argument `i` as an integer of either sign.
    pub fn integer(&self, i: usize) -> SqlResult<i128> {
        cast::to_int(self.ctx, self.args[i])
    }

    /// Argument `i` as a count: negative becomes 0.
    pub fn count(&self, i: usize) -> SqlResult<usize> {
        Ok(usize::try_from(self.integer(i)?.clamp(0, i128::from(u32::MAX))).unwrap_or(0))
    }

    /// Argument `i` as a double.
    pub fn real(&self, i: usize) -> SqlResult<f64> {
        cast::to_f64(self.ctx, self.args[i])
    }

    /// Argument `i` as a decimal.
    pub fn decimal(&self, i: usize) -> SqlResult<Decimal> {
        cast::to_decimal(self.ctx, self.args[i])
    }

    /// Is argument `i` (statically) a string that is not bytes?
    pub fn is_binary(&self, i: usize) -> bool {
        self.ty(i).is_string() && self.ty(i).collation.is_binary()
    }

    /// Collation of the result.
    pub fn ret_collation(&self) -> Collation {
        self.types.ret.collation
    }

    /// Characters (bytes, for a binary result) in `s`.
    pub fn chars(&self, s: &[u8]) -> usize {
        if self.ret_collation().is_binary() {
            s.len()
        } else {
            char_count(s)
        }
    }

    /// Byte offset of character `n` (bytes are the characters of a binary result).
    pub fn offset(&self, s: &[u8], n: usize) -> usize {
        if self.ret_collation().is_binary() {
            n.min(s.len())
        } else {
            char_offset(s, n)
        }
    }

    /// Raises a problem of a value: a warning, an error in a strict INSERT or UPDATE.
    pub fn raise(
        &self,
        code: u16,
        state: &'static str,
        message: impl Into<String>,
    ) -> SqlResult<()> {
        self.ctx.raise(code, state, message)
    }

    /// Adds a warning that never becomes an error.
    pub fn warn(&self, code: u16, message: impl Into<String>) {
        self.ctx.warn(Level::Warning, code, message);
    }

    /// Is a result of `len` bytes more than max_allowed_packet? Then it is NULL, and 1301 is raised.
    pub fn too_large(&self, name: &str, len: u128) -> SqlResult<bool> {
        let limit = self.ctx.max_allowed_packet;
        let large = len > u128::from(limit);
        if large {
            let e = errors::larger_than_packet(name, limit);
            self.raise(e.code, e.state, e.message)?;
        } else if len >= MANY_BYTES as u128 {
            self.ctx.session.go_on(len as usize)?;
            self.ctx.session.may_make(len as usize)?;
        }
        Ok(large)
    }
}

/// A string result.
pub fn string(s: impl Into<Vec<u8>>) -> SqlResult<Value> {
    Ok(Value::Str(s.into()))
}

/// An integer result.
pub fn int(v: i64) -> SqlResult<Value> {
    Ok(Value::Int(v))
}

/// Is the type one whose values are exact integers?
pub fn is_int(ty: &SqlType) -> bool {
    ty.is_integer() || ty.kind == TypeKind::Bit
}
