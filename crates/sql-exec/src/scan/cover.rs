//! Columns in index entries: all that are needed of a covering one, without the row, or those of conditions that
//! entries decide before their rows are read (index condition pushdown).
//!
//! Neighbours: `plan::access` says which index covers, and which conditions entries decide; `codec` decodes parts of
//! keys. **Invariants**: every column that is wanted has a place in the entry; an entry that does not cover only drops
//! its row, and what warns or fails is left to that.

use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::{KeyCodec, damaged};
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::plan::{Access, ScanPlan};
use esker_types::Value;

use super::judge::{Verdict, assign};
use crate::ExecEnv;
use crate::node::all_true;

/// Where a covering index entry has the needed columns.
#[derive(Default)]
pub(crate) struct Cover {
    /// Slot of each index part, if wanted.
    parts: Vec<Option<u32>>,
    /// Slot of each clustered key part, if wanted from there.
    clustered: Vec<Option<u32>>,
}

impl Cover {
    pub(crate) fn new(def: &TableDef, access: &Access, plan: &ScanPlan) -> Self {
        Self::of(def, access, plan.columns.clone())
    }

    fn of(def: &TableDef, access: &Access, mut wanted: Vec<(usize, u32)>) -> Self {
        let index = &def.indexes[access.index];
        let mut take = |col: usize| {
            let at = wanted.iter().position(|(c, _)| *c == col)?;
            Some(wanted.swap_remove(at).1)
        };
        let mut parts = Vec::new();
        for (nth, part) in index.parts.iter().enumerate() {
            let usable = index.codec.is_reversible(nth);
            parts.push(if usable { take(part.col) } else { None });
        }
        let clustered = def.primary().parts.iter().map(|p| take(p.col)).collect();
        debug_assert!(
            wanted.is_empty(),
            "a covering index has every needed column"
        );
        Self { parts, clustered }
    }

    /// Decodes an index entry into its slots and evaluates the conditions.
    #[expect(clippy::too_many_arguments, reason = "an entry is a key and a value")]
    pub(crate) fn judge(
        &self,
        plan: &ScanPlan,
        def: &TableDef,
        index: usize,
        key: &[u8],
        value: &[u8],
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        self.decode(&def.indexes[index], def, key, value, row, env)?;
        Ok(match all_true(&plan.conds, row, env)? {
            true => Verdict::Take,
            false => Verdict::Drop,
        })
    }

    /// Decodes an index entry into its slots.
    pub(crate) fn decode(
        &self,
        index: &IndexDef,
        def: &TableDef,
        key: &[u8],
        value: &[u8],
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        decode_parts(&index.codec, &self.parts, key, row, env)?;
        if self.clustered.iter().any(Option::is_some) {
            let clustered = index.codec.clustered_of(key, value)?;
            decode_parts(&def.primary().codec, &self.clustered, clustered, row, env)?;
        }
        Ok(())
    }
}

/// What entries decide of an index that does not cover.
#[derive(Default)]
pub(crate) struct EntryFilter {
    cover: Cover,
}

impl EntryFilter {
    pub(crate) fn new(def: &TableDef, access: &Access, plan: &ScanPlan) -> Self {
        let mut wanted: Vec<(usize, u32)> = Vec::new();
        for nth in &plan.entry_conds {
            plan.conds[*nth].slots(&mut |slot| {
                let column = plan.columns.iter().find(|(_, own)| *own == slot);
                wanted.extend(column.filter(|column| !wanted.contains(column)));
            });
        }
        Self {
            cover: Cover::of(def, access, wanted),
        }
    }

    /// May the row of an entry meet the conditions?
    #[inline]
    pub(crate) fn lets_pass(
        &self,
        plan: &ScanPlan,
        (def, index): (&TableDef, usize),
        (key, value): (&[u8], &[u8]),
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        if plan.entry_conds.is_empty() {
            return Ok(true);
        }
        self.cover
            .decode(&def.indexes[index], def, key, value, row, env)?;
        let diagnostics = &env.ctx.diagnostics;
        let mark = diagnostics.mark();
        for nth in &plan.entry_conds {
            let is_met = plan.conds[*nth].is_true(row, env);
            if is_met.is_err() || diagnostics.raised_since(mark) {
                diagnostics.undo_to(mark);
                return Ok(true);
            }
            if matches!(is_met, Ok(false)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn decode_parts(
    codec: &KeyCodec,
    slots: &[Option<u32>],
    key: &[u8],
    row: &mut [Value],
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let damaged = || damaged("index entry");
    let mut rest = key;
    for (nth, slot) in slots.iter().enumerate() {
        rest = match slot {
            Some(slot) => {
                let (value, rest) = codec
                    .decode_part(nth, rest, &env.ctx.time_zone)
                    .ok_or_else(damaged)?;
                assign(&mut row[*slot as usize], value);
                rest
            }
            None => &rest[codec.part_len(nth, rest).ok_or_else(damaged)?..],
        };
    }
    Ok(())
}
