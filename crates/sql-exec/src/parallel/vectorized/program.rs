//! The intermediate representation of vectorized execution: nodes that each compute a column or narrow the selection.
//!
//! Neighbours: `compile` makes a [`Program`] of a statement's expressions, `nodes` computes one [`Node`], `fold`
//! aggregates. **Invariants**: operands of a node stand before it; what is computed for a row is what row-at-a-time
//! execution would compute, or the batch is unusual; a boolean is 0, 1 or NULL.

use std::cmp::Ordering;

use esker_sql_catalog::codec::Phys;
use esker_sql_plan::expr::{CmpOp, Expr};
use esker_types::arith::BinOp;
use esker_types::collation::{Charset, char_count};
use esker_types::{Date, DateTime, Decimal, SqlType, Time, TypeKind, Value};

use super::columns::Unusual;
use super::stored::{Form, Places};
use crate::ExecEnv;

/// What the numbers of a column of a batch stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int {
        unsigned: bool,
    },
    /// Their digits: the numbers are `10^scale` times the values.
    Decimal {
        scale: u8,
    },
    Date,
    DateTime,
    Time,
}

/// Truths, and what comparisons give as values.
pub(super) const BOOLEAN: Kind = Kind::Int { unsigned: false };

/// What a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// What the node of this number gives.
    Node(usize),
    Const(i64),
    Null,
}

/// A column of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A stored column.
    Column(usize),
    /// Is a stored column NULL?
    ColumnIsNull(usize),
    /// Length of a stored string, and that of rows which are older than the column.
    Length(usize, Measure, Option<i64>),
    /// `+`, `-`, `*`, `DIV` and `%`; a negative result is unusual where the type is unsigned, and so is division by
    /// zero.
    Arith {
        op: BinOp,
        args: [Operand; 2],
        unsigned: bool,
    },
    Negate(Operand),
    /// Midnights of dates.
    Midnight(Operand),
    /// Not `<=>`.
    Compare(CmpOp, [Operand; 2]),
    NullSafeEqual([Operand; 2]),
    And(Vec<Operand>),
    Or(Vec<Operand>),
    Xor([Operand; 2]),
    Not(Operand),
    IsNull(Operand),
    /// Is a boolean this one?
    Is(Operand, bool),
    IsNotZero(Operand),
    /// Is it among the numbers, which are sorted?
    Among {
        arg: Operand,
        numbers: Vec<i64>,
        has_null: bool,
    },
    /// The first value whose condition is true.
    Case {
        whens: Vec<(Operand, Operand)>,
        otherwise: Operand,
    },
    /// Something that is evaluated a row at a time, by its number.
    ByRow(usize),
}

/// In what strings are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Bytes, as the character set encodes them.
    Bytes(Charset),
    Characters,
}

impl Measure {
    #[inline]
    pub(super) fn of(self, stored: &[u8]) -> i64 {
        let length = match self {
            Self::Bytes(charset) => charset.encoded_len(stored),
            Self::Characters => char_count(stored),
        };
        length as i64
    }
}

/// Something of one column that is evaluated a row at a time for every distinct value.
#[derive(Debug)]
pub(super) struct ByRow {
    pub expr: Expr,
    pub column: usize,
    /// Whether its boolean is asked for, and not its value.
    pub is_truth: bool,
    pub kind: Kind,
}

impl ByRow {
    /// What it comes to for a row that has the column.
    pub(super) fn evaluate(
        &self,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> Result<Option<i64>, Unusual> {
        if self.is_truth {
            let boolean = self.expr.eval_bool(row, env).map_err(|_| Unusual)?;
            return Ok(boolean.map(i64::from));
        }
        match &*self.expr.eval_ref(row, env).map_err(|_| Unusual)? {
            Value::Null => Ok(None),
            value => self.kind.number(value).map(Some).ok_or(Unusual),
        }
    }
}

/// A stored column that is read.
#[derive(Debug)]
pub(super) struct Column {
    /// Its number in the table, and its slot in rows.
    pub col: usize,
    pub slot: u32,
    pub places: Places,
    /// The number that rows have which are older than the column: NULL, or none.
    pub missing: Option<Option<i64>>,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Computes a node for the rows that are left.
    Compute(usize),
    /// Keeps those for which it is true.
    Keep(Operand),
}

/// How a task judges rows by columns.
#[derive(Debug)]
pub(in crate::parallel) struct Program {
    /// The index that is read, and what it stores.
    pub(super) index: usize,
    pub(super) form: Form,
    pub(super) columns: Vec<Column>,
    pub(super) nodes: Vec<Node>,
    pub(super) by_row: Vec<ByRow>,
    pub(super) steps: Vec<Step>,
    /// So many of the table's conditions are true for the rows that are left.
    pub(super) met: usize,
    /// How they are grouped; `None`: they are sent on one by one.
    pub(super) fold: Option<Fold>,
}

/// How rows are grouped and summed up.
#[derive(Debug)]
pub(super) struct Fold {
    /// What decides to which group a row belongs, unless there is only one group.
    pub keys: Option<Keys>,
    pub sums: Vec<Sum>,
    /// Where each aggregate finds its result.
    pub aggs: Vec<Agg>,
}

/// What tells groups apart: equal ones have the same group.
#[derive(Debug)]
pub(super) enum Keys {
    /// Stored columns, which may differ within a group.
    Columns(Vec<usize>),
    Numbers(Vec<Operand>),
}

/// What is summed up by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Rows,
    NotNull(Operand),
    Total(Operand),
    /// The first in this order.
    Extreme(Operand, Ordering),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Agg {
    pub sum: usize,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Count,
    Sum { scale: u8 },
    Extreme(Kind),
}

impl Kind {
    /// What a stored column has.
    pub(super) fn of_column(phys: Phys) -> Option<Self> {
        Some(match phys {
            Phys::Int { unsigned, .. } => Self::Int { unsigned },
            Phys::Decimal { scale, .. } => Self::Decimal { scale },
            Phys::Date => Self::Date,
            Phys::DateTime => Self::DateTime,
            Phys::Time => Self::Time,
            _ => return None,
        })
    }

    /// What values of a type may have.
    pub(super) fn of_type(ty: &SqlType) -> Option<Self> {
        Some(match ty.kind {
            TypeKind::Year => Self::Int { unsigned: false },
            _ if ty.is_integer() => Self::Int {
                unsigned: ty.unsigned,
            },
            TypeKind::Decimal => Self::Decimal { scale: ty.decimals },
            TypeKind::Date => Self::Date,
            TypeKind::DateTime | TypeKind::Timestamp => Self::DateTime,
            TypeKind::Time => Self::Time,
            _ => return None,
        })
    }

    /// What a value has.
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Int(_) => Self::Int { unsigned: false },
            Value::UInt(_) => Self::Int { unsigned: true },
            Value::Decimal(d) => Self::Decimal { scale: d.scale() },
            Value::Date(_) => Self::Date,
            Value::DateTime(_) => Self::DateTime,
            Value::Time(_) => Self::Time,
            _ => return None,
        })
    }

    /// The number of a value that is not NULL; `None` if it is of another kind or too large.
    pub(super) fn number(self, value: &Value) -> Option<i64> {
        match (self, value) {
            (Self::Int { unsigned: false }, Value::Int(v)) => Some(*v),
            (Self::Int { unsigned: true }, Value::UInt(v)) => i64::try_from(*v).ok(),
            (Self::Decimal { scale }, Value::Decimal(d)) if d.scale() == scale => {
                i64::try_from(d.unscaled_i128()?).ok()
            }
            (Self::Date, Value::Date(d)) => Some(d.packed().into()),
            (Self::DateTime, Value::DateTime(d)) => i64::try_from(d.packed()).ok(),
            (Self::Time, Value::Time(t)) => Some(t.micros()),
            _ => None,
        }
    }

    /// The value of a number.
    pub(super) fn value(self, number: i64) -> Value {
        match self {
            Self::Int { unsigned: false } => Value::Int(number),
            Self::Int { unsigned: true } => Value::UInt(number as u64),
            Self::Decimal { scale } => Value::Decimal(Decimal::from_i128(number.into(), scale)),
            Self::Date => {
                let packed = u32::try_from(number).ok().and_then(Date::from_packed);
                Value::Date(packed.unwrap_or_default())
            }
            Self::DateTime => {
                Value::DateTime(DateTime::from_packed(number as u64).unwrap_or_default())
            }
            Self::Time => Value::Time(Time::from_micros(number).unwrap_or_default()),
        }
    }

    /// Decimals of an exact number.
    pub(super) fn scale(self) -> Option<u8> {
        match self {
            Self::Int { .. } => Some(0),
            Self::Decimal { scale } => Some(scale),
            _ => None,
        }
    }
}

/// Midnight of a date, by its number.
pub(super) fn midnight(date: i64) -> i64 {
    let date = u32::try_from(date).ok().and_then(Date::from_packed);
    date.unwrap_or_default().at_midnight().packed() as i64
}
