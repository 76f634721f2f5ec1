//! Conditions to key ranges of an index.
//!
//! Neighbours: `conds` hands over the conditions on a table, `edge` places values among a column's,
//! the key codec encodes; scans ask [`RangeSpec::build`] when they open.
//! **Invariants**: the ranges have every row for which the conditions are true (they may have more:
//! conditions are evaluated again); ranges of one build are sorted and do not touch; there are never
//! more than [`MAX_RANGES`].

use esker_sql_catalog::catalog::IndexPart;
use esker_sql_catalog::codec::{KeyCodec, KeyRange};
use esker_sql_catalog::exec_error::ExecResult;
use esker_types::cmp::CmpKind;
use esker_types::{SqlType, TypeKind, Value, ValueRef};

use super::KeyOperand;
use super::edge::{Edge, locate, usable};
use super::range_build::Builder;
use crate::expr::{Between, CmpOp, EvalEnv, Expr, ExprKind, Like, Test};

/// Most ranges of one scan; beyond, fewer key parts are used.
pub const MAX_RANGES: usize = 20_000;

/// Conditions in the form ranges are made of.
#[derive(Debug, Clone)]
pub struct RangeSpec {
    pred: Pred,
}

/// What a condition says of an index.
#[derive(Debug, Clone)]
pub(super) enum Pred {
    /// Nothing.
    Any,
    /// It is never true.
    None,
    And(Vec<Pred>),
    Or(Vec<Pred>),
    /// Something about one key part.
    Part(usize, PartTest),
}

/// A condition on one key part; values are computed when the scan opens.
#[derive(Debug, Clone)]
pub(super) enum PartTest {
    Cmp(CmpOp, Expr, CmpKind),
    In(Vec<(Expr, CmpKind)>),
    Null,
    NotNull,
    /// LIKE with this pattern, in the column's collation.
    Like(Expr, Option<char>),
}

impl RangeSpec {
    /// What `conds` say of keys with these parts; `slots` are the table's slots by column. `None` when
    /// they say nothing.
    pub fn new(
        parts: &[IndexPart],
        columns: &[SqlType],
        slots: &[Option<u32>],
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<Self> {
        let shape = Shape {
            parts,
            columns,
            slots,
            known,
        };
        let preds = conds
            .iter()
            .map(|c| shape.pred(c))
            .filter(|p| !matches!(p, Pred::Any));
        let preds: Vec<Pred> = preds.collect();
        let useful = preds.iter().any(Pred::starts_index);
        useful.then(|| RangeSpec {
            pred: Pred::And(preds),
        })
    }

    /// Of conditions that are known already.
    pub(super) fn of(pred: Pred) -> Self {
        Self { pred }
    }

    /// What each of `conds` says with constants.
    pub(super) fn preds(
        parts: &[IndexPart],
        columns: &[SqlType],
        slots: &[Option<u32>],
        conds: &[Expr],
    ) -> Vec<Pred> {
        let shape = Shape {
            parts,
            columns,
            slots,
            known: &Expr::is_constant,
        };
        conds.iter().map(|c| shape.pred(c)).collect()
    }

    /// The ranges, ascending.
    pub fn build(
        &self,
        codec: &KeyCodec,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> ExecResult<Vec<KeyRange>> {
        let builder = Builder { codec, row, env };
        let runs = builder.build(&self.pred)?;
        Ok(runs.into_iter().map(KeyRange::from).collect())
    }

    /// The conditions.
    pub(super) fn pred(&self) -> &Pred {
        &self.pred
    }

    /// Are all compared values constants?
    pub(crate) fn is_constant(&self) -> bool {
        self.pred.all_values(&|value| value.as_const().is_some())
    }

    /// Can all compared values be evaluated while the statement is planned?
    pub(crate) fn is_foreseeable(&self) -> bool {
        self.pred.all_values(&Expr::is_foreseeable)
    }

    /// How many tests of key parts, and members of lists, it has.
    pub(crate) fn tests(&self) -> usize {
        self.pred.tests()
    }

    /// About how many ranges it makes.
    pub(crate) fn ranges(&self) -> usize {
        self.pred.ranges()
    }

    /// How many leading key parts are equal to one value each.
    pub(crate) fn equal_parts(&self) -> usize {
        let mut parts = 0;
        while self.pred.pins(parts) {
            parts += 1;
        }
        parts
    }

    /// How many leading key parts the conditions speak about.
    pub(crate) fn leading_parts(&self) -> usize {
        let mut parts = 0;
        while self.pred.mentions(parts) {
            parts += 1;
        }
        parts
    }
}

impl Pred {
    /// Does it restrict the first key part?
    fn starts_index(&self) -> bool {
        match self {
            Pred::Any => false,
            Pred::None => true,
            Pred::Part(part, _) => *part == 0,
            Pred::And(preds) => preds.iter().any(Pred::starts_index),
            Pred::Or(preds) => preds.iter().all(Pred::starts_index),
        }
    }

    /// The same of other parts; of those that `place` does not know, nothing.
    pub(super) fn of_parts(&self, place: &dyn Fn(usize) -> Option<usize>) -> Pred {
        let all = |preds: &[Pred]| preds.iter().map(|p| p.of_parts(place)).collect::<Vec<_>>();
        match self {
            Pred::Any => Pred::Any,
            Pred::None => Pred::None,
            Pred::Part(part, test) => match place(*part) {
                Some(part) => Pred::Part(part, test.clone()),
                None => Pred::Any,
            },
            Pred::And(preds) => Pred::And(all(preds)),
            Pred::Or(preds) => {
                let preds = all(preds);
                match preds.iter().any(|p| matches!(p, Pred::Any)) {
                    true => Pred::Any,
                    false => Pred::Or(preds),
                }
            }
        }
    }

    fn tests(&self) -> usize {
        match self {
            Pred::Any | Pred::None => 0,
            Pred::Part(_, PartTest::In(members)) => members.len(),
            Pred::Part(..) => 1,
            Pred::And(preds) | Pred::Or(preds) => preds.iter().map(Pred::tests).sum(),
        }
    }

    fn ranges(&self) -> usize {
        match self {
            Pred::None => 0,
            Pred::Part(_, PartTest::In(members)) => members.len(),
            Pred::Any | Pred::Part(..) => 1,
            Pred::And(preds) => preds.iter().map(Pred::ranges).max().unwrap_or(1),
            Pred::Or(preds) => preds.iter().map(Pred::ranges).sum(),
        }
    }

    fn pins(&self, part: usize) -> bool {
        match self {
            Pred::Part(p, PartTest::Cmp(op, ..)) => *p == part && *op == CmpOp::Eq,
            Pred::And(preds) => preds.iter().any(|p| p.pins(part)),
            Pred::Any | Pred::None | Pred::Or(_) | Pred::Part(..) => false,
        }
    }

    fn mentions(&self, part: usize) -> bool {
        match self {
            Pred::Any | Pred::None => false,
            Pred::Part(p, _) => *p == part,
            Pred::And(preds) | Pred::Or(preds) => preds.iter().any(|p| p.mentions(part)),
        }
    }

    /// Are all compared values such as `is` says?
    fn all_values(&self, is: &dyn Fn(&Expr) -> bool) -> bool {
        match self {
            Pred::Any | Pred::None => true,
            Pred::And(preds) | Pred::Or(preds) => preds.iter().all(|pred| pred.all_values(is)),
            Pred::Part(_, test) => match test {
                PartTest::Null | PartTest::NotNull => true,
                PartTest::Cmp(_, e, _) | PartTest::Like(e, _) => is(e),
                PartTest::In(members) => members.iter().all(|(e, _)| is(e)),
            },
        }
    }

    /// The only part it speaks about.
    pub(super) fn only_part(&self) -> Option<usize> {
        match self {
            Pred::Any | Pred::None => None,
            Pred::Part(part, _) => Some(*part),
            Pred::And(preds) | Pred::Or(preds) => {
                let mut parts = preds.iter().map(Pred::only_part);
                let first = parts.next()??;
                parts.all(|p| p == Some(first)).then_some(first)
            }
        }
    }
}

/// Reads conditions.
struct Shape<'a> {
    parts: &'a [IndexPart],
    columns: &'a [SqlType],
    slots: &'a [Option<u32>],
    /// Can the expression be evaluated when the scan opens?
    known: &'a dyn Fn(&Expr) -> bool,
}

impl Shape<'_> {
    /// The key part an expression is, and its column's type.
    fn part(&self, e: &Expr) -> Option<(usize, &SqlType)> {
        let slot = e.as_column()?;
        let col = self.slots.iter().position(|s| *s == Some(slot))?;
        let part = self.parts.iter().position(|p| p.col == col)?;
        Some((part, &self.columns[col]))
    }

    fn pred(&self, cond: &Expr) -> Pred {
        match &cond.kind {
            ExprKind::Const(_) => match crate::expr::fold::constant_boolean(cond) {
                Some(false) => Pred::None,
                _ => Pred::Any,
            },
            ExprKind::And(conds) => {
                let preds = conds
                    .iter()
                    .map(|c| self.pred(c))
                    .filter(|p| !matches!(p, Pred::Any));
                let preds: Vec<Pred> = preds.collect();
                if preds.is_empty() {
                    Pred::Any
                } else {
                    Pred::And(preds)
                }
            }
            ExprKind::Or(conds) => {
                let preds: Vec<Pred> = conds.iter().map(|c| self.pred(c)).collect();
                match preds.iter().any(|p| matches!(p, Pred::Any)) {
                    true => Pred::Any,
                    false => Pred::Or(preds),
                }
            }
            ExprKind::Cmp(cmp) => {
                let direct = self.comparison(cmp.op, &cmp.left, &cmp.right, cmp.kind);
                direct
                    .or_else(|| self.comparison(cmp.op.flip(), &cmp.right, &cmp.left, cmp.kind))
                    .unwrap_or(Pred::Any)
            }
            ExprKind::Between(b) => self.between(b),
            ExprKind::InList(list) if !list.negated => self.in_list(list).unwrap_or(Pred::Any),
            ExprKind::Is {
                arg,
                test: Test::Null,
                negated,
            } => match (self.part(arg), negated) {
                (Some((part, _)), true) => Pred::Part(part, PartTest::NotNull),
                (Some((part, _)), false) => Pred::Part(part, PartTest::Null),
                (None, _) => Pred::Any,
            },
            ExprKind::Like(like) if !like.negated => self.like(like),
            _ => Pred::Any,
        }
    }

    fn between(&self, between: &Between) -> Pred {
        let (above, below) = match between.negated {
            false => (CmpOp::Ge, CmpOp::Le),
            true => (CmpOp::Lt, CmpOp::Gt),
        };
        let ((low, low_kind), (high, high_kind)) = (&between.low, &between.high);
        let low = self.comparison(above, &between.arg, low, *low_kind);
        let high = self.comparison(below, &between.arg, high, *high_kind);
        match (low, high, between.negated) {
            (Some(low), Some(high), true) => Pred::Or(vec![low, high]),
            (_, _, true) | (None, None, _) => Pred::Any,
            (low, high, false) => Pred::And(low.into_iter().chain(high).collect()),
        }
    }

    fn like(&self, like: &Like) -> Pred {
        match self.part(&like.text) {
            Some((part, ty))
                if ty.is_string()
                    && like.collation == ty.collation
                    && like.pattern.ty.is_string()
                    && (self.known)(&like.pattern) =>
            {
                Pred::Part(part, PartTest::Like(like.pattern.clone(), like.escape))
            }
            _ => Pred::Any,
        }
    }

    fn comparison(&self, op: CmpOp, arg: &Expr, value: &Expr, kind: CmpKind) -> Option<Pred> {
        let (part, ty) = self.part(arg)?;
        if !(self.known)(value) || !usable(ty, value, kind) {
            return None;
        }
        // The order of an ENUM or SET is that of its labels' numbers, not of their texts.
        let has_labels = matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
        let is_textual = has_labels && matches!(kind, CmpKind::Str(_));
        if is_textual && !matches!(op, CmpOp::Eq | CmpOp::NullSafeEq) {
            return None;
        }
        Some(Pred::Part(part, PartTest::Cmp(op, value.clone(), kind)))
    }

    fn in_list(&self, list: &crate::expr::InList) -> Option<Pred> {
        let (part, ty) = self.part(&list.arg)?;
        let mut members = list.list.iter().zip(&list.kinds);
        let fits = members.all(|(m, kind)| (self.known)(m) && usable(ty, m, *kind));
        fits.then(|| {
            let kinds = list.kinds.iter().copied();
            let members = list.list.iter().cloned().zip(kinds).collect();
            Pred::Part(part, PartTest::In(members))
        })
    }
}

/// Encodes operands of leading key parts into `out`; false when no key can match.
pub fn encode_operands(
    codec: &KeyCodec,
    operands: &[KeyOperand],
    row: &[Value],
    env: &EvalEnv<'_>,
    out: &mut Vec<u8>,
) -> ExecResult<bool> {
    for (nth, operand) in operands.iter().enumerate() {
        let value = operand.expr.eval_ref(row, env)?;
        let part = &codec.parts()[nth];
        let zone = &env.ctx.time_zone;
        match (&*value, &part.ty.kind) {
            (Value::Null, _) => {
                if !operand.null_safe || !part.ty.nullable {
                    return Ok(false);
                }
                codec.encode_part(nth, ValueRef::Null, zone, out)?;
            }
            (Value::Int(_), TypeKind::BigInt) if !part.ty.unsigned => {
                codec.encode_part(nth, value.as_ref(), zone, out)?;
            }
            // What is always located is compared with exact columns exactly.
            _ => match locate(&env.ctx.quiet(), &value, &part.ty, CmpKind::Decimal)? {
                Edge::At(v) => codec.encode_part(nth, v.as_ref(), zone, out)?,
                _ => return Ok(false),
            },
        }
    }
    Ok(true)
}
