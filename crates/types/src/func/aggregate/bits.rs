//! BIT_AND, BIT_OR and BIT_XOR: of integers, and byte by byte of binary strings.
//!
//! Neighbours: `arith` has the operators; a hexadecimal literal comes here as a number.
//! **Invariant**: without rows the result is what changes nothing: all ones or all zeros, as many as the argument's
//! type may have.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::arith;
use crate::cast;
use crate::ctx::EvalCtx;
use crate::error::{SqlError, SqlResult};
use crate::func::{ArgType, RetCtx, Signature};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// Bytes of the longest binary string that is combined.
const MAX_BYTES: u32 = 511;

pub(super) const DEFS: &[AggDef] = &[
    def("bit_and", |types| boxed(types, u64::MAX, |a, b| a & b)),
    def("bit_or", |types| boxed(types, 0, |a, b| a | b)),
    def("bit_xor", |types| boxed(types, 0, |a, b| a ^ b)),
];

const fn def(name: &'static str, new: fn(&AggTypes) -> Box<dyn AggState>) -> AggDef {
    AggDef {
        name,
        min_args: 1,
        max_args: 1,
        ret: ret_bits,
        new,
    }
}

fn ret_bits(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let arg = &args[0].ty;
    if !(arg.is_string() && arg.collation.is_binary()) {
        let ty = SqlType {
            length: 21,
            ..SqlType::bigint(true)
        };
        return Ok(Signature::plain(ty.with_nullable(false)));
    }
    if arg.length > MAX_BYTES {
        return Err(too_long());
    }
    let ty = SqlType {
        kind: TypeKind::VarChar,
        ..SqlType::varchar(arg.length, arg.collation)
    };
    Ok(Signature::plain(ty.with_nullable(false)))
}

/// 3514
fn too_long() -> SqlError {
    let text = "Aggregate bitwise functions cannot accept arguments longer than 511 bytes; consider using the \
                SUBSTRING() function";
    SqlError::new(3514, "HY000", text)
}

fn boxed(types: &AggTypes, neutral: u64, combine: fn(u64, u64) -> u64) -> Box<dyn AggState> {
    let arg = &types.args[0];
    if arg.is_string() && arg.collation.is_binary() {
        return Box::new(Bytes {
            neutral: neutral as u8,
            length: arg.length.min(MAX_BYTES),
            bytes: None,
            combine,
        });
    }
    Box::new(Bits {
        bits: neutral,
        combine,
    })
}

struct Bits {
    bits: u64,
    combine: fn(u64, u64) -> u64,
}

impl AggState for Bits {
    fn update(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        let bits = match &args[0] {
            Value::Null => return Ok(()),
            Value::UInt(v) => *v,
            Value::Bit(v, _) => *v,
            Value::Int(v) => *v as u64,
            v => cast::to_i64(ctx, v)? as u64,
        };
        self.bits = (self.combine)(self.bits, bits);
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        self.bits = (self.combine)(self.bits, same::<Self>(other).bits);
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        Ok(Value::UInt(self.bits))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Bytes {
    /// Without rows the result is this byte, so many times.
    neutral: u8,
    length: u32,
    /// What the rows so far have given.
    bytes: Option<Vec<u8>>,
    combine: fn(u64, u64) -> u64,
}

impl Bytes {
    fn take(&mut self, given: &[u8]) -> SqlResult<()> {
        if given.len() > MAX_BYTES as usize {
            return Err(too_long());
        }
        let Some(bytes) = &mut self.bytes else {
            self.bytes = Some(given.to_vec());
            return Ok(());
        };
        if bytes.len() != given.len() {
            return Err(arith::unequal_lengths());
        }
        for (byte, other) in bytes.iter_mut().zip(given) {
            *byte = (self.combine)((*byte).into(), (*other).into()) as u8;
        }
        Ok(())
    }
}

impl AggState for Bytes {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        match &args[0] {
            Value::Str(given) => self.take(given),
            _ => Ok(()),
        }
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        match same::<Self>(other).bytes {
            Some(given) => self.take(&given),
            None => Ok(()),
        }
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        let bytes = match &self.bytes {
            Some(bytes) => bytes.clone(),
            None => vec![self.neutral; self.length as usize],
        };
        Ok(Value::Str(bytes))
    }

    fn bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
