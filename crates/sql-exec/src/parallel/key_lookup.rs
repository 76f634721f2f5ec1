//! Key lookups in place of a scan: if a constant subquery or a build side leaves only few keys, they are looked up.
//!
//! Neighbours: `prepare` asks before it cuts the table; `runtime_filter` and `subquery` know the keys; the engine reads
//! ranges. **Invariant**: a row that is left out is one that a condition of the table or an inner join would drop.

use esker_engine::scan::KeySpan;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::KeyRange;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::{CmpOp, Expr, ExprKind, SubqueryForm};
use esker_sql_plan::plan::{Access, AccessKind, KeyOperand, ScanPlan, ranges, tree_entries};
use esker_types::{SqlType, Value};

use super::super::subquery::Constant;
use super::runtime_filter::RuntimeFilter;
use crate::ExecEnv;

/// To find a key costs about as much as to read so many entries that follow each other.
const ENTRIES_PER_KEY: f64 = 16.0;

/// The ranges of an index that have all rows that can be wanted, where they are few. `constants` are the subqueries of
/// the statement that depend on no row, `filters` ask for slots of this table.
pub(super) fn spans(
    scan: &ScanPlan,
    (def, access, index): (&TableDef, &Access, usize),
    (constants, filters): (&[Constant], &[RuntimeFilter]),
    env: &ExecEnv<'_>,
) -> ExecResult<Option<Vec<KeySpan>>> {
    let index = &def.indexes[index];
    let Some(slot) = leading_slot(scan, def, index.parts.first()) else {
        return Ok(None);
    };
    if !matches!(access.kind, AccessKind::Full) {
        return Ok(None);
    }
    let asked = scan.conds.iter().filter_map(|c| among(c, slot, constants));
    let filtered = filters.iter().filter_map(|s| s.few(slot));
    let Some(keys) = asked.chain(filtered).min_by_key(|keys| keys.len()) else {
        return Ok(None);
    };
    if keys.len() as f64 * ENTRIES_PER_KEY > tree_entries(&index.tree) {
        return Ok(None);
    }
    let mut spans = Vec::with_capacity(keys.len());
    for key in keys {
        let operand = KeyOperand {
            expr: Expr::constant(Value::Int(*key), SqlType::bigint(false)),
            null_safe: false,
        };
        let mut prefix = Vec::new();
        // What the column cannot have, no row has.
        if ranges::encode_operands(&index.codec, &[operand], &[], env, &mut prefix)? {
            let range = KeyRange::prefix(prefix);
            spans.push(KeySpan::new(range.lower(), range.upper()));
        }
    }
    Ok(Some(spans))
}

/// The slot of the column with which an index begins.
fn leading_slot(
    scan: &ScanPlan,
    def: &TableDef,
    part: Option<&esker_sql_catalog::catalog::IndexPart>,
) -> Option<u32> {
    let part = part.filter(|p| p.prefix_len.is_none() && def.columns[p.col].ty.is_integer())?;
    let (_, slot) = scan.columns.iter().find(|(col, _)| *col == part.col)?;
    Some(*slot)
}

/// The integers among which the column is, by a condition `column IN (SELECT …)`.
fn among<'c>(cond: &Expr, slot: u32, constants: &'c [Constant]) -> Option<&'c [i64]> {
    let ExprKind::Subquery(query) = &cond.kind else {
        return None;
    };
    match &query.form {
        SubqueryForm::Compare {
            left,
            op: CmpOp::Eq,
            all: false,
            single: false,
            ..
        } if matches!(&left[..], [e] if e.as_column() == Some(slot)) => {
            let known = constants.iter().find(|c| c.is_of(query))?;
            known.few_integers()
        }
        _ => None,
    }
}
