//! Transitive closure of range predicates: of `a.x = b.y AND a.x BETWEEN 1 AND 5` also `b.y BETWEEN 1 AND 5`, so that
//! each of the tables can be read in the range alone.
//!
//! Neighbours: `join_order` adds what follows to the conditions of a join; `join_search` prices a lookup by the
//! equality, `equalities` does the same for the equalities themselves. `docs/decisions/lookups.md` has the reasons.
//! **Invariants**: columns are only exchanged where equal values compare alike with any third one: exact numbers,
//! temporal values of one type, texts in one collation; constants stay as they were written, and those are left where
//! they are that are converted for each row, which may warn; what is added follows from conditions that are evaluated,
//! so leaving it out is never wrong, either.

use esker_types::cmp::CmpKind;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{SqlType, TypeKind, Value};

use super::conds::{SlotMap, TableSet};
use crate::bind::equated_slots;
use crate::expr::{CmpOp, Expr, ExprKind, walk};

/// Most conditions that are added to those of one join.
const MAX_ADDED: usize = 64;

/// The values in which columns of a class are equal.
#[derive(Clone, PartialEq, Eq)]
enum Domain {
    Exact,
    Double,
    Text(esker_types::collation::Collation),
    Moment(TypeKind),
}

struct Class {
    domain: Domain,
    columns: Vec<Expr>,
}

/// Ranges of columns that are equal to others.
#[derive(Default)]
pub(super) struct ImpliedRanges {
    /// Conditions that bound a column, written or implied.
    ranges: Vec<Expr>,
    /// Those of `ranges` from here on were added.
    first_added: usize,
}

impl ImpliedRanges {
    /// Adds to conjuncts the ranges that follow from them.
    pub fn complete(conds: &mut Vec<Expr>) -> Self {
        let classes = classes(conds);
        let mut found = Self::default();
        if classes.is_empty() {
            return found;
        }
        let class_of = |cond: &Expr| {
            let slot = bounded_slot(cond)?;
            classes.iter().position(|class| {
                let is_member = class.columns.iter().any(|c| c.as_column() == Some(slot));
                is_member && class.domain.holds(cond)
            })
        };
        let written = conds.iter().filter_map(|c| Some((c.clone(), class_of(c)?)));
        let (written, of_class): (Vec<Expr>, Vec<usize>) = written.unzip();
        found.first_added = written.len();
        found.ranges.clone_from(&written);
        for (cond, class) in written.iter().zip(of_class) {
            for column in &classes[class].columns {
                let implied = moved_to(cond, column);
                let is_full = found.ranges.len() - found.first_added == MAX_ADDED;
                if !is_full && !is_among(&found.ranges, &implied) {
                    found.ranges.push(implied.clone());
                    conds.push(implied);
                }
            }
        }
        found
    }

    /// Does a condition follow from an equality among `conds`, those of the unit it belongs to, with a column of the
    /// tables `placed`, of which the range is asked for already?
    pub fn follows(&self, cond: &Expr, conds: &[Expr], placed: Placed<'_>) -> bool {
        is_among(&self.ranges, cond) && self.is_tied(cond, conds, placed)
    }

    /// The same of a condition that was added: nothing is lost without it.
    pub fn is_spare(&self, cond: &Expr, conds: &[Expr], placed: Placed<'_>) -> bool {
        is_among(&self.ranges[self.first_added..], cond) && self.is_tied(cond, conds, placed)
    }

    fn is_tied(&self, range: &Expr, conds: &[Expr], placed: Placed<'_>) -> bool {
        let slot = bounded_slot(range);
        let ties = |own: &Expr, other: &Expr| {
            let tables = placed.map.tables_of(other);
            own.as_column() == slot
                && tables & placed.tables == tables
                && is_among(&self.ranges, &moved_to(range, other))
        };
        conds.iter().any(|cond| {
            let pair = exact_equality(cond);
            pair.is_some_and(|(_, [left, right])| ties(&left, &right) || ties(&right, &left))
        })
    }
}

/// The tables that are there before a unit.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub map: &'a SlotMap,
    pub tables: TableSet,
}

fn is_among(ranges: &[Expr], cond: &Expr) -> bool {
    ranges.iter().any(|range| walk::same(range, cond))
}

/// Classes of columns that are equal, each of two columns or more.
fn classes(conds: &[Expr]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for cond in conds {
        let Some((domain, pair)) = exact_equality(cond) else {
            continue;
        };
        let mut class = Class {
            domain,
            columns: pair.to_vec(),
        };
        let touches = |other: &Class, class: &Class| {
            let is_in = |e: &Expr| class.columns.iter().any(|o| o.as_column() == e.as_column());
            other.domain == class.domain && other.columns.iter().any(is_in)
        };
        let (joined, apart): (Vec<_>, Vec<_>) = classes
            .into_iter()
            .partition(|other| touches(other, &class));
        classes = apart;
        for column in joined.into_iter().flat_map(|other| other.columns) {
            let slot = column.as_column();
            if !class.columns.iter().any(|c| c.as_column() == slot) {
                class.columns.push(column);
            }
        }
        classes.push(class);
    }
    classes
}

/// An equality of two columns whose equal values compare alike with any third one.
fn exact_equality(cond: &Expr) -> Option<(Domain, [Expr; 2])> {
    equated_slots(cond)?;
    let ExprKind::Cmp(cmp) = &cond.kind else {
        return None;
    };
    let (domain, other) = (domain_of(&cmp.left.ty)?, domain_of(&cmp.right.ty)?);
    let is_exact = match (&domain, cmp.kind) {
        (Domain::Exact, CmpKind::Int | CmpKind::Decimal) => true,
        (Domain::Double, CmpKind::Double) => true,
        (Domain::Text(own), CmpKind::Str(collation)) => *own == collation,
        (Domain::Moment(TypeKind::Time), kind) => kind == CmpKind::Time,
        (Domain::Moment(_), kind) => kind == CmpKind::DateTime,
        _ => false,
    };
    let pair = || [cmp.left.clone(), cmp.right.clone()];
    (is_exact && domain == other).then(|| (domain, pair()))
}

fn domain_of(ty: &SqlType) -> Option<Domain> {
    match &ty.kind {
        // Two digits are a year there.
        TypeKind::Year => None,
        TypeKind::Decimal => Some(Domain::Exact),
        _ if ty.is_integer() => Some(Domain::Exact),
        TypeKind::Double if ty.decimals == NOT_FIXED_DECIMALS => Some(Domain::Double),
        _ if ty.is_geometry() => None,
        _ if ty.is_string() => Some(Domain::Text(ty.collation)),
        kind if ty.is_temporal() => Some(Domain::Moment(kind.clone())),
        _ => None,
    }
}

impl Domain {
    /// Is the condition, which bounds a column of the class, made in the class's domain, with constants that are of it
    /// already?
    fn holds(&self, cond: &Expr) -> bool {
        let made_in = |kind: CmpKind| match (self, kind) {
            (Self::Exact, CmpKind::Int | CmpKind::Decimal | CmpKind::Double) => true,
            (Self::Double, CmpKind::Double) => true,
            (Self::Text(own), CmpKind::Str(collation)) => *own == collation,
            (Self::Moment(TypeKind::Time), kind) => kind == CmpKind::Time,
            (Self::Moment(_), kind) => kind == CmpKind::DateTime,
            _ => false,
        };
        let has = |e: &Expr| e.as_const().is_none_or(|value| self.has(value));
        match &cond.kind {
            ExprKind::Cmp(cmp) => made_in(cmp.kind) && has(&cmp.left) && has(&cmp.right),
            ExprKind::Between(b) => {
                made_in(b.low.1) && made_in(b.high.1) && has(&b.low.0) && has(&b.high.0)
            }
            ExprKind::InList(list) => {
                list.kinds.iter().all(|kind| made_in(*kind)) && list.list.iter().all(has)
            }
            _ => false,
        }
    }

    /// Is it compared in the domain as it is?
    fn has(&self, constant: &Value) -> bool {
        match constant {
            Value::Null => true,
            Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Double(_) => {
                matches!(self, Self::Exact | Self::Double)
            }
            Value::Str(_) => matches!(self, Self::Text(_)),
            Value::Time(_) => *self == Self::Moment(TypeKind::Time),
            Value::Date(_) | Value::DateTime(_) => {
                matches!(self, Self::Moment(kind) if *kind != TypeKind::Time)
            }
            _ => false,
        }
    }
}

/// The column that a condition compares with constants.
fn bounded_slot(cond: &Expr) -> Option<u32> {
    let is_constant = |e: &Expr| e.as_const().is_some();
    match &cond.kind {
        ExprKind::Cmp(cmp) if !matches!(cmp.op, CmpOp::Ne | CmpOp::NullSafeEq) => {
            match (cmp.left.as_column(), cmp.right.as_column()) {
                (Some(slot), None) if is_constant(&cmp.right) => Some(slot),
                (None, Some(slot)) if is_constant(&cmp.left) => Some(slot),
                _ => None,
            }
        }
        ExprKind::Between(b) if !b.negated && is_constant(&b.low.0) && is_constant(&b.high.0) => {
            b.arg.as_column()
        }
        ExprKind::InList(list) if !list.negated && list.list.iter().all(is_constant) => {
            list.arg.as_column()
        }
        _ => None,
    }
}

/// The condition with another column in place of the one that it bounds.
fn moved_to(cond: &Expr, column: &Expr) -> Expr {
    let mut moved = cond.clone();
    let place = match &mut moved.kind {
        ExprKind::Cmp(cmp) if cmp.left.as_column().is_some() => &mut cmp.left,
        ExprKind::Cmp(cmp) => &mut cmp.right,
        ExprKind::Between(b) => &mut b.arg,
        ExprKind::InList(list) => &mut list.arg,
        _ => unreachable!("no other condition bounds a column"),
    };
    *place = column.clone();
    moved
}
