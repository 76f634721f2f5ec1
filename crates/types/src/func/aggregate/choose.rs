//! MIN, MAX, ANY_VALUE.
//!
//! Neighbours: `cmp` orders values of one type.
//! **Invariant**: the result is one of the values; among equal ones the first.

use std::any::Any;
use std::cmp::Ordering;

use super::{AggDef, AggState, AggTypes, same};
use crate::cmp::sort_cmp;
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::errors;
use crate::func::{ArgType, RetCtx, Signature};
use crate::sqltype::SqlType;
use crate::value::Value;

pub(super) const DEFS: &[AggDef] = &[
    AggDef {
        name: "min",
        min_args: 1,
        max_args: 1,
        ret: |args, ctx| ret_extreme(args, ctx, "min"),
        new: min,
    },
    AggDef {
        name: "max",
        min_args: 1,
        max_args: 1,
        ret: |args, ctx| ret_extreme(args, ctx, "max"),
        new: max,
    },
    AggDef {
        name: "any_value",
        min_args: 1,
        max_args: 1,
        ret: ret_any,
        new: any,
    },
];

fn ret_any(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ret = args[0].ty.clone().with_nullable(true);
    Ok(Signature {
        coercibility: args[0].coercibility,
        ..Signature::plain(ret)
    })
}

/// Labels of ENUM and SET are compared as text.
fn ret_extreme(args: &[ArgType], ctx: &RetCtx, name: &str) -> SqlResult<Signature> {
    match args[0].ty.is_geometry() {
        true => Err(errors::wrong_arguments(name)),
        false => ret_any(args, ctx),
    }
}

struct Extreme {
    best: Value,
    wanted: Ordering,
    ret: SqlType,
    /// Bytes of the longest text that was the best.
    longest: usize,
}

fn extreme(types: &AggTypes, wanted: Ordering) -> Box<dyn AggState> {
    Box::new(Extreme {
        best: Value::Null,
        wanted,
        ret: types.ret.clone(),
        longest: 0,
    })
}

fn min(types: &AggTypes) -> Box<dyn AggState> {
    extreme(types, Ordering::Less)
}

fn max(types: &AggTypes) -> Box<dyn AggState> {
    extreme(types, Ordering::Greater)
}

impl Extreme {
    fn take(&mut self, v: &Value) {
        if v.is_null() {
            return;
        }
        let order = match (v, &self.best) {
            (_, Value::Null) => self.wanted,
            (Value::Label(_, label), Value::Label(_, best)) => {
                self.ret.collation.compare(label, best)
            }
            (v, best) => sort_cmp(v, best, &self.ret),
        };
        if order == self.wanted {
            self.best.clone_from(v);
            self.longest = self.longest.max(v.text_len());
        }
    }
}

impl AggState for Extreme {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        self.take(&args[0]);
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        self.take(&same::<Self>(other).best);
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        Ok(self.best.clone())
    }

    fn bytes(&self) -> u64 {
        self.longest as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct First(Option<Value>);

fn any(_: &AggTypes) -> Box<dyn AggState> {
    Box::new(First(None))
}

impl AggState for First {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        if self.0.is_none() {
            self.0 = Some(args[0].clone());
        }
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        if self.0.is_none() {
            self.0 = same::<Self>(other).0;
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        Ok(self.0.clone().unwrap_or_default())
    }

    fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |v| v.text_len() as u64)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
