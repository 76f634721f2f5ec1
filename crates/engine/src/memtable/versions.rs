//! Version list of one key: newest to oldest, with jump pointers. It has what came after the key's first version.
//!
//! Neighbours: `skiplist` keeps the first version in the node of the key, the others here; memory comes from `arena`.
//!
//! Version (in the arena, 8-byte aligned):
//! ```text
//! seq u64 | older ptr | jump ptr | value_len u32 | depth u16 | op u8 | value
//! ```
//! A new version costs one compare-exchange at the front, whatever the size of the table. `jump` leads to a version
//! further back, so that a read with an old snapshot looks at a logarithm of the versions of a hot row: to where the
//! jump of the predecessor's jump leads if the two are of the same length, else to the predecessor (Myers, "An
//! applicative random-access stack", 1983).
//!
//! **Invariants**
//! - Sequences descend along `older`, and no two are the same.
//! - A version is complete before its address is published: written with plain stores, linked by a compare-exchange
//!   with release; links are read with acquire. Only `older` ever changes, from one version to a newer one.
//! - `jump` leads backwards. What it skips is newer than where it leads, also what was linked in between later.

use std::ptr;
use std::sync::atomic::Ordering;

use super::arena::{ALIGN, Arena};
use crate::sync::AtomicPtr;
use crate::{Op, Seq};

#[repr(C)]
pub(super) struct Version {
    seq: Seq,
    /// Null: the first version of the key follows.
    older: AtomicPtr<Version>,
    /// Null: as for `older`.
    jump: *const Version,
    value_len: u32,
    /// Number of versions behind it when it was linked, modulo 65,536: says only how long the jumps are.
    depth: u16,
    op: Op,
    // The value follows.
}

const _: () = assert!(align_of::<Version>() <= ALIGN);

/// A version of a live list. Valid as long as the list; copies freely.
#[derive(Clone, Copy)]
pub(super) struct VersionRef(*const Version);

impl VersionRef {
    #[inline]
    fn from_link(version: *const Version) -> Option<Self> {
        (!version.is_null()).then_some(VersionRef(version))
    }

    #[inline]
    fn header(&self) -> &Version {
        // SAFETY: a `VersionRef` is only made from a link of a live list, so it points at a complete version in the
        // arena; the holder keeps the list alive (see `SkipList` methods and `MemIter`).
        unsafe { &*self.0 }
    }

    #[inline]
    pub(super) fn seq(&self) -> Seq {
        self.header().seq
    }

    pub(super) fn op(&self) -> Op {
        self.header().op
    }

    /// The value, for as long as the caller keeps the list alive.
    ///
    /// # Safety
    /// The list must outlive `'a`.
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        let len = self.header().value_len as usize;
        // SAFETY: the version was allocated with the value behind the header, which is initialised before the version
        // is published and never changes.
        unsafe { std::slice::from_raw_parts(self.0.add(1).cast::<u8>(), len) }
    }

    /// The version before it; `None`: the first version of the key.
    #[inline]
    pub(super) fn older(&self) -> Option<VersionRef> {
        Self::from_link(self.header().older.load(Ordering::Acquire))
    }

    fn jump(&self) -> Option<VersionRef> {
        Self::from_link(self.header().jump)
    }

    /// A version further back that is still newer than `seq`.
    #[inline]
    pub(super) fn towards(&self, seq: Seq) -> Option<VersionRef> {
        let is_newer = |version: &VersionRef| version.seq() > seq;
        let far = self.jump().filter(is_newer);
        far.or_else(|| self.older().filter(is_newer))
    }

    fn depth(this: Option<Self>) -> u16 {
        this.map_or(0, |version| version.header().depth)
    }

    /// Where a version that is linked before this one jumps to.
    fn jump_over(self) -> Option<VersionRef> {
        let near = self.jump();
        let far = near.and_then(|near| near.jump());
        let length = |from, to| Self::depth(from).wrapping_sub(Self::depth(to));
        if near.is_some() && length(Some(self), near) == length(near, far) {
            far
        } else {
            Some(self)
        }
    }
}

/// The list of one key: points at the newest version, or is null.
pub(super) struct Versions(AtomicPtr<Version>);

impl Versions {
    pub(super) const fn new() -> Self {
        Versions(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<VersionRef> {
        VersionRef::from_link(self.0.load(Ordering::Acquire))
    }

    /// The newest version that is not newer than `seq`.
    #[inline]
    pub(super) fn up_to(&self, seq: Seq) -> Option<VersionRef> {
        let newest = self.newest()?;
        if newest.seq() <= seq {
            return Some(newest);
        }
        let mut newer = Self::oldest_after(newest, seq);
        loop {
            match newer.older() {
                // Linked since.
                Some(version) if version.seq() > seq => newer = version,
                older => return older,
            }
        }
    }

    /// The oldest version that is newer than `seq`.
    pub(super) fn after(&self, seq: Seq) -> Option<VersionRef> {
        let newest = self.newest()?;
        (newest.seq() > seq).then(|| Self::oldest_after(newest, seq))
    }

    /// The oldest version that is newer than `seq`; `from` is one that is newer.
    fn oldest_after(from: VersionRef, seq: Seq) -> VersionRef {
        debug_assert!(from.seq() > seq);
        let mut at = from;
        while let Some(further) = at.towards(seq) {
            at = further;
        }
        at
    }

    /// Links a version at its place. False if there is one with this sequence; the list is then unchanged.
    pub(super) fn insert(&self, arena: &Arena, seq: Seq, op: Op, value: &[u8]) -> bool {
        let mut built: Option<*mut Version> = None;
        loop {
            let newer = self.after(seq);
            let link = match &newer {
                Some(newer) => &newer.header().older,
                None => &self.0,
            };
            let behind = link.load(Ordering::Acquire);
            let older = VersionRef::from_link(behind);
            match older.map(|older| older.seq().cmp(&seq)) {
                // Linked by another thread since `after`.
                Some(std::cmp::Ordering::Greater) => continue,
                Some(std::cmp::Ordering::Equal) => return false,
                Some(std::cmp::Ordering::Less) | None => (),
            }
            debug_assert!(
                newer.is_none_or(|newer| newer.seq() > seq),
                "versions descend"
            );
            let version = *built.get_or_insert_with(|| build(arena, seq, op, value));
            // SAFETY: `version` was built above and is known to nobody else before it is linked.
            unsafe {
                (*version).older.store(behind, Ordering::Relaxed);
                (*version).jump = older
                    .and_then(VersionRef::jump_over)
                    .map_or(ptr::null(), |jump| jump.0);
                (*version).depth = VersionRef::depth(older).wrapping_add(1);
            }
            if link
                .compare_exchange(behind, version, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
        }
    }
}

fn build(arena: &Arena, seq: Seq, op: Op, value: &[u8]) -> *mut Version {
    let value_len = u32::try_from(value.len()).expect("callers check the length of values");
    let memory = arena.allocate(size_of::<Version>() + value.len()).as_ptr();
    let version = memory.cast::<Version>();
    // SAFETY: `memory` is fresh, aligned for `Version`, known to nobody else, and as large as the header and the value.
    unsafe {
        version.write(Version {
            seq,
            older: AtomicPtr::new(ptr::null_mut()),
            jump: ptr::null(),
            value_len,
            depth: 0,
            op,
        });
        ptr::copy_nonoverlapping(value.as_ptr(), version.add(1).cast::<u8>(), value.len());
    }
    version
}
