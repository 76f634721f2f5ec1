//! The numbers that decide when a tree is compacted and when its writers must wait.
//!
//! Neighbours: `pick` decides with them; whoever writes asks for the [`Pressure`] and waits.
//!
//! **Invariants**
//! - Whatever shape makes writers wait also makes a compaction due: waiting ends. (Unless extents that cannot be read stand in
//!   its way; then writers are told.)

use crate::extent::HasMeta;
use crate::tree::Levels;

/// When and how much is compacted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Layers in level 0 that make a merge due.
    pub layers: usize,
    /// Layers at which writers are to slow down.
    pub layers_slow: usize,
    /// Layers at which writers are to wait.
    pub layers_stop: usize,
    /// Immutable memtables at which writers are to wait.
    pub immutables_stop: usize,
    /// The oldest layer goes to level 1 when it has this many bytes and ...
    pub layer_bytes: u64,
    /// ... at least one in so many bytes of level 1 (but never more than a job), so that not too much is rewritten for it.
    pub level1_per_layer: u64,
    /// Level 1 may always have this many bytes ...
    pub level1_bytes: u64,
    /// ... and one in so many bytes of level 2.
    pub level2_per_level1: u64,
    /// A job that moves data down reads about this many bytes.
    pub job_bytes: u64,
    /// Extents with more than this share of deletes, in percent, go down.
    pub delete_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            layers: 4,
            layers_slow: 12,
            layers_stop: 20,
            immutables_stop: 6,
            layer_bytes: 64 << 20,
            level1_per_layer: 4,
            level1_bytes: 256 << 20,
            level2_per_level1: 10,
            job_bytes: 256 << 20,
            delete_percent: 30,
        }
    }
}

/// How far background work is behind with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// It keeps up.
    None,
    /// Writers should slow down.
    Slow,
    /// Writers should wait until it is less.
    Stop,
}

impl Limits {
    /// Panics if the numbers contradict each other.
    pub(crate) fn assert_sane(&self) {
        assert!(self.layers >= 2, "one layer cannot be merged");
        assert!(self.layers < self.layers_slow && self.layers_slow < self.layers_stop);
        assert!(self.level1_per_layer > 0 && self.level2_per_level1 > 0);
        assert!(self.immutables_stop > 0);
    }

    /// How far background work is behind, by the layers of level 0 and the immutable memtables.
    pub fn pressure<E: HasMeta>(&self, levels: &Levels<E>, immutables: usize) -> Pressure {
        let layers = levels.layers().len();
        if layers >= self.layers_stop || immutables >= self.immutables_stop {
            Pressure::Stop
        } else if layers >= self.layers_slow {
            Pressure::Slow
        } else {
            Pressure::None
        }
    }
}
