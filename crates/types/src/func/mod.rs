//! The function registry: every scalar function a statement may call, and the aggregates.
//!
//! In flow order: this file (definitions, lookup, binding), `call` (what a kernel sees), `ret` and
//! `merge` (result types), then the kernels: `string`, `search`, `encode`, `charset`, `weight`, `regexp` (with
//! `icu`, `pattern` and `backtrack`, regular expressions), `hash`, `cipher`, `compress`, `inet`, `math`,
//! `number_format`, `partition`, `control`, `info`, `failover`, `monitor`, `sys`, `json`, `xml`, `spatial`, `date`, and
//! `aggregate`.
//! Neighbours: the binder looks a name up, [`FuncDef::bind`]s it and keeps the [`Signature`]; the
//! executor [`FuncDef::call`]s it; `cast`, `temporal`, `decimal` and `collation` do the work.
//!
//! **Invariants**: a call's value has the type of its signature; with
//! [`FuncFlags::NULL_IN_NULL_OUT`] a NULL argument makes it NULL before the kernel runs.

pub mod aggregate;
mod backtrack;
mod call;
mod charset;
mod cipher;
mod compress;
mod control;
mod date;
mod encode;
mod failover;
mod hash;
mod icu;
mod inet;
mod info;
pub mod json;
mod math;
pub mod merge;
mod monitor;
mod number_format;
mod partition;
mod pattern;
mod regexp;
mod ret;
mod search;
mod spatial;
mod string;
pub mod sys;
mod weight;
mod xml;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use call::Call;
pub use cipher::BlockMode;
pub use control::{constant_moment, is_text_of_datetime};
pub use date::names::{LOCALES, TimeLocale};
pub use encode::{BASE64_LINE, Padding, WITHOUT_BREAKS, decode_base64, encode_base64};
pub use math::SeededRand;
pub use partition::MAX_PARTITIONS;
pub use ret::check_constant;

use crate::collation::{Coercibility, Collation};
use crate::ctx::{EvalCtx, MANY_BYTES};
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

/// Any number of further arguments ([`FuncDef::max_args`]).
pub const ANY_ARGS: u8 = 255;

/// Properties of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FuncFlags(pub u16);

impl FuncFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Same arguments, same result: constant arguments may be folded when the statement is bound.
    pub const DETERMINISTIC: Self = Self(1);
    /// A NULL argument makes the result NULL; [`FuncDef::call`] does that before the kernel.
    pub const NULL_IN_NULL_OUT: Self = Self(2);
    /// Reads or changes the session or the statement's clock: never folded into a cached plan.
    pub const NEEDS_SESSION: Self = Self(4);
    /// May wait (SLEEP, GET_LOCK): the executor runs it where waiting is allowed.
    pub const BLOCKS: Self = Self(8);
    /// Arguments are evaluated only when needed (IF, IFNULL, COALESCE); calling it with all
    /// arguments evaluated gives the same value.
    pub const LAZY: Self = Self(16);
    /// The executor evaluates the second argument as often as the first says (BENCHMARK), then calls it.
    pub const REPEATS: Self = Self(32);
    /// The number of arguments must be odd (something, then pairs).
    pub const ODD_ARGS: Self = Self(64);
    /// The number of arguments must be even (pairs).
    pub const EVEN_ARGS: Self = Self(128);
    /// It computes with its arguments: a geometry among them is error 1210.
    pub const COMPUTES: Self = Self(256);
    /// It takes parts of a document (JSON_EXTRACT): [`FuncDef::call_unquoted`] gives their text.
    pub const EXTRACTS: Self = Self(512);
    /// It is the text of a document (JSON_UNQUOTE).
    pub const UNQUOTES: Self = Self(1024);

    /// Are all bits of `other` set?
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A function of its arguments alone, NULL for a NULL argument.
const PURE: FuncFlags = FuncFlags::DETERMINISTIC.with(FuncFlags::NULL_IN_NULL_OUT);
/// A function of its arguments alone that looks at NULL itself.
const TOTAL: FuncFlags = FuncFlags::DETERMINISTIC;
/// A calculation with its arguments alone.
const CALCULATION: FuncFlags = PURE.with(FuncFlags::COMPUTES);
/// The same of something and pairs.
const TOTAL_ODD: FuncFlags = TOTAL.with(FuncFlags::ODD_ARGS);
/// The same of pairs.
const TOTAL_EVEN: FuncFlags = TOTAL.with(FuncFlags::EVEN_ARGS);
/// A choice among arguments.
const LAZY: FuncFlags = FuncFlags::DETERMINISTIC.with(FuncFlags::LAZY);
/// A function of the session.
const SESSION: FuncFlags = FuncFlags::NEEDS_SESSION;
/// A function of the session that may wait.
const BLOCKING: FuncFlags = FuncFlags::NEEDS_SESSION.with(FuncFlags::BLOCKS);

/// What the binder knows about an argument.
#[derive(Debug, Clone)]
pub struct ArgType<'a> {
    /// Its static type.
    pub ty: SqlType,
    /// How strongly it insists on its collation.
    pub coercibility: Coercibility,
    /// Its value when constant.
    pub value: Option<&'a Value>,
}

/// What the binder knows about the session.
#[derive(Debug, Clone, Copy)]
pub struct RetCtx {
    /// Collation of strings made from numbers and dates.
    pub collation_connection: Collation,
    /// div_precision_increment.
    pub div_precision_increment: u8,
    /// max_allowed_packet, bytes.
    pub max_allowed_packet: u64,
    /// group_concat_max_len, bytes.
    pub group_concat_max_len: u64,
}

impl RetCtx {
    /// From the evaluation context.
    pub fn of(ctx: &EvalCtx) -> Self {
        Self {
            collation_connection: ctx.collation_connection,
            div_precision_increment: ctx.div_precision_increment,
            max_allowed_packet: ctx.max_allowed_packet,
            group_concat_max_len: ctx.group_concat_max_len,
        }
    }
}

/// The static side of one call, made by [`FuncDef::bind`].
#[derive(Debug, Clone)]
pub struct Signature {
    /// Type of the result.
    pub ret: SqlType,
    /// How strongly the result insists on its collation.
    pub coercibility: Coercibility,
    /// Collation in which the string arguments are compared.
    pub collation: Collation,
}

/// Static types as a kernel sees them.
#[derive(Debug, Clone, Copy)]
pub struct FuncTypes<'a> {
    /// Types of the arguments.
    pub args: &'a [SqlType],
    /// Type of the result.
    pub ret: &'a SqlType,
    /// Collation in which the string arguments are compared.
    pub collation: Collation,
    /// The result's coercibility (COERCIBILITY() returns it).
    pub coercibility: Coercibility,
}

impl<'a> FuncTypes<'a> {
    /// From what the binder keeps.
    pub fn new(args: &'a [SqlType], sig: &'a Signature) -> Self {
        Self {
            args,
            ret: &sig.ret,
            collation: sig.collation,
            coercibility: sig.coercibility,
        }
    }
}

/// Checks the types of a call's arguments and computes its signature.
pub type RetFn = fn(&[ArgType], &RetCtx) -> SqlResult<Signature>;
/// Computes a call.
pub type EvalFn = fn(&Call) -> SqlResult<Value>;

/// One function.
#[derive(Debug)]
pub struct FuncDef {
    /// Lower case name.
    pub name: &'static str,
    /// Fewest arguments.
    pub min_args: u8,
    /// Most arguments ([`ANY_ARGS`]: no limit).
    pub max_args: u8,
    /// Properties.
    pub flags: FuncFlags,
    ret: RetFn,
    eval: EvalFn,
}

const fn def(
    name: &'static str,
    min_args: u8,
    max_args: u8,
    flags: FuncFlags,
    ret: RetFn,
    eval: EvalFn,
) -> FuncDef {
    FuncDef {
        name,
        min_args,
        max_args,
        flags,
        ret,
        eval,
    }
}

impl FuncDef {
    /// May a call have `n` arguments?
    pub fn accepts(&self, n: usize) -> bool {
        let no_limit = self.max_args == ANY_ARGS;
        let parity = if n.is_multiple_of(2) {
            FuncFlags::ODD_ARGS
        } else {
            FuncFlags::EVEN_ARGS
        };
        n >= usize::from(self.min_args)
            && (no_limit || n <= usize::from(self.max_args))
            && !self.flags.has(parity)
    }

    /// Type checks a call; error 1582 for a wrong number of arguments.
    pub fn bind(&self, args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
        if !self.accepts(args.len()) {
            return Err(errors::wrong_parameter_count(self.name));
        }
        if self.flags.has(FuncFlags::COMPUTES) {
            refuse_geometries(args.iter().map(|a| &a.ty), told_name(self.name))?;
        }
        let mut signature = (self.ret)(args, ctx)?;
        signature.ret.own_scale = false;
        Ok(signature)
    }

    /// Computes a call, with the NULL rule.
    pub fn call(&self, ctx: &EvalCtx, args: &[&Value], types: &FuncTypes) -> SqlResult<Value> {
        self.compute(self.eval, ctx, args, types)
    }

    /// Computes the text of what a call takes from a document, without a document for that.
    pub fn call_unquoted(
        &self,
        ctx: &EvalCtx,
        args: &[&Value],
        types: &FuncTypes,
    ) -> SqlResult<Value> {
        debug_assert!(self.flags.has(FuncFlags::EXTRACTS));
        self.compute(json::find::json_extract_unquoted, ctx, args, types)
    }

    fn compute(
        &self,
        kernel: EvalFn,
        ctx: &EvalCtx,
        args: &[&Value],
        types: &FuncTypes,
    ) -> SqlResult<Value> {
        if self.flags.has(FuncFlags::NULL_IN_NULL_OUT) && args.iter().any(|v| v.is_null()) {
            return Ok(Value::Null);
        }
        let bytes: usize = args.iter().map(|v| v.text_len()).sum();
        if bytes >= MANY_BYTES {
            ctx.session.go_on(bytes)?;
            if types.ret.is_string() || types.ret.kind == TypeKind::Json {
                // Results are about as long as what they are made of; those that are longer ask for themselves.
                ctx.session.may_make(bytes)?;
            }
        }
        kernel(&Call { ctx, args, types })
    }
}

/// What computes or orders has no use for a geometry.
///
/// # Errors
/// 1210
pub fn refuse_geometries<'a>(
    types: impl IntoIterator<Item = &'a SqlType>,
    operation: &str,
) -> SqlResult<()> {
    let mut types = types.into_iter();
    match types.any(|ty| matches!(ty.kind, TypeKind::Geometry(_))) {
        true => Err(errors::wrong_arguments(operation)),
        false => Ok(()),
    }
}

/// The name that error 1210 tells of a function that has several.
fn told_name(name: &'static str) -> &'static str {
    match name {
        "atan2" => "atan",
        "bin" | "oct" => "conv",
        "ceil" => "ceiling",
        "mod" => "%",
        "power" => "pow",
        name => name,
    }
}

/// Definitions, module by module.
const MODULES: &[&[FuncDef]] = &[
    string::DEFS,
    search::DEFS,
    monitor::DEFS,
    sys::DEFS,
    encode::DEFS,
    charset::CHAR,
    charset::CONVERT,
    weight::DEFS,
    regexp::DEFS,
    hash::DEFS,
    partition::DEFS,
    cipher::DEFS,
    compress::DEFS,
    inet::DEFS,
    math::DEFS,
    number_format::DEFS,
    control::DEFS,
    info::DEFS,
    failover::DEFS,
    json::array::DEFS,
    json::build::DEFS,
    json::find::DEFS,
    json::search::DEFS,
    json::change::DEFS,
    json::describe::DEFS,
    json::extract::DEFS,
    xml::DEFS,
    spatial::make::DEFS,
    spatial::parts::DEFS,
    spatial::measure::DEFS,
    spatial::relate::DEFS,
    spatial::document::DEFS,
    date::now::DEFS,
    date::parts::DEFS,
    date::shift::DEFS,
    date::diff::DEFS,
    date::make::DEFS,
    date::zone::DEFS,
    date::format::DEFS,
    date::parse::DEFS,
];

/// Every function, in no particular order.
pub fn all() -> impl Iterator<Item = &'static FuncDef> {
    MODULES.iter().copied().flatten()
}

/// The function of this name, any case.
pub fn lookup(name: &str) -> Option<&'static FuncDef> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static FuncDef>> =
        LazyLock::new(|| all().map(|f| (f.name, f)).collect());
    BY_NAME.get(name.to_ascii_lowercase().as_str()).copied()
}

/// Warning 1411 for an argument that a function cannot read; the result is NULL.
fn incorrect_string(c: &Call, text: &[u8], function: &str) -> SqlResult<()> {
    c.raise(1411, "HY000", bad_string(text, function).message)
}

/// The same as an error.
fn bad_string(text: &[u8], function: &str) -> SqlError {
    incorrect_value("string", crate::cast::quoted(text), function)
}

/// 1411: `what` is the argument.
fn incorrect_value(what: &str, value: impl std::fmt::Display, function: &str) -> SqlError {
    let message = format!("Incorrect {what} value: '{value}' for function {function}");
    SqlError::new(1411, "HY000", message)
}

/// Warning 1583; the result is NULL.
fn wrong_parameters(c: &Call, function: &str) {
    c.warn(
        1583,
        format!("Incorrect parameters in the call to native function '{function}'"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut names: Vec<_> = all().map(|f| f.name).collect();
        let total = names.len();
        assert!(
            names
                .iter()
                .all(|n| n.bytes().all(|b| !b.is_ascii_uppercase()))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), total);
        assert!(lookup("Concat_WS").is_some_and(|f| f.name == "concat_ws"));
        assert!(lookup("geomfromtext").is_none());
        assert!(all().all(|f| f.min_args <= f.max_args));
    }

    #[test]
    fn every_character_set_is_converted_to() {
        for charset in crate::collation::Charset::ALL {
            for function in ["char_using_", "convert_using_"] {
                let name = format!("{function}{}", charset.name());
                assert!(lookup(&name).is_some(), "{name}");
            }
        }
    }
}
