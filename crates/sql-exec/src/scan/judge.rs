//! Late materialization of a stored row: its conditions are evaluated as soon as what they read is decoded, and the
//! rest only after.
//!
//! Neighbours: `scan`, `locking`, `parallel` and `short` judge rows here; `codec` decodes fields.
//! **Invariant**: a row that is taken has all conditions true, and every column of the plan in its slot.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::plan::ScanPlan;
use esker_types::{Value, ValueRef};

use crate::ExecEnv;
use crate::parallel::StoredRowFilter;

/// What became of a candidate row.
pub(crate) enum Verdict {
    Take,
    Drop,
}

/// Copies a borrowed value into a slot, reusing its memory.
#[inline]
pub(crate) fn assign(slot: &mut Value, value: ValueRef<'_>) {
    match (slot, value) {
        (Value::Str(old), ValueRef::Str(new)) | (Value::Json(old), ValueRef::Json(new)) => {
            old.clear();
            old.extend_from_slice(new);
        }
        (slot, value) => *slot = value.to_owned(),
    }
}

/// As [`judge`] for rows that have to pass filters.
#[inline]
pub(super) fn judge_filtered(
    filters: &mut [StoredRowFilter],
    plan: &ScanPlan,
    def: &TableDef,
    (key, stored): (&[u8], &[u8]),
    row: &mut [Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Verdict> {
    if filters.iter_mut().all(|filter| filter.passes(stored)) {
        return judge(plan, def, key, stored, row, env);
    }
    count_read(plan, env);
    Ok(Verdict::Drop)
}

/// Decodes a stored row into its slots and evaluates the conditions.
pub(crate) fn judge(
    plan: &ScanPlan,
    def: &TableDef,
    key: &[u8],
    stored: &[u8],
    row: &mut [Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Verdict> {
    count_read(plan, env);
    let Some(reader) = meets(plan, def, 0, stored, row, env)? else {
        return Ok(Verdict::Drop);
    };
    debug_assert!(
        plan.cond_ends
            .last()
            .is_none_or(|end| *end == plan.cond_columns)
    );
    fill(&plan.columns[plan.cond_columns..], &reader, row);
    if let Some(slot) = plan.key_slot {
        assign(&mut row[slot as usize], ValueRef::Str(key));
    }
    if let Some(slot) = plan.row_slot {
        assign(&mut row[slot as usize], ValueRef::Str(stored));
    }
    Ok(Verdict::Take)
}

/// Notes that a row was read, where the statement is measured.
#[inline]
pub(crate) fn count_read(plan: &ScanPlan, env: &ExecEnv<'_>) {
    if let Some(profile) = &env.states.profile {
        profile.count_read(plan);
    }
}

/// Decodes what the conditions read of a stored row, as long as they are true; if all are, gives what reads the rest.
/// The first `met` are known to be true.
#[inline]
pub(crate) fn meets<'r>(
    plan: &ScanPlan,
    def: &'r TableDef,
    met: usize,
    stored: &'r [u8],
    row: &mut [Value],
    env: &ExecEnv<'r>,
) -> ExecResult<Option<RowReader<'r>>> {
    debug_assert_eq!(plan.conds.len(), plan.cond_ends.len());
    debug_assert!(met <= plan.conds.len() && plan.cond_ends.is_sorted());
    let reader = RowReader::new(&def.layout, &env.ctx.time_zone, stored)?;
    let mut decoded = match met {
        0 => 0,
        _ => plan.cond_ends[met - 1],
    };
    fill(&plan.columns[..decoded], &reader, row);
    for (cond, end) in plan.conds.iter().zip(&plan.cond_ends).skip(met) {
        fill(&plan.columns[decoded..*end], &reader, row);
        decoded = *end;
        if !cond.is_true(row, env)? {
            return Ok(None);
        }
    }
    Ok(Some(reader))
}

/// Decodes columns of a stored row into their slots.
#[inline]
pub(crate) fn fill(columns: &[(usize, u32)], reader: &RowReader<'_>, row: &mut [Value]) {
    for &(column, slot) in columns {
        assign(&mut row[slot as usize], reader.field(column));
    }
}
