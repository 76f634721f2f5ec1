//! Compiles predicates into vectorized comparisons, lists and connectives.
//!
//! Neighbours: `compile` has the rest of the compiler; `expr::boolean` defines what conditions mean. **Invariant**:
//! numbers are compared only where they compare as the values do: at one scale, as temporal values, or as integers.

use esker_sql_plan::expr::{Between, CmpOp, Expr, ExprKind, InList, Test};
use esker_types::cmp::CmpKind;
use esker_types::{Value, cast};

use super::compile::{Compiler, MOST_DIGITS};
use super::program::{BOOLEAN, Kind, Node, Operand, midnight};

impl Compiler<'_> {
    /// The boolean of a condition.
    pub(super) fn boolean(&mut self, expr: &Expr) -> Option<Operand> {
        let marks = self.marks();
        if let Some(found) = self.native_boolean(expr) {
            return Some(found);
        }
        self.back_to(marks);
        self.by_row(expr, true, BOOLEAN)
    }

    fn native_boolean(&mut self, expr: &Expr) -> Option<Operand> {
        if let Some(value) = self.constant(expr) {
            return Some(match value {
                Value::Null => Operand::Null,
                Value::Str(_) => return None,
                value => Operand::Const(cast::to_bool(self.env.ctx, &value).ok()?.into()),
            });
        }
        if let Some(found) = self.condition(expr) {
            return Some(found);
        }
        match &expr.kind {
            ExprKind::Column(_) | ExprKind::Arith(_) | ExprKind::Case(_) => {
                let (operand, kind) = self.number(expr)?;
                kind.scale()?;
                Some(self.node(Node::IsNotZero(operand)))
            }
            _ => None,
        }
    }

    /// A node for what can only be a condition.
    pub(super) fn condition(&mut self, expr: &Expr) -> Option<Operand> {
        Some(match &expr.kind {
            ExprKind::Cmp(cmp) => self.compare(cmp.op, (&cmp.left, &cmp.right), cmp.kind)?,
            ExprKind::And(conds) => {
                let conds = self.booleans(conds)?;
                self.node(Node::And(conds))
            }
            ExprKind::Or(conds) => {
                let conds = self.booleans(conds)?;
                self.node(Node::Or(conds))
            }
            ExprKind::Xor(args) => {
                let args = [self.boolean(&args[0])?, self.boolean(&args[1])?];
                self.node(Node::Xor(args))
            }
            ExprKind::Not(arg) => {
                let arg = self.boolean(arg)?;
                self.node(Node::Not(arg))
            }
            ExprKind::Is { arg, test, negated } => {
                let found = match (test, arg.as_column()) {
                    (Test::Null, Some(slot)) => {
                        let column = self.column(slot)?;
                        self.node(Node::ColumnIsNull(column))
                    }
                    (Test::Null, None) => {
                        let (arg, _) = self.number(arg)?;
                        self.node(Node::IsNull(arg))
                    }
                    (Test::True | Test::False, _) => {
                        let arg = self.boolean(arg)?;
                        self.node(Node::Is(arg, *test == Test::True))
                    }
                };
                self.negated_if(*negated, found)
            }
            ExprKind::Between(between) => self.between(between)?,
            ExprKind::InList(list) => self.among(list)?,
            _ => return None,
        })
    }

    fn booleans(&mut self, exprs: &[Expr]) -> Option<Vec<Operand>> {
        exprs.iter().map(|expr| self.boolean(expr)).collect()
    }

    fn negated_if(&mut self, negated: bool, boolean: Operand) -> Operand {
        match negated {
            true => self.node(Node::Not(boolean)),
            false => boolean,
        }
    }

    pub(super) fn compare(
        &mut self,
        op: CmpOp,
        build_sides: (&Expr, &Expr),
        kind: CmpKind,
    ) -> Option<Operand> {
        let (left, right) = (self.number(build_sides.0)?, self.number(build_sides.1)?);
        let args = self.aligned(left, right, kind)?;
        Some(self.node(match op {
            CmpOp::NullSafeEq => Node::NullSafeEqual(args),
            op => Node::Compare(op, args),
        }))
    }

    /// Two numbers that compare as the values do.
    fn aligned(
        &mut self,
        (a, a_kind): (Operand, Kind),
        (b, b_kind): (Operand, Kind),
        kind: CmpKind,
    ) -> Option<[Operand; 2]> {
        match (kind, a_kind, b_kind) {
            (CmpKind::Int, Kind::Int { .. }, Kind::Int { .. })
            | (CmpKind::DateTime, Kind::Date, Kind::Date)
            | (CmpKind::Time, Kind::Time, Kind::Time) => Some([a, b]),
            (CmpKind::Decimal, _, _) => {
                let (a_scale, b_scale) = (a_kind.scale()?, b_kind.scale()?);
                let scale = a_scale.max(b_scale);
                Some([
                    self.scaled(a, scale - a_scale)?,
                    self.scaled(b, scale - b_scale)?,
                ])
            }
            (CmpKind::DateTime, _, _) => {
                Some([self.temporal(a, a_kind)?, self.temporal(b, b_kind)?])
            }
            _ => None,
        }
    }

    fn temporal(&mut self, operand: Operand, kind: Kind) -> Option<Operand> {
        match (kind, operand) {
            (Kind::DateTime, _) => Some(operand),
            (Kind::Date, Operand::Const(n)) => Some(Operand::Const(midnight(n))),
            (Kind::Date, _) => Some(self.node(Node::Midnight(operand))),
            _ => None,
        }
    }

    fn between(&mut self, between: &Between) -> Option<Operand> {
        let low = (&between.arg, &between.low.0);
        let high = (&between.arg, &between.high.0);
        let above = self.compare(CmpOp::Ge, low, between.low.1)?;
        let below = self.compare(CmpOp::Le, high, between.high.1)?;
        let inside = self.node(Node::And(vec![above, below]));
        Some(self.negated_if(between.negated, inside))
    }

    fn among(&mut self, list: &InList) -> Option<Operand> {
        let (arg, arg_kind) = self.number(&list.arg)?;
        let (mut numbers, mut has_null) = (Vec::new(), false);
        let mut take = |value: &Value, kind: CmpKind| {
            match value {
                Value::Null => has_null = true,
                value => numbers.extend(same_number(value, arg_kind, kind)?),
            }
            Some(())
        };
        match &list.sorted {
            Some(sorted) => {
                for value in &sorted.values {
                    take(value, sorted.kind)?;
                }
                has_null |= sorted.has_null;
            }
            None => {
                for (member, kind) in list.list.iter().zip(&list.kinds) {
                    take(&self.constant(member)?, *kind)?;
                }
            }
        }
        numbers.sort_unstable();
        let found = self.node(Node::Among {
            arg,
            numbers,
            has_null,
        });
        Some(self.negated_if(list.negated, found))
    }
}

/// The number that a member of a list has among numbers of `kind`; `Some(None)` if no such number is equal to it.
fn same_number(value: &Value, kind: Kind, by: CmpKind) -> Option<Option<i64>> {
    let own = Kind::of(value)?;
    match (by, kind, own) {
        (CmpKind::Int, Kind::Int { .. }, Kind::Int { .. }) => Some(own.number(value)),
        (CmpKind::DateTime, Kind::Date, Kind::Date)
        | (CmpKind::DateTime, Kind::DateTime, Kind::DateTime)
        | (CmpKind::Time, Kind::Time, Kind::Time) => own.number(value).map(Some),
        (CmpKind::Decimal, _, _) => {
            let (scale, own_scale) = (kind.scale()?, own.scale()?);
            let digits = own.number(value)?;
            if own_scale <= scale {
                let more = scale - own_scale;
                let factor = (more <= MOST_DIGITS).then(|| 10i64.pow(more.into()))?;
                return Some(digits.checked_mul(factor));
            }
            let less = own_scale - scale;
            let factor = (less <= MOST_DIGITS).then(|| 10i64.pow(less.into()))?;
            Some((digits % factor == 0).then_some(digits / factor))
        }
        _ => None,
    }
}
