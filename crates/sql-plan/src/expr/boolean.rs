//! Three-valued logic: conditions as TRUE, FALSE or UNKNOWN.
//!
//! Neighbours: `eval` for operands; filters and joins ask [`Expr::is_true`].
//! **Invariants**: `None` is UNKNOWN; AND stops at the first FALSE, OR at the first TRUE, so a NULL
//! operand never hides a decided result.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecResult;
use esker_types::cmp::{self, CmpKind};
use esker_types::{SqlType, Value, cast};

use super::eval::compare_values;
use super::{Between, Cmp, CmpOp, EvalEnv, Expr, ExprKind, InList, Like, Test, rowkey};

/// A boolean as a value: 1, 0 or NULL.
pub(crate) fn value(boolean: Option<bool>) -> Value {
    boolean.map_or(Value::Null, Value::bool)
}

/// NOT.
#[inline]
pub(crate) fn not(boolean: Option<bool>) -> Option<bool> {
    boolean.map(|b| !b)
}

fn negate_if(negated: bool, boolean: Option<bool>) -> Option<bool> {
    if negated { not(boolean) } else { boolean }
}

impl Expr {
    /// Is the condition TRUE (neither FALSE nor UNKNOWN)?
    #[inline]
    pub fn is_true(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<bool> {
        Ok(self.eval_bool(row, env)? == Some(true))
    }

    /// The condition in three-valued logic; `None` is UNKNOWN.
    pub fn eval_bool(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<bool>> {
        Ok(match &self.kind {
            ExprKind::Cmp(cmp) => cmp.eval_bool(row, env)?,
            ExprKind::And(conds) => {
                let mut unknown = false;
                for cond in conds {
                    match cond.eval_bool(row, env)? {
                        Some(false) => return Ok(Some(false)),
                        Some(true) => {}
                        None => unknown = true,
                    }
                }
                (!unknown).then_some(true)
            }
            ExprKind::Or(conds) => {
                let mut unknown = false;
                for cond in conds {
                    match cond.eval_bool(row, env)? {
                        Some(true) => return Ok(Some(true)),
                        Some(false) => {}
                        None => unknown = true,
                    }
                }
                (!unknown).then_some(false)
            }
            ExprKind::Xor(args) => {
                match (args[0].eval_bool(row, env)?, args[1].eval_bool(row, env)?) {
                    (Some(a), Some(b)) => Some(a != b),
                    _ => None,
                }
            }
            ExprKind::Not(arg) => not(arg.eval_bool(row, env)?),
            ExprKind::Is { arg, test, negated } => {
                let found = match test {
                    Test::Null => arg.eval_ref(row, env)?.is_null(),
                    Test::True => arg.eval_bool(row, env)? == Some(true),
                    Test::False => arg.eval_bool(row, env)? == Some(false),
                };
                Some(found != *negated)
            }
            ExprKind::Between(between) => between.eval_bool(row, env)?,
            ExprKind::InList(list) => list.eval_bool(row, env)?,
            ExprKind::Like(like) => like.eval_bool(row, env)?,
            _ => match &*self.eval_ref(row, env)? {
                Value::Null => None,
                Value::Int(v) => Some(*v != 0),
                other => Some(cast::to_bool(env.ctx, other)?),
            },
        })
    }
}

impl Cmp {
    /// Truth of the comparison.
    #[inline]
    pub fn eval_bool(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<bool>> {
        let left = self.left.eval_ref(row, env)?;
        if left.is_null() && self.op != CmpOp::NullSafeEq {
            return Ok(None);
        }
        let right = self.right.eval_ref(row, env)?;
        compare_values(
            self.op,
            &left,
            &right,
            self.kind,
            (&self.left.ty, &self.right.ty),
            env,
        )
    }
}

impl Between {
    fn eval_bool(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<bool>> {
        let arg = self.arg.eval_ref(row, env)?;
        if arg.is_null() {
            return Ok(None);
        }
        let low = self.low.0.eval_ref(row, env)?;
        let types = (&self.arg.ty, &self.low.0.ty);
        let above = compare_values(CmpOp::Ge, &arg, &low, self.low.1, types, env)?;
        if above == Some(false) {
            return Ok(Some(self.negated));
        }
        let high = self.high.0.eval_ref(row, env)?;
        let types = (&self.arg.ty, &self.high.0.ty);
        let below = compare_values(CmpOp::Le, &arg, &high, self.high.1, types, env)?;
        let inside = match (above, below) {
            (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        Ok(negate_if(self.negated, inside))
    }
}

impl InList {
    fn eval_bool(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<bool>> {
        let arg = self.arg.eval_ref(row, env)?;
        if arg.is_null() {
            return Ok(None);
        }
        let mut unknown = false;
        if let Some(sorted) = &self.sorted {
            unknown = sorted.has_null;
            if sorted.find(&arg, &self.arg.ty, env)? {
                return Ok(Some(!self.negated));
            }
        } else {
            for (member, kind) in self.list.iter().zip(&self.kinds) {
                let types = (&self.arg.ty, &member.ty);
                let member = member.eval_ref(row, env)?;
                match compare_values(CmpOp::Eq, &arg, &member, *kind, types, env)? {
                    Some(true) => return Ok(Some(!self.negated)),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
        }
        Ok(if unknown { None } else { Some(self.negated) })
    }
}

/// Texts from which on a list has keys: to compare a text with that many costs more than to make its key.
const MIN_KEYED_TEXTS: usize = 16;
/// Room for the key of a text of usual length.
const KEY_BYTES: usize = 64;

impl super::SortedList {
    /// With the keys of its members, if these are many texts, and `arg` has keys like theirs.
    pub fn keyed_for(mut self, arg: &SqlType) -> Self {
        let are_texts = matches!(self.kind, CmpKind::Str(_));
        let is_long = self.values.len() >= MIN_KEYED_TEXTS;
        if is_long && are_texts && rowkey::same_representation(arg, &self.ty, self.kind) {
            let key_of = |value: &Value| {
                let mut key = Vec::new();
                rowkey::encode_for(value, self.kind, &mut key);
                key.into_boxed_slice()
            };
            self.keys = Some(Arc::new(self.values.iter().map(key_of).collect()));
        }
        self
    }

    fn find(&self, arg: &Value, ty: &SqlType, env: &EvalEnv<'_>) -> ExecResult<bool> {
        if let Some(keys) = &self.keys {
            let mut key = Vec::with_capacity(KEY_BYTES);
            rowkey::encode_for(arg, self.kind, &mut key);
            return Ok(keys.contains(&*key));
        }
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let mid = low + (high - low) / 2;
            let found = match (arg, &self.values[mid]) {
                (Value::Int(a), Value::Int(b)) if self.kind == CmpKind::Int => Some(a.cmp(b)),
                (a, b) => cmp::compare(env.ctx, a, b, self.kind, (ty, &self.ty))?,
            };
            match found {
                Some(Ordering::Equal) => return Ok(true),
                Some(Ordering::Less) => high = mid,
                Some(Ordering::Greater) => low = mid + 1,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

impl Like {
    fn eval_bool(&self, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Option<bool>> {
        let text = self.text.eval_ref(row, env)?;
        let pattern = self.pattern.eval_ref(row, env)?;
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        // Beside bytes a text has those of its own character set, and bytes beside a text are read in it.
        let seen = |text, expr: &Expr| expr.ty.collation.recode(text, self.collation);
        let text = seen(as_text(&text, &self.text), &self.text);
        let pattern = seen(as_text(&pattern, &self.pattern), &self.pattern);
        let session = env.ctx.session;
        let found = (self.collation).like(&text, &pattern, self.escape, session)?;
        Ok(Some(found != self.negated))
    }
}

/// A value as the text LIKE looks at.
fn as_text<'v>(value: &'v Value, expr: &Expr) -> Cow<'v, [u8]> {
    match value {
        Value::Str(s) => Cow::Borrowed(s),
        Value::Label(_, s) => Cow::Borrowed(s),
        other => cast::to_str(other, &expr.ty),
    }
}
