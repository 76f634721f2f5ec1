//! Compaction plan: which extents of a task are merged, and which are linked into their new place (trivial moves).
//!
//! Neighbours: `pick` gives the inputs, `run` carries the pieces out.
//!
//! **Invariants**
//! - Pieces come in key order and do not overlap: what a merge writes lies between the pieces before and after it.
//! - All versions of a user key are in one piece.

use crate::extent::{ExtentMeta, HasMeta};

/// What happens to some extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<E> {
    /// They take their new place as they are (or stay where they are).
    Link(Vec<E>),
    /// They are merged: parts of runs, newest data first; some may be empty.
    Merge(Vec<Vec<E>>),
}

/// How a single extent is judged.
impl<E> Piece<E> {
    /// How many extents it has.
    fn extents(&self) -> usize {
        match self {
            Piece::Link(extents) => extents.len(),
            Piece::Merge(parts) => parts.iter().map(Vec::len).sum(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Overlaps others, or must be rewritten.
    Entangled,
    /// Alone but not worth an extent of its own if a neighbour is rewritten anyway.
    Small,
    /// Alone.
    Free,
}

/// Extents whose key ranges overlap, directly or through others.
struct Cluster<E> {
    members: Vec<(usize, E)>,
    kind: Kind,
}

/// What decides whether an extent can be linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// An extent with less than this is better merged with its neighbours.
    pub(crate) small_bytes: u32,
    /// Deletes vanish in the output, so it is worth rewriting extents that have some.
    pub(crate) drops_deletes: bool,
    /// So do versions that newer ones hide, and it is for them that the task is done.
    pub(crate) drops_hidden: bool,
    /// Extents that were compressed for a level above this are rewritten.
    pub(crate) packs_for: u8,
    /// The index of the input that hangs at the output place already.
    pub(crate) resident: Option<usize>,
}

/// Divides the inputs (parts of runs, newest data first) into pieces.
pub(crate) fn plan<E: HasMeta>(inputs: &[Vec<E>], rules: Rules) -> Vec<Piece<E>> {
    let mut pieces = Vec::new();
    let mut pending: Vec<Cluster<E>> = Vec::new();
    for cluster in clusters(inputs, rules) {
        if cluster.kind == Kind::Free {
            close(&mut pending, inputs.len(), &mut pieces);
            pieces.push(link(cluster));
        } else {
            pending.push(cluster);
        }
    }
    close(&mut pending, inputs.len(), &mut pieces);
    debug_assert_eq!(
        pieces.iter().map(Piece::extents).sum::<usize>(),
        inputs.iter().map(Vec::len).sum::<usize>(),
        "every input is in one piece"
    );
    pieces
}

/// Makes a merge of neighbouring clusters; a small one that has no company is linked.
fn close<E>(pending: &mut Vec<Cluster<E>>, runs: usize, pieces: &mut Vec<Piece<E>>) {
    if pending.len() == 1 && pending[0].kind == Kind::Small {
        pieces.extend(pending.pop().map(link));
        return;
    }
    if pending.is_empty() {
        return;
    }
    debug_assert!(pending.iter().all(|cluster| cluster.kind != Kind::Free));
    let mut parts: Vec<Vec<E>> = (0..runs).map(|_| Vec::new()).collect();
    for (run, extent) in pending.drain(..).flat_map(|cluster| cluster.members) {
        parts[run].push(extent);
    }
    pieces.push(Piece::Merge(parts));
}

fn link<E>(cluster: Cluster<E>) -> Piece<E> {
    debug_assert!(
        cluster.kind != Kind::Entangled,
        "runs that overlap are merged"
    );
    Piece::Link(
        cluster
            .members
            .into_iter()
            .map(|(_, extent)| extent)
            .collect(),
    )
}

fn clusters<E: HasMeta>(inputs: &[Vec<E>], rules: Rules) -> Vec<Cluster<E>> {
    let mut all: Vec<(usize, E)> = inputs
        .iter()
        .enumerate()
        .flat_map(|(run, extents)| extents.iter().map(move |extent| (run, extent.clone())))
        .collect();
    // Stable: extents of one run that share a key stay in their order.
    all.sort_by(|(_, a), (_, b)| a.meta().first.key.cmp(&b.meta().first.key));
    let mut clusters: Vec<Cluster<E>> = Vec::new();
    let mut high: Box<[u8]> = Box::default();
    for (run, extent) in all {
        let meta: &ExtentMeta = extent.meta();
        let last = meta.last.key.clone();
        match clusters.last_mut() {
            Some(cluster) if meta.first.key <= high => {
                high = high.max(last);
                cluster.members.push((run, extent));
            }
            _ => {
                high = last;
                clusters.push(Cluster {
                    members: vec![(run, extent)],
                    kind: Kind::Free,
                });
            }
        }
    }
    for cluster in &mut clusters {
        cluster.kind = judge(&cluster.members, rules);
    }
    clusters
}

fn judge<E: HasMeta>(members: &[(usize, E)], rules: Rules) -> Kind {
    let run = members[0].0;
    if members.iter().any(|(other, _)| *other != run) {
        return Kind::Entangled;
    }
    let has_deletes = members.iter().any(|(_, extent)| extent.meta().deletes > 0);
    if rules.drops_deletes && has_deletes && rules.resident != Some(run) {
        return Kind::Entangled;
    }
    let has_hidden = |meta: &ExtentMeta| meta.entries - meta.deletes > meta.rows;
    if rules.drops_hidden && members.iter().any(|(_, e)| has_hidden(e.meta())) {
        return Kind::Entangled;
    }
    if members
        .iter()
        .any(|(_, extent)| extent.meta().packed_for < rules.packs_for)
    {
        return Kind::Entangled;
    }
    let bytes: u64 = members
        .iter()
        .map(|(_, e)| u64::from(e.meta().stored_bytes))
        .sum();
    if bytes < u64::from(rules.small_bytes) {
        Kind::Small
    } else {
        Kind::Free
    }
}
