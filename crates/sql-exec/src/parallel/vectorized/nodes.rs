//! Kernels: one node of a program, computed for the selected rows.
//!
//! Neighbours: `compile` says why a node is what an expression means; `columns` has the memory.
//! **Invariant**: no number is wrong: what does not fit 64 bits is [`Unusual`]. The number of a NULL has no meaning.

use esker_sql_catalog::codec::{Phys, Raw};
use esker_sql_plan::expr::CmpOp;
use esker_types::arith::BinOp;

use super::columns::{Lane, ROWS, Rows, Selection, Unusual};
use super::program::{Column, Node, Operand, midnight};
use super::stored::Places;

/// An operand of the rows.
#[derive(Clone, Copy)]
pub(super) enum Arg<'l> {
    Lane(&'l Lane),
    Const(i64),
    Null,
}

impl<'l> Arg<'l> {
    #[inline]
    pub(super) fn of(operand: Operand, lanes: &'l [Lane]) -> Self {
        match operand {
            Operand::Node(at) => Self::Lane(&lanes[at]),
            Operand::Const(n) => Self::Const(n),
            Operand::Null => Self::Null,
        }
    }

    #[inline(always)]
    pub(super) fn get(self, row: usize) -> Option<i64> {
        match self {
            Self::Lane(lane) if lane.is_null(row) => None,
            Self::Lane(lane) => Some(lane.numbers[row]),
            Self::Const(n) => Some(n),
            Self::Null => None,
        }
    }

    fn has_nulls(self) -> bool {
        match self {
            Self::Lane(lane) => lane.has_nulls(),
            Self::Const(_) => false,
            Self::Null => true,
        }
    }
}

/// Computes a node that needs nothing but stored columns and the nodes before it.
pub(super) fn compute(
    node: &Node,
    columns: &[Column],
    rows: Rows<'_>,
    selection: &Selection,
    before: &[Lane],
    out: &mut Lane,
) -> Result<(), Unusual> {
    let arg = |operand: &Operand| Arg::of(*operand, before);
    match node {
        Node::Column(at) => decode(&columns[*at], rows, selection, out),
        Node::ColumnIsNull(at) => {
            let column = &columns[*at];
            out.fill(selection, |row| is_null(column, rows.get(row)).map(Some))
        }
        Node::Length(at, measure, missing) => {
            let of = (&columns[*at].places, Some(*missing));
            each_field(of, rows, selection, out, |bytes| Some(measure.of(bytes)))
        }
        Node::Arith { op, args, unsigned } => {
            let args = [arg(&args[0]), arg(&args[1])];
            arithmetic(*op, args, *unsigned, selection, out)
        }
        Node::Negate(a) => arithmetic(BinOp::Sub, [Arg::Const(0), arg(a)], false, selection, out),
        Node::Midnight(a) => {
            let a = arg(a);
            out.fill(selection, |row| Ok(a.get(row).map(midnight)))
        }
        Node::Compare(op, args) => {
            compare(*op, [arg(&args[0]), arg(&args[1])], selection, out);
            Ok(())
        }
        Node::NullSafeEqual(args) => {
            let [a, b] = [arg(&args[0]), arg(&args[1])];
            out.fill(selection, |row| Ok(Some((a.get(row) == b.get(row)).into())))
        }
        Node::And(args) => decided_by(0, args, before, selection, out),
        Node::Or(args) => decided_by(1, args, before, selection, out),
        Node::Xor(args) => {
            compare(CmpOp::Ne, [arg(&args[0]), arg(&args[1])], selection, out);
            Ok(())
        }
        Node::Not(a) => negation(arg(a), selection, out),
        Node::IsNull(a) => {
            let a = arg(a);
            out.fill(selection, |row| Ok(Some(a.get(row).is_none().into())))
        }
        Node::Is(a, wanted) => {
            let (a, wanted) = (arg(a), i64::from(*wanted));
            out.fill(selection, |row| {
                Ok(Some((a.get(row) == Some(wanted)).into()))
            })
        }
        Node::IsNotZero(a) => {
            let a = arg(a);
            out.fill(selection, |row| Ok(a.get(row).map(|n| (n != 0).into())))
        }
        Node::Among {
            arg: a,
            numbers,
            has_null,
        } => among(arg(a), numbers, *has_null, selection, out),
        Node::Case { whens, otherwise } => out.fill(selection, |row| {
            let met = whens.iter().find(|(when, _)| arg(when).get(row) == Some(1));
            let value = met.map_or(otherwise, |(_, then)| then);
            Ok(arg(value).get(row))
        }),
        Node::ByRow(_) => unreachable!("it is evaluated where there are rows"),
    }
}

/// Is the column NULL in a stored row?
#[inline]
fn is_null(column: &Column, stored: &[u8]) -> Result<i64, Unusual> {
    let is_null = match column.places.find(stored)? {
        Raw::Null => true,
        Raw::Bytes(_) => false,
        Raw::Missing => column.missing == Some(None),
    };
    Ok(is_null.into())
}

fn arithmetic(
    op: BinOp,
    args: [Arg<'_>; 2],
    unsigned: bool,
    selection: &Selection,
    out: &mut Lane,
) -> Result<(), Unusual> {
    match op {
        BinOp::Add => checked(args, unsigned, selection, out, i64::overflowing_add),
        BinOp::Sub => checked(args, unsigned, selection, out, i64::overflowing_sub),
        BinOp::Mul => checked(args, unsigned, selection, out, i64::overflowing_mul),
        BinOp::IntDiv => divided(args, unsigned, selection, out, i64::checked_div),
        BinOp::Mod => divided(args, unsigned, selection, out, i64::checked_rem),
        _ => unreachable!("it is evaluated a row at a time"),
    }
}

/// A comparison that is NULL where one of both sides is.
fn compare(op: CmpOp, args: [Arg<'_>; 2], selection: &Selection, out: &mut Lane) {
    match op {
        CmpOp::Eq | CmpOp::NullSafeEq => strict(args, selection, out, |a, b| a == b),
        CmpOp::Ne => strict(args, selection, out, |a, b| a != b),
        CmpOp::Lt => strict(args, selection, out, |a, b| a < b),
        CmpOp::Le => strict(args, selection, out, |a, b| a <= b),
        CmpOp::Gt => strict(args, selection, out, |a, b| a > b),
        CmpOp::Ge => strict(args, selection, out, |a, b| a >= b),
    }
}

fn negation(arg: Arg<'_>, selection: &Selection, out: &mut Lane) -> Result<(), Unusual> {
    out.fill(selection, |row| {
        let boolean = arg.get(row);
        debug_assert!(matches!(boolean, None | Some(0 | 1)));
        Ok(boolean.map(|boolean| 1 - boolean))
    })
}

/// Is the number in a list?
fn among(
    arg: Arg<'_>,
    numbers: &[i64],
    has_null: bool,
    selection: &Selection,
    out: &mut Lane,
) -> Result<(), Unusual> {
    let absent = (!has_null).then_some(0);
    debug_assert!(numbers.is_sorted());
    out.fill(selection, |row| {
        Ok(match arg.get(row) {
            Some(n) if numbers.binary_search(&n).is_ok() => Some(1),
            Some(_) => absent,
            None => None,
        })
    })
}

fn decode(
    column: &Column,
    rows: Rows<'_>,
    selection: &Selection,
    out: &mut Lane,
) -> Result<(), Unusual> {
    let of = (&column.places, column.missing);
    // Integers have a loop of their own: a row of it takes less than finding out what else it might be.
    match (&column.places, column.places.phys()) {
        (Places::Entry(place), Phys::Int { unsigned, .. }) => {
            each_field(of, rows, selection, out, |bytes| {
                place.integer(bytes, unsigned)
            })
        }
        (Places::Entry(place), _) => {
            each_field(of, rows, selection, out, |bytes| place.number(bytes))
        }
        (Places::Row(_), Phys::Int { unsigned, .. }) => {
            each_field(of, rows, selection, out, |bytes| {
                Phys::integer(bytes, unsigned)
            })
        }
        (Places::Row(_), phys) => each_field(of, rows, selection, out, |bytes| phys.number(bytes)),
    }
}

/// Takes the number that `f` has for each field, or `missing` if that is known.
#[inline(always)]
fn each_field(
    (places, missing): (&Places, Option<Option<i64>>),
    rows: Rows<'_>,
    selection: &Selection,
    out: &mut Lane,
    f: impl Fn(&[u8]) -> Option<i64>,
) -> Result<(), Unusual> {
    let number = |raw: Raw<'_>| match raw {
        Raw::Bytes(bytes) => f(bytes).map(Some).ok_or(Unusual),
        Raw::Null => Ok(None),
        Raw::Missing => missing.ok_or(Unusual),
    };
    match (places, rows.lead()) {
        // The place is the same for all.
        (Places::Row(places), Some(version)) => {
            let place = places.of(version).ok_or(Unusual)?;
            out.fill(selection, |row| {
                number(place.find(rows.get(row)).ok_or(Unusual)?)
            })
        }
        _ => out.fill(selection, |row| number(places.find(rows.get(row))?)),
    }
}

/// NULL where one of both is.
fn nulls_of(args: [Arg<'_>; 2], selection: &Selection, out: &mut Lane) {
    let [a, b] = args;
    let possible = a.has_nulls() || b.has_nulls();
    out.set_nulls(possible, selection, |row| {
        a.get(row).is_none() || b.get(row).is_none()
    });
}

/// Calls `f` with the numbers of both, also those of rows that are NULL.
#[inline(always)]
fn both(
    args: [Arg<'_>; 2],
    selection: &Selection,
    out: &mut [i64; ROWS],
    mut f: impl FnMut(i64, i64) -> i64,
) {
    match args {
        [Arg::Lane(a), Arg::Lane(b)] => {
            selection.each(|row| out[row] = f(a.numbers[row], b.numbers[row]));
        }
        [Arg::Lane(a), Arg::Const(b)] => selection.each(|row| out[row] = f(a.numbers[row], b)),
        [Arg::Const(a), Arg::Lane(b)] => selection.each(|row| out[row] = f(a, b.numbers[row])),
        [Arg::Const(a), Arg::Const(b)] => selection.each(|row| out[row] = f(a, b)),
        _ => selection.each(|row| out[row] = 0),
    }
}

#[inline(always)]
fn checked(
    args: [Arg<'_>; 2],
    is_unsigned: bool,
    selection: &Selection,
    out: &mut Lane,
    f: impl Fn(i64, i64) -> (i64, bool),
) -> Result<(), Unusual> {
    let mut is_unusual = false;
    both(args, selection, &mut out.numbers, |a, b| {
        let (number, overflows) = f(a, b);
        is_unusual |= overflows | (is_unsigned & (number < 0));
        number
    });
    nulls_of(args, selection, out);
    match is_unusual {
        true => Err(Unusual),
        false => Ok(()),
    }
}

/// As [`checked`] for what divides, where rows that are NULL must not be touched.
#[inline(always)]
fn divided(
    [a, b]: [Arg<'_>; 2],
    is_unsigned: bool,
    selection: &Selection,
    out: &mut Lane,
    f: impl Fn(i64, i64) -> Option<i64>,
) -> Result<(), Unusual> {
    out.fill(selection, |row| match (a.get(row), b.get(row)) {
        (Some(a), Some(b)) => {
            let number = f(a, b).filter(|number| !is_unsigned || *number >= 0);
            number.map(Some).ok_or(Unusual)
        }
        _ => Ok(None),
    })
}

/// A boolean that is NULL if one of both is.
#[inline(always)]
fn strict(args: [Arg<'_>; 2], selection: &Selection, out: &mut Lane, f: impl Fn(i64, i64) -> bool) {
    both(args, selection, &mut out.numbers, |a, b| f(a, b).into());
    nulls_of(args, selection, out);
}

/// AND and OR: one operand that is `decisive` decides, else one that is NULL.
fn decided_by(
    decisive: i64,
    args: &[Operand],
    before: &[Lane],
    selection: &Selection,
    out: &mut Lane,
) -> Result<(), Unusual> {
    debug_assert!(decisive == 0 || decisive == 1);
    out.fill(selection, |row| {
        let mut boolean = Some(1 - decisive);
        for operand in args {
            match Arg::of(*operand, before).get(row) {
                Some(n) if n == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => boolean = None,
            }
        }
        Ok(boolean)
    })
}
