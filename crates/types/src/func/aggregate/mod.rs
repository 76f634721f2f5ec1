//! Aggregate functions: definitions and states.
//!
//! In flow order: this file (registry), `number` (COUNT, SUM, AVG), `bits` (BIT_*), `spread` (variance and
//! deviation), `choose` (MIN, MAX, ANY_VALUE), `concat` (GROUP_CONCAT), `document` (JSON_ARRAYAGG, JSON_OBJECTAGG),
//! `collect` (ST_COLLECT).
//! Neighbours: the `sql` crate's grouping operators own the states; DISTINCT and the order of
//! GROUP_CONCAT are theirs, before `update`.
//!
//! **Invariants**: a state that saw no rows gives the function's empty value (COUNT 0, BIT_AND all
//! ones, other BIT_ functions zeros, the rest NULL); `merge` in any grouping gives what one state would
//! have given, except that GROUP_CONCAT, ANY_VALUE and the JSON aggregates follow the order of merging and that sums of
//! doubles may differ in their last digits.

mod bits;
mod choose;
mod collect;
mod concat;
mod document;
mod number;
mod spread;
#[cfg(test)]
mod tests;

use std::any::Any;

use super::{ArgType, RetCtx, RetFn, Signature, refuse_geometries};
use crate::collation::Collation;
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::errors;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// One group's running state.
pub trait AggState: Send {
    /// Takes one row's argument values.
    fn update(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<()>;

    /// Takes one row whose only argument is this integer.
    fn update_int(&mut self, ctx: &EvalCtx, v: i64) -> SqlResult<()> {
        self.update(ctx, &[Value::Int(v)])
    }

    /// COUNT(*): takes rows by their number alone.
    fn add_rows(&mut self, rows: u64) {
        debug_assert!(rows == 0, "only COUNT takes rows unseen");
    }

    /// SUM and AVG of exact numbers: takes so many rows, none of them NULL, by their sum, which is `digits / 10^scale`.
    fn add_sum(&mut self, rows: u64, _digits: i128, _scale: u8) -> SqlResult<()> {
        debug_assert!(rows == 0, "only SUM and AVG take sums");
        Ok(())
    }

    /// Takes a row back that was taken before; false when this state cannot, or not exactly.
    fn remove(&mut self, _ctx: &EvalCtx, _args: &[Value]) -> SqlResult<bool> {
        Ok(false)
    }

    /// Takes over another state of the same call.
    fn merge(&mut self, ctx: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()>;

    /// The result so far.
    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value>;

    /// Bytes that it has kept beyond its own size, at most so far; only those of [`AggDef::grows`] tell.
    fn bytes(&self) -> u64 {
        0
    }

    /// For `merge`.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// The state that `merge` got, as what it must be.
fn same<T: AggState + 'static>(other: Box<dyn AggState>) -> Box<T> {
    other
        .into_any()
        .downcast()
        .expect("states of one call are of one kind")
}

/// Static parameters of one call.
#[derive(Debug, Clone)]
pub struct AggTypes {
    /// Types of the arguments.
    pub args: Vec<SqlType>,
    /// Type of the result.
    pub ret: SqlType,
    /// Collation in which MIN and MAX compare strings.
    pub collation: Collation,
    /// GROUP_CONCAT's SEPARATOR (`,` by default).
    pub separator: Vec<u8>,
}

impl AggTypes {
    /// From a bound call, with the default separator.
    pub fn new(args: Vec<SqlType>, sig: &Signature) -> Self {
        let ret = sig.ret.clone();
        Self {
            args,
            ret,
            collation: sig.collation,
            separator: b",".to_vec(),
        }
    }
}

/// One aggregate function.
#[derive(Debug)]
pub struct AggDef {
    /// Lower case name.
    pub name: &'static str,
    /// Fewest arguments (COUNT(*) has none).
    pub min_args: u8,
    /// Most arguments.
    pub max_args: u8,
    ret: RetFn,
    new: fn(&AggTypes) -> Box<dyn AggState>,
}

/// Of an aggregate that takes no geometries, the name that error 1210 tells.
fn told_of_geometries(name: &'static str) -> Option<&'static str> {
    match name {
        "std" | "stddev" | "stddev_pop" => Some("std"),
        "variance" | "var_pop" => Some("variance"),
        "sum" | "avg" | "stddev_samp" | "var_samp" | "json_arrayagg" | "json_objectagg" => {
            Some(name)
        }
        _ => None,
    }
}

impl AggDef {
    /// Type checks a call; error 1582 for a wrong number of arguments.
    pub fn bind(&self, args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
        let no_limit = self.max_args == super::ANY_ARGS;
        let n = args.len();
        if n < usize::from(self.min_args) || !(no_limit || n <= usize::from(self.max_args)) {
            return Err(errors::wrong_parameter_count(self.name));
        }
        if let Some(told) = told_of_geometries(self.name) {
            refuse_geometries(args.iter().map(|a| &a.ty), told)?;
        }
        let mut signature = (self.ret)(args, ctx)?;
        signature.ret.own_scale = false;
        Ok(signature)
    }

    /// May its states keep more than a few numbers?
    pub fn grows(&self, types: &AggTypes) -> bool {
        match self.name {
            "group_concat" | "json_arrayagg" | "json_objectagg" | "st_collect" => true,
            "min" | "max" | "any_value" => {
                types.ret.is_string() || types.ret.is_label() || types.ret.kind == TypeKind::Json
            }
            "bit_and" | "bit_or" | "bit_xor" => types.ret.is_string(),
            _ => false,
        }
    }

    /// A fresh state.
    pub fn state(&self, types: &AggTypes) -> Box<dyn AggState> {
        (self.new)(types)
    }
}

/// Definitions, module by module.
const MODULES: &[&[AggDef]] = &[
    number::DEFS,
    bits::DEFS,
    spread::DEFS,
    choose::DEFS,
    concat::DEFS,
    document::DEFS,
    collect::DEFS,
];

/// The aggregate of this name, any case.
pub fn lookup(name: &str) -> Option<&'static AggDef> {
    MODULES
        .iter()
        .copied()
        .flatten()
        .find(|d| d.name.eq_ignore_ascii_case(name))
}
