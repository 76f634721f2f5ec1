//! Predicates for block skipping: the conditions of a scan as tests that the engine checks against zone maps.
//!
//! Neighbours: `plan::ranges` turns conditions into key ranges; here the index is a virtual one over a single column;
//! `codec::fields` has the numbers that zone maps keep.
//!
//! **Invariants**
//! - Every value for which the conditions hold passes the test of its field.
//! - Rows of skipped blocks are not evaluated: a condition that would have warned of one, or failed, does not.

use std::ops::{Bound, RangeInclusive};

use esker_engine::extent::FieldTest;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{KeyCodec, KeyRange, Phys, columns_with_fields, field_of, part_of};
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::{Expr, ExprKind};
use esker_sql_plan::plan::ScanPlan;
use esker_sql_plan::plan::ranges::RangeSpec;

use crate::ExecEnv;

/// What the conditions of the scan say of the columns of which blocks speak.
pub(super) fn tests(scan: &ScanPlan, def: &TableDef, env: &ExecEnv<'_>) -> Vec<FieldTest> {
    if scan.conds.is_empty() {
        return Vec::new();
    }
    let mark = env.ctx.diagnostics.mark();
    // What fails, or warns, does so for the rows.
    let tests = collect(scan, def, env).unwrap_or_default();
    env.ctx.diagnostics.undo_to(mark);
    tests
}

fn collect(scan: &ScanPlan, def: &TableDef, env: &ExecEnv<'_>) -> ExecResult<Vec<FieldTest>> {
    let mut slots = vec![None; def.columns.len()];
    for (col, slot) in &scan.columns {
        slots[*col] = Some(*slot);
    }
    let known = |e: &Expr| {
        !e.any(&mut |e| match &e.kind {
            ExprKind::Column(_) => true,
            ExprKind::Subquery(query) => query.correlated,
            _ => false,
        })
    };
    let mut tests = Vec::new();
    for col in columns_with_fields(&def.columns, def.leading_column()) {
        let (parts, types) = ([part_of(col)], def.layout.column_types());
        let spec = RangeSpec::new(&parts, types, &slots, &scan.conds, &known);
        let Some(spec) = spec.filter(|_| slots[col].is_some()) else {
            continue;
        };
        let codec = KeyCodec::new(&def.columns, &parts, false, false);
        let ty = &def.columns[col].ty;
        let bytes = Phys::of(ty).fixed_len().unwrap_or_default();
        let ranges = spec.build(&codec, &[], env)?;
        let space = Space {
            bytes,
            nullable: ty.nullable,
        };
        let (null, numbers) = space.numbers(&ranges);
        tests.push(FieldTest {
            field: field_of(&def.columns, col),
            null,
            numbers,
        });
    }
    Ok(tests)
}

/// The key of NULL.
const NULL_KEY: &[u8] = &[0];

/// The keys of an index over one column: the byte for NULL, if it can be, and the number.
struct Space {
    bytes: usize,
    nullable: bool,
}

impl Space {
    /// Bytes of a key.
    fn width(&self) -> usize {
        self.bytes + usize::from(self.nullable)
    }

    /// The key that begins with `bytes`, or is the beginning of it, and whether something of `bytes` is left then.
    fn cut(&self, bytes: &[u8]) -> (u128, bool) {
        let width = self.width();
        let kept = &bytes[..bytes.len().min(width)];
        let number = kept.iter().fold(0, |n, byte| n << 8 | u128::from(*byte));
        (number << (8 * (width - kept.len())), bytes.len() > width)
    }

    /// The smallest key in a range with this lower bound.
    fn first(&self, bound: Bound<&[u8]>) -> u128 {
        match bound {
            Bound::Unbounded => 0,
            Bound::Included(bytes) => {
                let (key, is_longer) = self.cut(bytes);
                key + u128::from(is_longer)
            }
            Bound::Excluded(bytes) => {
                let (key, _) = self.cut(bytes);
                // What is filled up with zeros is already behind the bound.
                key + u128::from(bytes.len() >= self.width())
            }
        }
    }

    /// The first key behind a range with this upper bound.
    fn end(&self, bound: Bound<&[u8]>) -> u128 {
        match bound {
            Bound::Unbounded => 1 << (8 * self.width()),
            Bound::Included(bytes) => {
                let (key, _) = self.cut(bytes);
                key + u128::from(bytes.len() >= self.width())
            }
            Bound::Excluded(bytes) => {
                let (key, is_longer) = self.cut(bytes);
                key + u128::from(is_longer)
            }
        }
    }

    /// Whether NULL is in the ranges, which ascend, and the numbers that are.
    fn numbers(&self, ranges: &[KeyRange]) -> (bool, Vec<RangeInclusive<u64>>) {
        debug_assert!(self.bytes <= size_of::<u64>());
        // NULL is the zero alone, with nothing behind it.
        let base = if self.nullable {
            1 << (8 * self.bytes)
        } else {
            0
        };
        let behind = base + (1_u128 << (8 * self.bytes));
        let (mut null, mut numbers) = (false, Vec::new());
        for range in ranges {
            let (first, end) = (self.first(range.lower()), self.end(range.upper()));
            let goes_on_to_null = match range.upper() {
                Bound::Unbounded => true,
                Bound::Included(upper) => upper >= NULL_KEY,
                Bound::Excluded(upper) => upper > NULL_KEY,
            };
            null |= self.nullable && first == 0 && goes_on_to_null;
            let (first, end) = (first.max(base), end.min(behind));
            if first < end {
                numbers.push((first - base) as u64..=(end - 1 - base) as u64);
            }
        }
        (null, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> KeyRange {
        KeyRange {
            lower: lower.map(<[u8]>::to_vec),
            upper: upper.map(<[u8]>::to_vec),
        }
    }

    /// Every key of a small space is in the numbers exactly if it is in the range.
    #[test]
    fn ranges_of_keys_are_ranges_of_numbers() {
        let bounds: [&[u8]; 12] = [
            &[],
            &[0],
            &[0, 0],
            &[0, 0, 0],
            &[0, 7],
            &[1],
            &[1, 0],
            &[1, 7],
            &[1, 7, 0],
            &[1, 0xFF],
            &[1, 0xFF, 3],
            &[2],
        ];
        let either = |bytes| [Bound::Included(bytes), Bound::Excluded(bytes)];
        let mut all: Vec<Bound<&[u8]>> = bounds.into_iter().flat_map(either).collect();
        all.push(Bound::Unbounded);
        for nullable in [true, false] {
            let space = Space { bytes: 1, nullable };
            for lower in &all {
                for upper in &all {
                    let range = range(*lower, *upper);
                    let (null, numbers) = space.numbers(std::slice::from_ref(&range));
                    let contains = |key: &[u8]| {
                        let above = match range.lower() {
                            Bound::Included(lower) => key >= lower,
                            Bound::Excluded(lower) => key > lower,
                            Bound::Unbounded => true,
                        };
                        let below = match range.upper() {
                            Bound::Included(upper) => key <= upper,
                            Bound::Excluded(upper) => key < upper,
                            Bound::Unbounded => true,
                        };
                        above && below
                    };
                    for number in 0..=u8::MAX {
                        let is_in = numbers.iter().any(|r| r.contains(&number.into()));
                        let key: &[u8] = if nullable { &[1, number] } else { &[number] };
                        assert_eq!(is_in, contains(key), "{number} in {range:?}");
                    }
                    // A key is never filled up: NULL may be thought to be in a range that begins right behind it.
                    assert!(!nullable || null || !contains(&[0]), "{range:?}");
                }
            }
        }
    }
}
