//! The bytes of one simulated file: what readers see, what is on the platter, and what is between.
//!
//! Neighbours: `disk` owns the inodes, stamps every write with a sequence number and decides what a
//! crash keeps.
//!
//! **Invariants**
//! - Readers see the newest version of every sector, synced or not.
//! - A successful sync makes durable exactly what was written before it began.
//! - A failed sync forgets that the sectors were dirty (`lost`): readers still see the new bytes,
//!   the platter keeps the old ones, and later syncs have nothing left to write. This is what
//!   ext4, XFS and Btrfs do, and the trap for whoever tries a sync again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rng::SimRng;
use super::space::Space;
use super::{Keep, SECTOR_BYTES};

type Bytes = Arc<[u8; SECTOR_BYTES]>;

/// A version of something that is not durable yet, with its place in the order of all writes.
#[derive(Debug, Clone)]
struct Stamped<T> {
    seq: u64,
    value: T,
}

#[derive(Debug, Clone, Default)]
struct Sector {
    durable: Option<Bytes>,
    /// Newest version whose sync failed.
    lost: Option<Bytes>,
    /// Unsynced versions, oldest first.
    pending: Vec<Stamped<Bytes>>,
}

impl Sector {
    fn current(&self) -> Option<&Bytes> {
        self.pending
            .last()
            .map(|p| &p.value)
            .or(self.lost.as_ref())
            .or(self.durable.as_ref())
    }
}

/// One file.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    sectors: BTreeMap<u64, Sector>,
    /// Numbers of the sectors that have pending versions.
    dirty: BTreeSet<u64>,
    len: u64,
    durable_len: u64,
    pending_lens: Vec<Stamped<u64>>,
    /// Syncs that have failed so far.
    failed_syncs: u64,
    /// Space held on the disk.
    pub(super) space: Space,
    /// Open handles.
    pub(super) open_count: u32,
    /// Whether a name leads here now.
    pub(super) linked: bool,
}

impl Inode {
    /// An empty file with a name.
    pub(super) fn new() -> Self {
        Self {
            linked: true,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether any byte or length waits for a sync.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.pending_lens.is_empty()
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        if offset >= self.len {
            return 0;
        }
        let n = (buf.len() as u64).min(self.len - offset) as usize;
        buf[..n].fill(0);
        let end = offset + n as u64;
        let sector = SECTOR_BYTES as u64;
        for (&number, state) in self.sectors.range(offset / sector..end.div_ceil(sector)) {
            let Some(bytes) = state.current() else {
                continue;
            };
            let start = number * sector;
            let from = start.max(offset);
            let to = (start + sector).min(end);
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        n
    }

    pub(super) fn write(&mut self, buf: &[u8], offset: u64, seq: u64) {
        let sector = SECTOR_BYTES as u64;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let within = (at % sector) as usize;
            let n = (SECTOR_BYTES - within).min(buf.len() - done);
            self.change_sector(at / sector, seq, |bytes| {
                bytes[within..within + n].copy_from_slice(&buf[done..done + n]);
            });
            done += n;
        }
        self.grow_to(offset + buf.len() as u64, seq);
    }

    fn change_sector(&mut self, number: u64, seq: u64, f: impl FnOnce(&mut [u8; SECTOR_BYTES])) {
        let state = self.sectors.entry(number).or_default();
        let mut bytes = state.current().map_or([0; SECTOR_BYTES], |b| **b);
        f(&mut bytes);
        state.pending.push(Stamped {
            seq,
            value: Arc::new(bytes),
        });
        self.dirty.insert(number);
    }

    pub(super) fn grow_to(&mut self, len: u64, seq: u64) {
        if len > self.len {
            self.len = len;
            self.pending_lens.push(Stamped { seq, value: len });
        }
    }

    pub(super) fn set_len(&mut self, len: u64, seq: u64) {
        if len >= self.len {
            return self.grow_to(len, seq);
        }
        let sector = SECTOR_BYTES as u64;
        // What was cut off must read as zeros if the file grows again.
        let cut: Vec<u64> = self
            .sectors
            .range(len / sector..)
            .map(|(&n, _)| n)
            .collect();
        for number in cut {
            let from = len.saturating_sub(number * sector).min(sector) as usize;
            self.change_sector(number, seq, |bytes| bytes[from..].fill(0));
        }
        self.len = len;
        self.pending_lens.push(Stamped { seq, value: len });
    }

    /// Sectors of `[start, end)` read as zeros.
    pub(super) fn clear(&mut self, start: u64, end: u64, seq: u64) {
        let sector = SECTOR_BYTES as u64;
        let cleared = self.sectors.range(start / sector..end / sector);
        let cleared: Vec<u64> = cleared.map(|(&number, _)| number).collect();
        for number in cleared {
            self.change_sector(number, seq, |bytes| bytes.fill(0));
        }
    }

    /// Everything stamped below `before` reaches the platter.
    pub(super) fn sync_succeeds(&mut self, before: u64) {
        self.settle(before, |state, bytes| {
            state.durable = Some(bytes);
            state.lost = None;
        });
        if let Some(len) = take_settled(&mut self.pending_lens, before) {
            self.durable_len = len;
        }
    }

    /// Everything stamped below `before` is taken for clean although it never reached the platter.
    pub(super) fn sync_fails(&mut self, before: u64) {
        self.settle(before, |state, bytes| state.lost = Some(bytes));
        take_settled(&mut self.pending_lens, before);
        self.failed_syncs += 1;
    }

    pub(super) fn failed_syncs(&self) -> u64 {
        self.failed_syncs
    }

    fn settle(&mut self, before: u64, apply: impl Fn(&mut Sector, Bytes)) {
        let sectors = &mut self.sectors;
        self.dirty.retain(|number| {
            let Some(state) = sectors.get_mut(number) else {
                return false;
            };
            if let Some(bytes) = take_settled(&mut state.pending, before) {
                apply(state, bytes);
            }
            !state.pending.is_empty()
        });
    }

    /// Readers see the platter again where a sync failed, as if the cache had been dropped.
    pub(super) fn drop_lost(&mut self) {
        for state in self.sectors.values_mut() {
            state.lost = None;
        }
        if self.pending_lens.is_empty() {
            self.len = self.durable_len;
        }
    }

    /// Flips one bit, on the platter and for readers.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) {
        let sector = SECTOR_BYTES as u64;
        let within = (offset % sector) as usize;
        let flip = |bytes: &Bytes| {
            let mut changed = **bytes;
            changed[within] ^= 1 << bit;
            Arc::new(changed)
        };
        let state = self.sectors.entry(offset / sector).or_default();
        let zeros = Arc::new([0; SECTOR_BYTES]);
        state.durable = Some(flip(state.durable.as_ref().unwrap_or(&zeros)));
        if let Some(lost) = &mut state.lost {
            *lost = flip(lost);
        }
        for version in &mut state.pending {
            version.value = flip(&version.value);
        }
    }

    /// The file as a crash leaves it.
    pub(super) fn after_crash(&self, keep: &Keep, rng: &mut SimRng) -> Inode {
        let mut image = Inode {
            space: self.space.clone(),
            ..Inode::new()
        };
        let lens: Vec<u64> = self.pending_lens.iter().map(|p| p.value).collect();
        let kept = keep.choose(self.pending_lens.iter().map(|p| p.seq), rng);
        image.len = kept.map_or(self.durable_len, |i| lens[i]);
        image.durable_len = image.len;
        let sector = SECTOR_BYTES as u64;
        for (&number, state) in &self.sectors {
            let start = number * sector;
            if start >= image.len {
                continue;
            }
            let Some(mut bytes) = sector_after_crash(state, keep, rng) else {
                continue;
            };
            if start + sector > image.len {
                Arc::make_mut(&mut bytes)[(image.len - start) as usize..].fill(0);
            }
            let durable = Some(bytes);
            image.sectors.insert(
                number,
                Sector {
                    durable,
                    ..Sector::default()
                },
            );
        }
        image.space.truncate(image.len);
        image
    }
}

/// Removes the versions stamped below `before` and returns the newest of them.
fn take_settled<T>(pending: &mut Vec<Stamped<T>>, before: u64) -> Option<T> {
    let count = pending.partition_point(|p| p.seq < before);
    pending.drain(..count).next_back().map(|p| p.value)
}

fn sector_after_crash(state: &Sector, keep: &Keep, rng: &mut SimRng) -> Option<Bytes> {
    let Some(kept) = keep.choose(state.pending.iter().map(|p| p.seq), rng) else {
        return state.durable.clone();
    };
    let new = state.pending[kept].value.clone();
    if !keep.tears(rng) {
        return Some(new);
    }
    let old = match kept {
        0 => state.durable.as_ref(),
        _ => Some(&state.pending[kept - 1].value),
    };
    let mut torn = old.map_or([0; SECTOR_BYTES], |b| **b);
    let cut = rng.below(SECTOR_BYTES as u64) as usize;
    if rng.chance(50) {
        torn[..cut].copy_from_slice(&new[..cut]);
    } else {
        torn[cut..].copy_from_slice(&new[cut..]);
    }
    Some(Arc::new(torn))
}
