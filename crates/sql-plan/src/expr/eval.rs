//! Expression evaluation: values of bound trees, one row at a time.
//!
//! Neighbours: `boolean` evaluates conditions; kernels are in `esker-types`; `exec::subquery` runs
//! queries inside expressions.
//! **Invariants**: columns and constants are lent, not copied; an expression's value has the variant
//! its static type promises; CASE, COALESCE, AND and OR evaluate no more than they need.

use std::collections::hash_map::Entry;
use std::ops::Deref;

use esker_sql_catalog::exec_error::ExecResult;
use esker_types::cmp::{self, CmpKind};
use esker_types::ctx::Work;
use esker_types::func::{FuncDef, FuncFlags, FuncTypes, SeededRand, merge};
use esker_types::{EvalCtx, SqlError, SqlResult, SqlType, TypeKind, Value, arith, cast};
use smallvec::SmallVec;

use super::boolean;
use super::{Arith, Case, CmpOp, EvalEnv, Expr, ExprKind, FuncCall, Match, StoredCall};

/// A value lent by the row or the tree, or a computed one.
pub enum Val<'r> {
    /// Lent.
    Ref(&'r Value),
    /// Computed.
    Own(Value),
}

impl Deref for Val<'_> {
    type Target = Value;
    #[inline]
    fn deref(&self) -> &Value {
        match self {
            Self::Ref(v) => v,
            Self::Own(v) => v,
        }
    }
}

impl Val<'_> {
    /// The value itself.
    #[inline]
    pub fn into_owned(self) -> Value {
        match self {
            Self::Ref(v) => v.clone(),
            Self::Own(v) => v,
        }
    }
}

impl Expr {
    /// The value for a row.
    #[inline]
    pub fn eval(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        self.eval_ref(row, env).map(Val::into_owned)
    }

    /// The value for a row, copied into `slot` (whose memory is reused).
    #[inline]
    pub fn eval_into(&self, row: &[Value], env: &EvalEnv<'_>, slot: &mut Value) -> ExecResult<()> {
        match self.eval_ref(row, env)? {
            Val::Own(v) => *slot = v,
            Val::Ref(Value::Str(new)) => match slot {
                Value::Str(old) => old.clone_from(new),
                _ => *slot = Value::Str(new.clone()),
            },
            Val::Ref(v) => *slot = v.clone(),
        }
        Ok(())
    }

    /// The value for a row, lent where possible.
    #[inline]
    pub fn eval_ref<'r>(&'r self, row: &'r [Value], env: &'r EvalEnv<'_>) -> ExecResult<Val<'r>> {
        Ok(match &self.kind {
            ExprKind::Column(slot) => Val::Ref(&row[*slot as usize]),
            ExprKind::Const(v) => Val::Ref(v),
            ExprKind::Outer { depth, slot } => {
                let outer = env
                    .outer_row(*depth)
                    .expect("an enclosing row for every level bound");
                Val::Ref(&outer[*slot as usize])
            }
            ExprKind::Param(nth) => match env.params.get(*nth as usize) {
                Some(v) => Val::Ref(v),
                None => Val::Own(Value::Null),
            },
            ExprKind::Recollate(arg) => return self.recollate(arg, row, env),
            _ => Val::Own(self.compute(row, env)?),
        })
    }

    /// Strings pass unchanged, everything else becomes text.
    fn recollate<'r>(
        &'r self,
        arg: &'r Expr,
        row: &'r [Value],
        env: &'r EvalEnv<'_>,
    ) -> ExecResult<Val<'r>> {
        let value = arg.eval_ref(row, env)?;
        if matches!(&*value, Value::Str(_) | Value::Null) {
            return Ok(value);
        }
        Ok(convert(env.ctx, value.into_owned(), &arg.ty, &self.ty).map(Val::Own)?)
    }

    fn compute(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        match &self.kind {
            ExprKind::Arith(arith) => arith.result(&self.ty, row, env),
            ExprKind::Unary(unary) => {
                let v = unary.arg.eval_ref(row, env)?;
                let (op, text) = (unary.op, &unary.text);
                Ok(arith::eval_unary(env.ctx, op, &v, &self.ty, text)?)
            }
            ExprKind::Func(call) => self.call(call, row, env),
            ExprKind::Stored(call) => call.result(row, env),
            ExprKind::Kept(kept) if kept.computes => {
                let value = kept.expr.eval(row, env)?;
                env.calls.keep(kept.id, value.clone());
                Ok(value)
            }
            ExprKind::Kept(kept) => Ok(env.calls.kept(kept.id)),
            ExprKind::Case(case) => match case.chosen(row, env)? {
                Some(chosen) => self.convert_from(chosen, row, env),
                None => Ok(Value::Null),
            },
            ExprKind::Coalesce(args) => self.first_of(args, row, env),
            ExprKind::NullIf(cmp) => match cmp.eval_bool(row, env)? {
                Some(true) => Ok(Value::Null),
                _ => self.convert_from(&cmp.left, row, env),
            },
            ExprKind::Cast(arg, name) => {
                let v = arg.eval_ref(row, env)?;
                Ok(cast::cast(env.ctx, &v, &arg.ty, &self.ty, name)?)
            }
            ExprKind::Convert(arg) => self.convert_from(arg, row, env),
            ExprKind::Number(arg, how) => {
                let v = arg.eval_ref(row, env)?;
                Ok(cast::to_number(env.ctx, &v, *how, &self.ty)?)
            }
            ExprKind::UserVar(name) => Ok(env.vars.get(name).map_or(Value::Null, |(v, _)| v)),
            ExprKind::Assign(name, value) => {
                let v = value.eval(row, env)?;
                env.vars.set(name, v.clone(), self.ty.clone());
                env.calls.assignments.set(env.calls.assignments.get() + 1);
                Ok(v)
            }
            ExprKind::SeededRand(call, seed) => seeded_rand(*call, seed, row, env),
            ExprKind::Subquery(query) => match env.queries {
                Some(queries) => queries.evaluate(query, row, env),
                None => unreachable!("no subquery is bound where none can run"),
            },
            ExprKind::Match(call) => call.relevance(row, env),
            ExprKind::Grouping(marks) => grouping(marks, row, env),
            ExprKind::Aggregate(_) | ExprKind::Window(_) | ExprKind::Key(_) | ExprKind::Row(_) => {
                unreachable!("the binder leaves none of these in a finished expression")
            }
            _ => Ok(boolean::value(self.eval_bool(row, env)?)),
        }
    }

    fn call(&self, call: &FuncCall, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        if call.def.flags.has(FuncFlags::REPEATS) {
            return call.repeat(row, env);
        }
        let (call, compute): (&FuncCall, Kernel) = match call.unquotes() {
            Some(extract) => (extract, FuncDef::call_unquoted),
            None => (call, FuncDef::call),
        };
        let mut args: SmallVec<[Val<'_>; 4]> = SmallVec::new();
        for arg in &call.args {
            args.push(arg.eval_ref(row, env)?);
        }
        let lent: SmallVec<[&Value; 4]> = args.iter().map(|arg| &**arg).collect();
        let types = FuncTypes::new(&call.arg_types, &call.signature);
        Ok(compute(call.def, env.ctx, &lent, &types)?)
    }

    /// The first of these values that is not NULL.
    fn first_of(&self, args: &[Expr], row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        for arg in args {
            let v = self.convert_from(arg, row, env)?;
            if !v.is_null() {
                return Ok(v);
            }
        }
        Ok(Value::Null)
    }

    /// The value of `arg` as this expression's type.
    fn convert_from(&self, arg: &Expr, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let v = arg.eval(row, env)?;
        Ok(convert(env.ctx, v, &arg.ty, &self.ty)?)
    }
}

impl Arith {
    #[inline]
    fn result(&self, ty: &SqlType, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let [left, right] = &self.args;
        let a = left.eval_ref(row, env)?;
        if a.is_null() && self.leaves_out_right(ty) {
            return Ok(Value::Null);
        }
        let b = right.eval_ref(row, env)?;
        Ok(arith::eval(env.ctx, self.op, &a, &b, ty, &self.text)?)
    }
}

impl Case {
    /// What the first WHEN that is true, or ELSE, has for a row.
    #[inline]
    fn chosen(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<&Expr>> {
        for (when, then) in &self.whens {
            if when.is_true(row, env)? {
                return Ok(Some(then));
            }
        }
        Ok(self.otherwise.as_ref())
    }
}

/// RAND(seed): the next number of this call, whose first row says the seed.
fn seeded_rand(call: u32, seed: &Expr, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
    let mut generators = env.calls.generators.borrow_mut();
    let generator = match generators.entry(call) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let seed = seed.eval(row, env)?;
            let seed = match seed.is_null() {
                true => 0,
                false => cast::to_i64(env.ctx, &seed)?,
            };
            new.insert(SeededRand::new(seed))
        }
    };
    Ok(Value::Double(generator.draw()))
}

/// GROUPING: a bit for each key that is rolled up.
fn grouping(marks: &[Expr], row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
    let mut bits = 0;
    for mark in marks {
        let is_set = matches!(&*mark.eval_ref(row, env)?, Value::Int(1));
        bits = bits << 1 | i64::from(is_set);
    }
    Ok(Value::Int(bits))
}

impl StoredCall {
    fn result(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let Some(queries) = env.queries else {
            return Err(SqlError::not_supported("a stored function in this place").into());
        };
        let args = self.args.iter().map(|arg| arg.eval(row, env));
        queries.call_stored(self, args.collect::<ExecResult<_>>()?)
    }
}

impl Match {
    /// The relevance of a row.
    fn relevance(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let Some(queries) = env.queries else {
            return Err(SqlError::not_supported("MATCH where no tables are read").into());
        };
        let search = queries.search(self, env)?;
        let mut texts = SmallVec::<[Val<'_>; 4]>::new();
        for column in &self.columns {
            texts.push(column.eval_ref(row, env)?);
        }
        let texts = texts.iter().map(|value| match &**value {
            Value::Str(text) => text.as_ref(),
            _ => &[][..],
        });
        let texts: SmallVec<[&[u8]; 4]> = texts.collect();
        let relevance = search.relevance(&texts, &mut Work::new(env.ctx.session))?;
        Ok(Value::Double(relevance.into()))
    }
}

/// How a call is computed of its arguments.
type Kernel = fn(&FuncDef, &EvalCtx<'_>, &[&Value], &FuncTypes<'_>) -> SqlResult<Value>;

impl FuncCall {
    /// The call that takes a part of a document, if this one is about the text of that part (`->>`).
    #[inline]
    fn unquotes(&self) -> Option<&FuncCall> {
        if !self.def.flags.has(FuncFlags::UNQUOTES) {
            return None;
        }
        match &self.args[0].kind {
            ExprKind::Func(part) if part.def.flags.has(FuncFlags::EXTRACTS) => Some(part),
            _ => None,
        }
    }

    /// BENCHMARK: evaluates the second argument as often as the first says. A kill or a time limit ends it.
    fn repeat(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value> {
        let (count, repeated) = (&self.args[0], &self.args[1]);
        let count = count.eval_ref(row, env)?;
        let args = [&*count, &Value::Null];
        let types = FuncTypes::new(&self.arg_types, &self.signature);
        let result = self.def.call(env.ctx, &args, &types)?;
        let times = match args[0] {
            _ if result.is_null() => 0,
            Value::UInt(n) => *n,
            n => cast::to_i64(env.ctx, n)?.unsigned_abs(),
        };
        for _ in 0..times {
            env.turn()?;
            repeated.eval_ref(row, env)?;
        }
        Ok(result)
    }
}

/// Implicit conversion between static types (results of CASE, columns of UNION, …).
pub fn convert(ctx: &EvalCtx<'_>, v: Value, from: &SqlType, to: &SqlType) -> SqlResult<Value> {
    let same = match (&v, &to.kind) {
        (Value::Null, _) => true,
        // Bytes that become characters are looked at.
        (Value::Str(_), _) if to.is_string() => {
            let becomes_text = from.collation.is_binary() && !to.collation.is_binary();
            from.collation.same_bytes(to.collation) && !becomes_text
        }
        (Value::Int(_), k) => is_plain_integer(k) && !to.unsigned || *k == TypeKind::Year,
        (Value::UInt(_), k) => is_plain_integer(k) && to.unsigned,
        (Value::Double(_), TypeKind::Double | TypeKind::Float)
        | (Value::Date(_), TypeKind::Date)
        | (Value::Time(_), TypeKind::Time)
        | (Value::DateTime(_), TypeKind::DateTime | TypeKind::Timestamp)
        | (Value::Bit(..), TypeKind::Bit) => true,
        (Value::Decimal(d), TypeKind::Decimal) => d.scale() == to.decimals,
        (Value::Label(..), TypeKind::Enum(_) | TypeKind::Set(_)) => from.kind == to.kind,
        (Value::Json(_), TypeKind::Json) => true,
        _ => false,
    };
    if same {
        Ok(v)
    } else {
        merge::convert(ctx, &v, from, to)
    }
}

fn is_plain_integer(kind: &TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::MediumInt
            | TypeKind::Int
            | TypeKind::BigInt
    )
}

/// Truth of `a op b`.
#[inline]
pub fn compare_values(
    op: CmpOp,
    a: &Value,
    b: &Value,
    kind: CmpKind,
    types: (&SqlType, &SqlType),
    env: &EvalEnv<'_>,
) -> ExecResult<Option<bool>> {
    let ord = match (a, b) {
        (Value::Int(a), Value::Int(b)) if kind == CmpKind::Int => a.cmp(b),
        (Value::Null, Value::Null) => {
            return Ok((op == CmpOp::NullSafeEq).then_some(true));
        }
        (Value::Null, _) | (_, Value::Null) => {
            return Ok((op == CmpOp::NullSafeEq).then_some(false));
        }
        _ => match cmp::compare(env.ctx, a, b, kind, types)? {
            Some(ord) => ord,
            None => return Ok((op == CmpOp::NullSafeEq).then_some(false)),
        },
    };
    Ok(Some(op.holds(ord)))
}
