//! How the benchmarks' extents are compressed.
//!
//! Neighbours: `kv` and `scan` open engines with it.

use clap::ValueEnum;
use esker_engine::EngineConfig;
use esker_engine::extent::Compression;

/// How extents are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// As the engine does by itself: more the deeper the level.
    Levels,
    /// Not at all.
    None,
    /// LZ4 at every level.
    Lz4,
    /// zstd at every level.
    Zstd,
}

impl Packing {
    pub(crate) fn set(self, config: &mut EngineConfig) {
        let everywhere = match self {
            Packing::Levels => return,
            Packing::None => Compression::None,
            Packing::Lz4 => Compression::Lz4,
            Packing::Zstd => Compression::Zstd(1),
        };
        config.extents.compression.fill(everywhere);
    }
}
