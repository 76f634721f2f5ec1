//! Covering index entries: the needed columns are decoded from keys, without the row.
//!
//! Neighbours: `plan::access` says which index covers; `codec` decodes parts of keys.
//! **Invariant**: every column that the plan reads has a place in the entry.

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
        let index = &def.indexes[access.index];
        let mut wanted: Vec<(usize, u32)> = plan.columns.clone();
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
