//! INFORMATION_SCHEMA tables of the storage engine: trees, extents, compactions, memory, disk, write stalls.
//!
//! Neighbours: `infoschema` asks by table name; the engine has the figures, `disk` looks at the files.
//! **Invariants**: a table known here has the columns of `tables`; like InnoDB's tables, they show
//! rows only to users with the PROCESS privilege.

use std::collections::HashMap;

use esker_engine::compact::{CompactionKind, CompactionStats};
use esker_engine::extent::HasMeta;
use esker_engine::{BytesUsed, StallCause, TreeId};
use esker_types::Value;
use esker_types::hex::upper_hex;
use esker_vfs::machine;

use super::{Viewer, disk, optional, text, yes_no};

/// The rows of a table about the storage; None when it is not one.
pub(super) fn rows(table: &str, viewer: &Viewer) -> Option<Vec<Vec<Value>>> {
    let make = match table {
        "ESKER_COMPACTIONS" => compactions,
        "ESKER_DISK" => disk::rows,
        "ESKER_EXTENTS" => extents,
        "ESKER_MEMORY" => memory,
        "ESKER_STALLS" => stalls,
        "ESKER_TREES" => trees,
        _ => return None,
    };
    Some(match viewer.may("PROCESS") {
        true => make(viewer),
        false => Vec::new(),
    })
}

fn numbers(values: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Value> {
    values.into_iter().map(Value::UInt)
}

fn compactions(viewer: &Viewer) -> Vec<Vec<Value>> {
    let work = viewer.instance.engine().stats().storage.work;
    let row = |kind: &str, count: u64, done: CompactionStats| {
        let figures = [
            count,
            done.merged,
            done.linked,
            done.written,
            done.written_bytes,
            done.dropped_entries,
        ];
        std::iter::once(text(kind))
            .chain(numbers(figures))
            .collect()
    };
    let flushed = CompactionStats {
        written_bytes: work.flushed_bytes,
        ..CompactionStats::default()
    };
    let mut rows = vec![row("flush", work.flushes, flushed)];
    let rotations = [
        ("rotation, full memtable", work.rotations.full),
        ("rotation, memory or log limit", work.rotations.memory),
        ("rotation, memtable of tombstones", work.rotations.deletes),
        (
            "rotation, tombstones that readers skip",
            work.rotations.tombstone_skips,
        ),
    ];
    rows.extend(rotations.map(|(why, count)| row(why, count, CompactionStats::default())));
    for (kind, (count, done)) in CompactionKind::ALL.into_iter().zip(work.kinds) {
        let name = match kind {
            CompactionKind::MergeL0 => "level 0, runs merged",
            CompactionKind::ToLevel1 => "level 0 to level 1",
            CompactionKind::ToLevel2 => "level 1 to level 2",
            CompactionKind::Deletes => "extents full of tombstones",
            CompactionKind::Steps => "extents with tombstones that readers skip",
            CompactionKind::Space => "idle trees made smaller",
        };
        rows.push(row(name, count, done));
    }
    rows
}

/// What memory is used for, and how much. The whole is not among them.
pub(super) fn memory_areas(viewer: &Viewer) -> Vec<(&'static str, BytesUsed)> {
    let memory = viewer.instance.engine().stats().memory;
    vec![
        ("memtables", memory.memtables),
        ("memtables still read", memory.lingering_memtables),
        ("block cache", memory.cache),
        ("blocks outside the cache", memory.blocks_outside),
        ("extent metadata", memory.extent_metadata),
        ("log buffer", memory.log_buffer),
        ("transactions", memory.transactions),
        ("row locks", memory.row_locks),
        ("flush and compaction", memory.background),
        ("statements", memory.statements),
        ("buffers of temporary files", memory.temp_files),
        ("binary log and its consumers", memory.followers),
    ]
}

fn memory(viewer: &Viewer) -> Vec<Vec<Value>> {
    let memory = viewer.instance.engine().stats().memory;
    let row = |area: &str, used: BytesUsed, limit: Option<u64>| {
        vec![
            text(area),
            Value::UInt(used.now),
            limit.map_or(Value::Null, Value::UInt),
            Value::UInt(used.peak),
        ]
    };
    let limit_of = |area: &str| match area {
        "memtables" => Some(memory.memtables_limit),
        "block cache" => Some(memory.cache_limit),
        _ => None,
    };
    let areas = memory_areas(viewer).into_iter();
    let mut rows: Vec<_> = areas
        .map(|(area, used)| row(area, used, limit_of(area)))
        .collect();
    rows.push(row("all", memory.total, Some(memory.limit)));
    if let Some(resident) = machine::resident() {
        // What nobody counts: connections, the catalog, stacks, holes of the heap, and what it has freed but not given
        // back. Nobody has watched these two.
        let unwatched =
            |area, bytes| vec![text(area), Value::UInt(bytes), Value::Null, Value::Null];
        let counted = resident.files + memory.total.now;
        rows.push(unwatched(
            "not counted",
            resident.now.saturating_sub(counted),
        ));
        rows.push(unwatched("code and mapped files", resident.files));
        let resident = BytesUsed {
            now: resident.now,
            peak: resident.peak,
        };
        rows.push(row("resident", resident, None));
    }
    rows
}

fn stalls(viewer: &Viewer) -> Vec<Vec<Value>> {
    let stalls = viewer.instance.engine().stats().stalls;
    let row = |(cause, stalls): (StallCause, esker_engine::Stalls)| {
        let (name, waits_for) = match cause {
            StallCause::HighMemory => ("memtables use nearly all their memory, throttled", "flush"),
            StallCause::Memory => ("memtables use all their memory", "flush"),
            StallCause::ManyMemtables => ("a tree has some full memtables, throttled", "flush"),
            StallCause::Memtables => ("a tree has many full memtables", "flush"),
            StallCause::ManyRuns => ("many runs in level 0, throttled", "compaction"),
            StallCause::TooManyRuns => ("too many runs in level 0", "compaction"),
        };
        let figures = [
            stalls.count,
            stalls.nanos,
            stalls.longest_nanos,
            stalls.waiting,
        ];
        [text(name), text(waits_for)]
            .into_iter()
            .chain(numbers(figures))
            .collect()
    };
    stalls.map(row).to_vec()
}

/// Schema, table and index of every tree that is an index.
fn index_names(viewer: &Viewer) -> HashMap<TreeId, [Box<str>; 3]> {
    let mut names = HashMap::new();
    for schema in viewer.instance.schemas() {
        for table in viewer.instance.tables_of(&schema.name) {
            for index in &table.indexes {
                let name = [&*schema.name, &*table.name, &*index.name];
                names.insert(index.id, name.map(Box::from));
            }
        }
    }
    names
}

/// The number of a tree, and which index it is, if it is one.
fn tree_and_name(id: TreeId, names: &HashMap<TreeId, [Box<str>; 3]>) -> Vec<Value> {
    let name = names.get(&id);
    let mut row = vec![Value::UInt(u64::from(id.0))];
    row.extend((0..3).map(|part| optional(name.map(|name| &name[part]))));
    row
}

/// Every tree with the index it is, if it is one.
fn trees(viewer: &Viewer) -> Vec<Vec<Value>> {
    let names = index_names(viewer);
    let engine = viewer.instance.engine();
    let row = |id: TreeId| {
        let tree = engine.tree(id)?;
        let now = tree.superversion();
        let totals = now.version.totals();
        let in_memory = now.in_memory();
        let extents = now.version.levels().extents();
        let steps = extents
            .map(|(_, extent)| extent.tombstones_skipped())
            .sum::<u64>();
        let mut row = tree_and_name(id, &names);
        row.extend(numbers([
            (1 + now.immutables.len() + now.replayed.len()) as u64,
            in_memory.bytes as u64,
            totals.l0_runs as u64,
        ]));
        for level in 0..totals.extents.len() {
            row.extend(numbers([totals.extents[level], totals.bytes[level]]));
        }
        row.extend(numbers([
            totals.entries,
            totals.deletes,
            totals.data_bytes,
            in_memory.entries,
            in_memory.deletes,
            in_memory.steps + steps,
        ]));
        Some(row)
    };
    engine.tree_ids().into_iter().filter_map(row).collect()
}

/// Every extent of every tree, newest data first.
fn extents(viewer: &Viewer) -> Vec<Vec<Value>> {
    let names = index_names(viewer);
    let engine = viewer.instance.engine();
    let mut rows = Vec::new();
    for tree in engine
        .tree_ids()
        .into_iter()
        .filter_map(|id| engine.tree(id))
    {
        let now = tree.superversion();
        for (place, extent) in now.version.levels().extents() {
            let meta = extent.meta();
            let mut row = tree_and_name(tree.id(), &names);
            row.extend(numbers([
                u64::from(place.level),
                place.run.0,
                u64::from(meta.id.0),
                u64::from(meta.stored_bytes),
                meta.data_bytes,
                meta.entries,
                meta.deletes,
                meta.rows,
                meta.smallest_seq,
                meta.largest_seq,
            ]));
            row.extend([&meta.first, &meta.last].map(|position| text(upper_hex(&position.key))));
            row.push(yes_no(extent.is_quarantined()));
            row.push(Value::UInt(extent.tombstones_skipped()));
            rows.push(row);
        }
    }
    rows
}
