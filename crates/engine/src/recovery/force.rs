//! Opening a database whose log is damaged.
//!
//! Neighbours: `esker-wal` names the damage, or ends the log before it and puts aside what is behind; here it is told
//! what of the log is needed, and people are told what that means for the trees.
//!
//! **Invariants**
//! - Without [`ForceRecovery::PointInTime`] a damaged log is never opened.
//! - No sequence is given twice: new ones begin behind every sequence that the log or an extent has.

use esker_wal::{Lost, Lsn, Needs};

use super::collect::Plan;
use crate::tree::{Recovered, Tree, Trees};
use crate::{Seq, TreeId};

/// Whether a database is opened whose log is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForceRecovery {
    /// Damage is an error that says what would be lost.
    #[default]
    Off,
    /// The log ends before the damage.
    PointInTime,
}

/// What is needed of the log, and what is known of it.
pub(crate) fn needs(trees: &Trees, recovered: &Recovered) -> Needs {
    let plan = Plan::whole(trees, recovered);
    let trees = trees.all();
    // Nothing that was not durable has moved a flushed sequence, so a log that ends before one has lost its end. If it
    // went on there, replay would skip what comes until the sequences are beyond that point.
    let flushed_seqs = trees.iter().map(Tree::flushed_seq);
    let recorded = recovered.counters_as_of.max(recovered.log_from);
    let durable = flushed_seqs.fold(recorded, Seq::max);
    Needs {
        durable: Lsn(durable),
        at_least: Lsn(trees.iter().map(newest_seq).fold(durable, Seq::max)),
        wants_block: Box::new(move |block| plan.wants_block(block)),
    }
}

/// The newest sequence that a tree has on disk.
fn newest_seq(tree: &Tree) -> Seq {
    let version = std::sync::Arc::clone(&tree.superversion().version);
    let extents = version.levels().extents();
    let largest = extents.map(|(_, extent)| extent.meta().largest_seq).max();
    largest.unwrap_or(0).max(tree.flushed_seq())
}

/// The trees that are newer than the point in time: they have commits that others have lost. The log tells of them.
pub(crate) fn newer_trees(trees: &Trees, lost: &Lost) -> Vec<TreeId> {
    let newer = trees.all();
    let newer = newer
        .iter()
        .filter(|tree| newest_seq(tree) > lost.loss.from.0);
    let ids: Vec<TreeId> = newer.map(Tree::id).collect();
    if !ids.is_empty() {
        tracing::warn!(
            trees = ?ids,
            "these trees were flushed after LSN {} and keep what they have from later transactions, of which other trees \
             may have lost a part",
            lost.loss.from
        );
    }
    ids
}
