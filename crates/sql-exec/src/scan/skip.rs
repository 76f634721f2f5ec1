//! Skip scan: the ranges of an index's second part behind every value of the first.
//!
//! Neighbours: `plan::access` says that the values are few; `scan` reads the ranges like others. **Invariants**: every
//! value that the scan's view has is found; of more ranges than [`MAX_RANGES`] the rest of the index is one.

use std::ops::Bound;

use esker_engine::{Direction, View};
use esker_sql_catalog::codec::{KeyRange, damaged, prefix_successor};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::plan::SkipScan;
use esker_sql_plan::plan::ranges::MAX_RANGES;
use esker_types::Value;

use super::base::Base;
use crate::ExecEnv;

/// The ranges, ascending.
pub(super) fn ranges(
    skip: &SkipScan,
    base: Base<'_>,
    view: View,
    row: &[Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Vec<KeyRange>> {
    let index = base.index();
    let exec = env.exec.expect("an index is read");
    let behind = skip.ranges.build(&index.codec.behind_first(), row, env)?;
    let mut ranges: Vec<KeyRange> = Vec::new();
    let mut from = Bound::Unbounded;
    while !behind.is_empty() {
        exec.tick()?;
        let lower = from.as_ref().map(Vec::as_slice);
        let opened = exec.txn().scan(
            &index.tree,
            lower,
            Bound::Unbounded,
            Direction::Forward,
            view,
        );
        let mut cursor = opened.map_err(|e| engine_error(&e))?;
        let Some((key, _)) = cursor.next().map_err(|e| engine_error(&e))? else {
            break;
        };
        let len = index.codec.part_len(0, key);
        let mut first = key[..len.ok_or_else(|| damaged("index entry"))?].to_vec();
        debug_assert!(!first.is_empty(), "a part has bytes");
        if ranges.len() + behind.len() > MAX_RANGES {
            ranges.push(KeyRange {
                lower: Bound::Included(first),
                upper: Bound::Unbounded,
            });
            break;
        }
        ranges.extend(behind.iter().map(|range| range.behind(&first)));
        if !prefix_successor(&mut first) {
            break;
        }
        from = Bound::Included(first);
    }
    Ok(ranges)
}
