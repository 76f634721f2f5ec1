//! Which index a short SELECT reads, in which direction, and from which operands its keys are made.
//!
//! Neighbours: `compile` asks with the conditions, the order and the index hints of a query.
//! **Invariants**
//! - The ranges have exactly the rows that the conditions want.
//! - Where an order is wanted and [`Access::is_ordered`], rows come in it.

use esker_engine::Direction;
use esker_sql_catalog::catalog::{IndexDef, IndexPart, TableDef, same_name};
use esker_sql_syntax::ast::{
    BinaryOp, ColumnRef, Expr, IndexHint, IndexHintKind, IsTest, Literal, OrderItem,
};
use esker_types::{Decimal, TypeKind, Value};

use super::{Operand, RangeSpec};

/// Most ranges of one statement; longer IN lists are planned.
const MAX_RANGES: usize = 256;

/// How a table is read.
pub(super) struct Access {
    /// Position of the index in the table.
    pub(super) index: usize,
    pub(super) ranges: Vec<RangeSpec>,
    pub(super) direction: Direction,
    /// Rows come in the order that was wanted; true where none was.
    pub(super) is_ordered: bool,
}

/// What is wanted of an access.
pub(super) struct Wanted<'a> {
    pub(super) filter: Option<&'a Expr>,
    /// Columns of ORDER BY, and whether each descends.
    pub(super) order: &'a [(usize, bool)],
    pub(super) hints: &'a [IndexHint],
    /// The columns that are read.
    pub(super) columns: &'a [usize],
}

/// The names of a query's only table.
pub(super) struct Names<'a> {
    pub(super) table: &'a TableDef,
    pub(super) alias: Option<&'a str>,
}

impl Names<'_> {
    pub(super) fn column(&self, c: &ColumnRef) -> Option<usize> {
        if let Some(t) = &c.table {
            let name = self.alias.unwrap_or(&self.table.name);
            if *t.text != *name {
                return None;
            }
        }
        if c.schema
            .as_ref()
            .is_some_and(|s| *s.text != *self.table.schema)
        {
            return None;
        }
        self.table.column_index(&c.name.text)
    }

    pub(super) fn of(&self, e: &Expr) -> Option<usize> {
        match e {
            Expr::Column(c) => self.column(c),
            _ => None,
        }
    }
}

impl Access {
    /// Does it read everything?
    pub(super) fn ranges_all(&self) -> bool {
        let is_open = |range: &RangeSpec| {
            range.equal.is_empty() && range.low.is_none() && range.high.is_none()
        };
        self.ranges.iter().any(is_open)
    }
}

/// A number of rows.
pub(super) fn row_count(e: &Expr) -> Option<Operand> {
    operand(e).filter(|operand| !matches!(operand, Operand::Const(Value::Str(_))))
}

fn operand(e: &Expr) -> Option<Operand> {
    Some(match e {
        Expr::Param(n) => Operand::Param(*n),
        Expr::Literal(Literal::Int(n)) => {
            Operand::Const(i64::try_from(*n).map_or(Value::UInt(*n), Value::Int))
        }
        Expr::Literal(Literal::Str {
            bytes,
            charset: None,
        }) => Operand::Const(Value::Str(bytes.clone())),
        Expr::Literal(Literal::Decimal(text)) => {
            Operand::Const(Value::Decimal(Decimal::parse(text.as_bytes()).0))
        }
        Expr::Literal(Literal::Double(v)) => Operand::Const(Value::Double(*v)),
        _ => return None,
    })
}

/// A condition on one column.
struct Cond {
    col: usize,
    test: Test,
}

enum Test {
    /// Equal to the value, or NULL where that is [`Operand::Null`].
    Eq(Operand),
    Low(Operand, bool),
    High(Operand, bool),
    Between(Operand, Operand),
    In(Vec<Operand>),
}

fn condition(names: &Names<'_>, e: &Expr) -> Option<Cond> {
    match e {
        Expr::Binary { op, left, right } => {
            let (col, value, op) = match (names.of(left), names.of(right)) {
                (Some(col), None) => (col, operand(right)?, *op),
                (None, Some(col)) => (col, operand(left)?, flipped(*op)?),
                _ => return None,
            };
            let test = match op {
                BinaryOp::Eq => Test::Eq(value),
                BinaryOp::Gt => Test::Low(value, false),
                BinaryOp::Ge => Test::Low(value, true),
                BinaryOp::Lt => Test::High(value, false),
                BinaryOp::Le => Test::High(value, true),
                _ => return None,
            };
            Some(Cond { col, test })
        }
        Expr::Between {
            expr,
            low,
            high,
            negated: false,
        } => Some(Cond {
            col: names.of(expr)?,
            test: Test::Between(operand(low)?, operand(high)?),
        }),
        Expr::InList {
            expr,
            list,
            negated: false,
        } => Some(Cond {
            col: names.of(expr)?,
            test: Test::In(list.iter().map(operand).collect::<Option<_>>()?),
        }),
        Expr::Is {
            expr,
            negated: false,
            test: IsTest::Null,
        } => {
            let col = names.of(expr)?;
            // Some values that are not NULL are, to `IS NULL` of a column that cannot be it.
            let nullable = names.table.columns[col].ty.nullable;
            let test = Test::Eq(Operand::Null);
            nullable.then_some(Cond { col, test })
        }
        _ => None,
    }
}

fn flipped(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        _ => return None,
    })
}

/// Conditions that all hold, or of which one must.
enum Conditions {
    All(Vec<Cond>),
    Any(Vec<Cond>),
}

fn conditions(names: &Names<'_>, filter: Option<&Expr>) -> Option<Conditions> {
    let list =
        |list: &[Expr]| -> Option<Vec<Cond>> { list.iter().map(|e| condition(names, e)).collect() };
    Some(match filter {
        None => Conditions::All(Vec::new()),
        Some(Expr::And(all)) => Conditions::All(list(all)?),
        Some(Expr::Or(any)) => Conditions::Any(list(any)?),
        Some(e) => Conditions::All(vec![condition(names, e)?]),
    })
}

/// The index to read, if its ranges can have all of the conditions.
pub(super) fn access(names: &Names<'_>, wanted: &Wanted<'_>) -> Option<Access> {
    let table = names.table;
    let conditions = conditions(names, wanted.filter)?;
    let allowed = allowed(table, wanted.hints)?;
    let candidates = table.ordered().iter().enumerate();
    let candidates = candidates.filter(|(at, index)| allowed[*at] && usable(index));
    let mut best: Option<(Rank, usize, Option<Direction>)> = None;
    for (at, index) in candidates {
        let fits = match &conditions {
            Conditions::All(conds) => covers(index, conds),
            Conditions::Any(conds) => begins(index, conds),
        };
        if !fits {
            continue;
        }
        let direction = match &conditions {
            Conditions::All(conds) => direction(table, index, conds, wanted.order),
            Conditions::Any(_) => direction(table, index, &[], wanted.order),
        };
        let rank = Rank {
            unordered: direction.is_none(),
            // Without a condition that leads to few rows an index that has what is read is smaller.
            fetches: wanted.filter.is_none() && !has_all(table, index, wanted.columns),
            secondary: !index.primary,
            common: !index.unique,
        };
        if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
            best = Some((rank, at, direction));
        }
    }
    let (_, at, direction) = best?;
    let index = &table.indexes[at];
    let ranges = match conditions {
        Conditions::All(conds) => build(index, conds)?,
        Conditions::Any(conds) => {
            let mut ranges = Vec::new();
            for cond in conds {
                ranges.extend(build(index, vec![cond])?);
            }
            ranges
        }
    };
    debug_assert!(!ranges.is_empty());
    (ranges.len() <= MAX_RANGES).then_some(Access {
        index: at,
        ranges,
        direction: direction.unwrap_or(Direction::Forward),
        is_ordered: direction.is_some(),
    })
}

/// Which of several indexes is read: the least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    unordered: bool,
    fetches: bool,
    secondary: bool,
    common: bool,
}

/// Which indexes the hints leave; `None` for hints that are not about all of the statement, or that name no index.
fn allowed(table: &TableDef, hints: &[IndexHint]) -> Option<Vec<bool>> {
    let is_named = |hint: &IndexHint, index: &IndexDef| {
        let mut names = hint.indexes.iter();
        names.any(|name| same_name(&name.text, &index.name))
    };
    let mut allowed = vec![true; table.indexes.len()];
    let mut wanted: Option<Vec<bool>> = None;
    for hint in hints {
        let exists = |name: &str| {
            table
                .indexes
                .iter()
                .any(|index| same_name(name, &index.name))
        };
        let names_all = hint.indexes.iter().all(|name| exists(&name.text));
        if hint.scope.is_some() || hint.indexes.is_empty() || !names_all {
            return None;
        }
        for (at, index) in table.indexes.iter().enumerate() {
            match hint.kind {
                IndexHintKind::Ignore => allowed[at] &= !is_named(hint, index),
                IndexHintKind::Use | IndexHintKind::Force => {
                    let wanted = wanted.get_or_insert_with(|| vec![false; table.indexes.len()]);
                    wanted[at] |= is_named(hint, index);
                }
            }
        }
    }
    if let Some(wanted) = wanted {
        for (allowed, wanted) in allowed.iter_mut().zip(wanted) {
            *allowed &= wanted;
        }
    }
    Some(allowed)
}

/// Can this index serve, as a user would want it to?
fn usable(index: &IndexDef) -> bool {
    !index.hidden && !index.invisible && index.parts.iter().all(|p| p.prefix_len.is_none())
}

/// Do the keys of the index and the clustered keys in its entries have these columns?
pub(super) fn has_all(table: &TableDef, index: &IndexDef, columns: &[usize]) -> bool {
    index.primary
        || columns
            .iter()
            .all(|col| key_part(table, index, *col).is_some())
}

/// Where a column is in the entries of a secondary index.
pub(super) fn key_part(table: &TableDef, index: &IndexDef, col: usize) -> Option<KeyPart> {
    let find = |def: &IndexDef| {
        let nth = def.parts.iter().position(|part| part.col == col)?;
        def.codec.is_reversible(nth).then_some(nth)
    };
    let primary = table.primary();
    find(index).map(KeyPart::Own).or_else(|| {
        let nth = find(primary).filter(|_| !primary.hidden);
        nth.map(KeyPart::Clustered)
    })
}

/// A key part, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPart {
    /// Of the index.
    Own(usize),
    /// Of the clustered key behind it.
    Clustered(usize),
}

/// The columns of ORDER BY; `None` if there is anything else in it, or a name that an alias may mean.
pub(super) fn order_columns(
    names: &Names<'_>,
    order: &[OrderItem],
    is_alias: impl Fn(&str) -> bool,
) -> Option<Vec<(usize, bool)>> {
    let column = |item: &OrderItem| match &item.expr {
        Expr::Column(c) if c.table.is_some() || !is_alias(&c.name.text) => names.column(c),
        _ => None,
    };
    order
        .iter()
        .map(|item| column(item).map(|col| (col, item.desc)))
        .collect()
}

/// How the index is read so that the rows that meet the conditions come in this order.
fn direction(
    table: &TableDef,
    index: &IndexDef,
    conds: &[Cond],
    order: &[(usize, bool)],
) -> Option<Direction> {
    let is_fixed = |col: usize| {
        let mut conds = conds.iter();
        conds.any(|cond| cond.col == col && matches!(cond.test, Test::Eq(_)))
    };
    // Entries with equal parts follow each other by clustered key.
    let clustered: &[IndexPart] = match index.unique || table.primary().hidden {
        true => &[],
        false => &table.primary().parts,
    };
    let whole = |part: &&IndexPart| part.prefix_len.is_none();
    let mut parts = index.parts.iter().chain(clustered.iter().take_while(whole));
    let mut direction = None;
    for (col, desc) in order.iter().filter(|(col, _)| !is_fixed(*col)) {
        let part = parts.find(|part| !is_fixed(part.col))?;
        // Local time repeats an hour when clocks go back; keys are in UTC.
        if part.col != *col || table.columns[*col].ty.kind == TypeKind::Timestamp {
            return None;
        }
        let this = match part.desc == *desc {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        if *direction.get_or_insert(this) != this {
            return None;
        }
    }
    Some(direction.unwrap_or(Direction::Forward))
}

/// Are these conditions all about the first part of the index?
fn begins(index: &IndexDef, conds: &[Cond]) -> bool {
    let first = &index.parts[0];
    !first.desc && conds.iter().all(|cond| cond.col == first.col)
}

fn covers(index: &IndexDef, conds: &[Cond]) -> bool {
    let equal = |col| {
        conds
            .iter()
            .filter(|c| c.col == col && matches!(c.test, Test::Eq(_)))
            .count()
    };
    let mut used = 0;
    for part in &index.parts {
        match equal(part.col) {
            1 => used += 1,
            0 => {
                let rest: Vec<_> = conds.iter().filter(|c| c.col == part.col).collect();
                let fits = match rest.as_slice() {
                    [_] => true,
                    [a, b] => matches!(
                        (&a.test, &b.test),
                        (Test::Low(..), Test::High(..)) | (Test::High(..), Test::Low(..))
                    ),
                    _ => false,
                };
                if fits && !part.desc {
                    used += rest.len();
                }
                break;
            }
            _ => return false,
        }
    }
    debug_assert!(used <= conds.len());
    used == conds.len()
}

fn build(index: &IndexDef, conds: Vec<Cond>) -> Option<Vec<RangeSpec>> {
    let mut range = RangeSpec::default();
    let mut list = None;
    let mut conds: Vec<Option<Cond>> = conds.into_iter().map(Some).collect();
    for part in &index.parts {
        for slot in &mut conds {
            if slot.as_ref().is_none_or(|c| c.col != part.col) {
                continue;
            }
            match slot.take()?.test {
                Test::Eq(v) => range.equal.push(v),
                Test::Low(v, inclusive) => range.low = Some((v, inclusive)),
                Test::High(v, inclusive) => range.high = Some((v, inclusive)),
                Test::Between(low, high) => {
                    range.low = Some((low, true));
                    range.high = Some((high, true));
                }
                Test::In(values) => list = Some(values),
            }
        }
    }
    debug_assert!(
        conds.iter().all(Option::is_none),
        "the index covers all conditions"
    );
    Some(match list {
        None => vec![range],
        Some(values) if values.len() <= MAX_RANGES => values
            .into_iter()
            .map(|v| {
                let mut one = range.clone();
                one.equal.push(v);
                one
            })
            .collect(),
        Some(_) => return None,
    })
}
