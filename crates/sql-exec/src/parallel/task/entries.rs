//! What the entries of an index have of the rows, and how rows are made of them.
//!
//! Neighbours: `task` reads entries one by one, `vectorized` in batches.
//! **Invariant**: every column that the scan reads is in its slot when an entry was judged and taken.

use esker_engine::View;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::plan::{Access, ScanPlan};
use esker_types::Value;

use super::Flow;
use crate::ExecEnv;
use crate::scan::{Cover, EntryFilter, Verdict, fill};

/// What the entries of an index have.
pub(in crate::parallel) enum Entries {
    /// The rows.
    Rows,
    /// All columns that are needed.
    Covering { cover: Cover, index: usize },
    /// The keys of the rows.
    Leading { index: usize, filter: EntryFilter },
}

impl Entries {
    pub(super) fn of(def: &TableDef, access: &Access, index: usize, scan: &ScanPlan) -> Self {
        match (index, access.covering) {
            (0, _) => Self::Rows,
            (_, true) => Self::Covering {
                cover: Cover::new(def, access, scan),
                index,
            },
            (_, false) => Self::Leading {
                index,
                filter: EntryFilter::new(def, access, scan),
            },
        }
    }

    /// The key and the value of a piece.
    pub(in crate::parallel) fn entry_of<'s>(&self, piece: &'s [u8]) -> (&'s [u8], &'s [u8]) {
        match self {
            Self::Rows => (&[], piece),
            Self::Covering { .. } | Self::Leading { .. } => (piece, &[]),
        }
    }

    /// Decodes the row of an entry, evaluates the table's own conditions, of which the first `met` are known to be
    /// true, and asks the filters.
    pub(in crate::parallel) fn judge(
        &self,
        scan: &ScanPlan,
        def: &TableDef,
        (key, value): (&[u8], &[u8]),
        met: usize,
        flow: &mut Flow<'_>,
    ) -> ExecResult<Verdict> {
        let env = flow.env;
        match self {
            Self::Rows => flow.judge(scan, def, met, value),
            Self::Covering { cover, index } => {
                cover.decode(&def.indexes[*index], def, key, value, &mut flow.row, env)?;
                flow.filters.judge_decoded(scan, met, &flow.row, env)
            }
            Self::Leading { index, filter } => {
                let (place, entry) = ((def, *index), (key, value));
                if !filter.lets_pass(scan, place, entry, &mut flow.row, env)? {
                    return Ok(Verdict::Drop);
                }
                let key = def.indexes[*index].codec.clustered_of(key, value)?;
                let exec = env.exec.expect("what looks rows up has a reader");
                let found =
                    exec.txn()
                        .get_with(&def.primary().tree, key, View::Snapshot, |stored| {
                            flow.judge(scan, def, met, stored)
                        });
                found
                    .map_err(|e| engine_error(&e))?
                    .unwrap_or(Ok(Verdict::Drop))
            }
        }
    }

    /// Decodes all columns of an entry that has them.
    pub(in crate::parallel) fn decode(
        &self,
        scan: &ScanPlan,
        def: &TableDef,
        (key, value): (&[u8], &[u8]),
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        match self {
            Self::Rows => {
                let reader = RowReader::new(&def.layout, &env.ctx.time_zone, value)?;
                fill(&scan.columns, &reader, row);
                Ok(())
            }
            Self::Covering { cover, index } => {
                cover.decode(&def.indexes[*index], def, key, value, row, env)
            }
            Self::Leading { .. } => unreachable!("the row is elsewhere"),
        }
    }
}
