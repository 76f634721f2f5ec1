//! The memory budget of a database: accounting by cause, and the shares it leaves to memtables and block cache.
//!
//! Neighbours: memtables, blocks, extents, the log buffer, transactions and background work charge what they hold;
//! `cache` and `maintain` keep to the shares; the layer above charges its sorts and hash tables.
//!
//! Parts: `shares` (how the limit is divided: a pure function) and `gauge` (counts with their high-water marks) →
//! [`MemoryBudget`] → `Charge` (follows the size of a thing) and [`Reservation`] (asks first).
//!
//! **Invariants**
//! - What is charged is given back by a guard's drop, exactly once.
//! - Charging takes no lock, but for one charge in [`STEPS`] of the limit: that divides the limit anew.
//! - Nothing calls back into the budget while it is being divided; whoever finds it being divided goes on.
//! - Demands (transactions, statements) together stay below half of what is not fixed, so memtables and cache can
//!   always be brought down to what is left.

mod gauge;
mod shares;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use esker_vfs::Heap;
use esker_vfs::machine::Resident;
use esker_vfs::pages;
use parking_lot::Mutex;

use crate::{EngineError, Result};
pub use gauge::BytesUsed;
use gauge::{Gauge, Mark};
use shares::{MOST_UNCOUNTED, Picture, Shares};

/// The limit is divided anew when something has grown by one part in so many of it.
const STEPS: usize = 256;
/// Peaks of memtables and of what is not counted are forgotten by one part in so many at each look.
const PEAK_DECAY: usize = 64;

/// However small the limit is, values that nobody counts may have this much together.
const LEAST_VALUES_BYTES: usize = 64 << 20;

/// Largest allocation that comes from a class of sizes.
const LARGEST_CLASS_BYTES: usize = 64 << 10;
/// Pages of the machine, at least.
const PAGE_BYTES: usize = 4 << 10;

/// What an allocation of this many bytes takes from the heap: allocators of today have four classes of sizes to a
/// doubling.
pub(crate) fn heap_bytes(bytes: usize) -> usize {
    match bytes {
        0..=64 => bytes,
        65..=LARGEST_CLASS_BYTES => {
            let class = (bytes - 1).ilog2() - 2;
            bytes.next_multiple_of(1 << class)
        }
        _ => bytes.next_multiple_of(PAGE_BYTES),
    }
}

/// Transactions and statements may have this much, however small the limit: nothing could be done with less.
const LEAST_DEMANDS_BYTES: usize = 4 << 20;

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryUse {
    /// Memtables: active, waiting to be flushed, or flushed and still read.
    Memtables,
    /// What was replayed from the log and is not flushed.
    Replayed,
    /// Decoded blocks, filters and indexes of extents: in the cache, or in use outside it.
    Blocks,
    /// What is known of every extent without reading it.
    ExtentMetadata,
    /// The log buffer; all of it from the start.
    LogBuffer,
    /// Write sets of open and prepared transactions, and commit records that are being written.
    Transactions,
    /// Row locks.
    RowLocks,
    /// Buffers of flushes, compactions and index builds, and what is read ahead.
    Background,
    /// Sorts, hash tables and buffers of statements.
    Statements,
    /// Buffers of the temporary files of statements.
    TempFiles,
    /// What those who follow the log hold of it, and of what they make of it.
    Followers,
}

impl MemoryUse {
    /// All of them.
    pub const ALL: [MemoryUse; 11] = [
        MemoryUse::Memtables,
        MemoryUse::Replayed,
        MemoryUse::Blocks,
        MemoryUse::ExtentMetadata,
        MemoryUse::LogBuffer,
        MemoryUse::Transactions,
        MemoryUse::RowLocks,
        MemoryUse::Background,
        MemoryUse::Statements,
        MemoryUse::TempFiles,
        MemoryUse::Followers,
    ];

    /// What is there as long as the database is open, however the memory is divided.
    const FIXED: [MemoryUse; 2] = [MemoryUse::ExtentMetadata, MemoryUse::LogBuffer];
    /// What can be refused; but for buffers of temporary files, which are there for who was refused.
    const DEMANDS: [MemoryUse; 4] = [
        MemoryUse::Transactions,
        MemoryUse::RowLocks,
        MemoryUse::Statements,
        MemoryUse::TempFiles,
    ];

    /// Whether more of it makes less of the others at once.
    fn displaces(self) -> bool {
        // Blocks are what is displaced.
        self != MemoryUse::Blocks
    }
}

/// See [`MemoryBudget::derived`].
pub(crate) struct Derived {
    /// All causes.
    pub(crate) total: BytesUsed,
    /// See [`MemoryBudget::unflushed`].
    pub(crate) unflushed: BytesUsed,
    /// Memtables that were flushed and are still read.
    pub(crate) lingering: BytesUsed,
    /// What is in the cache.
    pub(crate) cached: BytesUsed,
    /// Blocks, filters and indexes that are in use outside the cache.
    pub(crate) blocks_outside: BytesUsed,
}

/// What the last division needs to know at the next.
#[derive(Default)]
struct Divided {
    /// The most that memtables had lately.
    memtables_peak: usize,
    /// The most that was resident lately beside what is charged.
    uncounted_peak: usize,
    cache_capacity: usize,
}

/// A cache that gives way to what cannot be refused, and grows with what is left.
pub(crate) trait Governed: Send + Sync {
    /// Bytes of what is in it.
    fn content_bytes(&self) -> u64;

    /// It may have this many bytes from now on.
    fn set_capacity(&self, bytes: u64);

    /// Gives memory that nothing uses back to the system.
    fn trim(&self);
}

/// High-water marks of what is computed from several counts, as of the looks of [`MemoryBudget::sample`].
#[derive(Default)]
struct Marks {
    unflushed: Mark,
    cached: Mark,
    blocks_outside: Mark,
    total: Mark,
}

/// What the budget asks of the process.
struct Process {
    resident: Box<dyn Fn() -> Option<Resident> + Send + Sync>,
    heap: Heap,
}

impl Process {
    /// What is resident beside files and `counted`, bytes.
    fn uncounted(&self, counted: usize) -> usize {
        let on_heap = (self.resident)().map_or(0, Resident::beside_files);
        (on_heap as usize).saturating_sub(counted)
    }

    /// What has been asked for beside `counted` and not given back, bytes: what is resident, less what only the heap
    /// keeps, in holes and for threads that may want it again. `None` where the heap does not count.
    fn asked_for(&self, counted: usize) -> Option<usize> {
        let on_heap = (self.heap.in_use)()?;
        Some((on_heap + pages::in_use()).saturating_sub(counted))
    }
}

/// Whoever is to hear that memtables have more than their share.
type Alarm = Box<dyn Fn() + Send + Sync>;

/// The memory of a database, by cause, and its limit. Counters are sums over all threads; each is exact, a sum of
/// several is as of slightly different moments.
pub struct MemoryBudget {
    limit: AtomicUsize,
    used: [Gauge; MemoryUse::ALL.len()],
    /// Memtables that were flushed and are still read, as of the last look.
    lingering: Gauge,
    marks: Marks,
    soft: AtomicUsize,
    hard: AtomicUsize,
    divided: Mutex<Divided>,
    cache: OnceLock<Weak<dyn Governed>>,
    alarm: OnceLock<Alarm>,
    process: OnceLock<Process>,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(limit_bytes: usize) -> Arc<MemoryBudget> {
        let budget = MemoryBudget {
            limit: AtomicUsize::new(limit_bytes),
            used: Default::default(),
            lingering: Gauge::default(),
            marks: Marks::default(),
            soft: AtomicUsize::new(0),
            hard: AtomicUsize::new(0),
            divided: Mutex::default(),
            cache: OnceLock::new(),
            alarm: OnceLock::new(),
            process: OnceLock::new(),
        };
        budget.divide();
        Arc::new(budget)
    }

    /// One without a limit, for parts that are used by themselves.
    pub fn unlimited() -> Arc<MemoryBudget> {
        Self::new(usize::MAX / STEPS)
    }

    /// Bytes that all causes together may take.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. What is over it is evicted or flushed in the background; what was granted stays.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        // The peak belonged to another division.
        self.divided.lock().memtables_peak = 0;
        self.divide();
    }

    /// Bytes taken for a cause.
    pub fn used(&self, what: MemoryUse) -> usize {
        self.gauge(what).now()
    }

    /// The same, with the most it ever was.
    pub(crate) fn used_and_peak(&self, what: MemoryUse) -> BytesUsed {
        self.gauge(what).used()
    }

    /// What is computed from several counts, with the most that was seen of it.
    pub(crate) fn derived(&self) -> Derived {
        Derived {
            total: self.marks.total.beside(self.total()),
            unflushed: self.marks.unflushed.beside(self.unflushed()),
            lingering: self.lingering.used(),
            cached: self.marks.cached.beside(self.cached()),
            blocks_outside: self.marks.blocks_outside.beside(self.blocks_outside()),
        }
    }

    /// Bytes taken for all causes.
    pub fn total(&self) -> usize {
        self.sum(&MemoryUse::ALL)
    }

    /// Memtables that are not flushed, and what was replayed.
    pub(crate) fn unflushed(&self) -> usize {
        let tables = self.sum(&[MemoryUse::Memtables, MemoryUse::Replayed]);
        tables.saturating_sub(self.lingering())
    }

    /// Memtables that were flushed and are still read.
    pub(crate) fn lingering(&self) -> usize {
        self.lingering.now()
    }

    /// Blocks, filters and indexes that are in use outside the cache.
    pub(crate) fn blocks_outside(&self) -> usize {
        self.used(MemoryUse::Blocks).saturating_sub(self.cached())
    }

    /// What is in the cache.
    fn cached(&self) -> usize {
        self.cache().map_or(0, |cache| cache.content_bytes()) as usize
    }

    /// Memtables above this are flushed.
    pub(crate) fn memtables_soft(&self) -> usize {
        self.soft.load(Ordering::Relaxed)
    }

    /// While memtables are above this writers wait.
    pub(crate) fn memtables_hard(&self) -> usize {
        self.hard.load(Ordering::Relaxed)
    }

    /// Bytes that the cache may have.
    pub(crate) fn cache_capacity(&self) -> usize {
        self.divided.lock().cache_capacity
    }

    /// The cache that gives way and grows; set once.
    pub(crate) fn govern(&self, cache: Weak<dyn Governed>) {
        let _ = self.cache.set(cache);
        self.divide();
    }

    /// The callback that hears that memtables have more than their share; set once.
    pub(crate) fn set_alarm(&self, alarm: impl Fn() + Send + Sync + 'static) {
        let _ = self.alarm.set(Box::new(alarm));
    }

    /// How to find out what is resident, and to give back what is free; set once. What nobody has charged is taken off
    /// the limit from then on, and values are [bounded](Self::admit_values).
    pub(crate) fn set_process(
        &self,
        resident: impl Fn() -> Option<Resident> + Send + Sync + 'static,
        heap: Heap,
    ) {
        let resident = Box::new(resident);
        let _ = self.process.set(Process { resident, heap });
    }

    /// Takes `bytes` for a statement, or refuses: then the caller needs less, writes to disk, or gives up.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`].
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reservation> {
        let mut reservation = Reservation {
            charge: Charge::new(self, MemoryUse::Statements),
        };
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Whether demands may grow by this.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`], [`EngineError::NoSystemMemory`].
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        let limit_bytes = self.demands_limit();
        let demands = self.sum(&MemoryUse::DEMANDS);
        match demands.saturating_add(bytes) <= limit_bytes {
            true => self.ask_heap(bytes),
            false => Err(EngineError::OutOfMemory {
                wanted_bytes: bytes,
                limit_bytes,
            }),
        }
    }

    /// Whether what nobody counts may grow by this: values that a statement works on, trees of texts and documents.
    /// Nobody but the heap knows their sizes, so this asks it; or the system, where it does not tell.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`], [`EngineError::NoSystemMemory`].
    pub fn admit_values(&self, bytes: usize) -> Result<()> {
        let Some(process) = self.process.get() else {
            return Ok(());
        };
        let limit_bytes = self.values_limit();
        let fits = |uncounted: usize| uncounted.saturating_add(bytes) <= limit_bytes;
        if fits(process.uncounted(self.total())) {
            return self.ask_heap(bytes);
        }
        // What others have freed may be with the heap still: it should give it back, and where it cannot, that is no
        // reason to refuse anybody.
        (process.heap.give_back)();
        let counted = self.total();
        let demanded = process.asked_for(counted);
        match fits(demanded.unwrap_or_else(|| process.uncounted(counted))) {
            true => self.ask_heap(bytes),
            false => Err(EngineError::OutOfMemory {
                wanted_bytes: bytes,
                limit_bytes,
            }),
        }
    }

    /// Whether the heap has this much beside a reserve: the system may allow the process less than the limit says.
    fn ask_heap(&self, wanted_bytes: usize) -> Result<()> {
        let heap = self.process.get().map(|process| process.heap);
        match heap.is_none_or(|heap| (heap.has_room)(wanted_bytes)) {
            true => Ok(()),
            false => Err(EngineError::NoSystemMemory { wanted_bytes }),
        }
    }

    /// A statement, or a task of one, that had much is over: what it leaves with the heap of its thread goes back to
    /// the system, where what nobody counts is much.
    pub fn values_are_gone(&self) {
        if let Some(process) = self.process.get()
            && process.uncounted(self.total()) > self.values_limit() / 2
        {
            (process.heap.give_back)();
        }
    }

    /// What nobody counts may come to this.
    fn values_limit(&self) -> usize {
        (self.limit() / MOST_UNCOUNTED).max(LEAST_VALUES_BYTES)
    }

    /// Whether who can do without, by writing to disk, should take this much more for a statement: a quarter of what
    /// demands may have is left to those who cannot.
    pub fn has_room(&self, bytes: usize) -> bool {
        let limit = self.demands_limit();
        self.sum(&MemoryUse::DEMANDS).saturating_add(bytes) <= limit - limit / 4
    }

    /// What transactions and statements can still take together.
    pub fn room(&self) -> usize {
        let demands = self.sum(&MemoryUse::DEMANDS);
        self.demands_limit().saturating_sub(demands)
    }

    /// When the row locks of one transaction have more than this, they grow coarser: the rest is for its writes, and
    /// for others.
    pub(crate) fn locks_share(&self) -> usize {
        self.demands_limit() / 4
    }

    /// What transactions and statements may take together.
    fn demands_limit(&self) -> usize {
        let fixed = self.sum(&MemoryUse::FIXED);
        let limit = self.limit();
        let half = limit.saturating_sub(fixed).max(limit / 2) / 2;
        half.max(LEAST_DEMANDS_BYTES)
    }

    fn gauge(&self, what: MemoryUse) -> &Gauge {
        &self.used[what as usize]
    }

    fn sum(&self, causes: &[MemoryUse]) -> usize {
        let causes = causes.iter();
        causes.fold(0, |sum, cause| sum.saturating_add(self.used(*cause)))
    }

    fn cache(&self) -> Option<Arc<dyn Governed>> {
        self.cache.get()?.upgrade()
    }

    fn add(&self, what: MemoryUse, bytes: usize) {
        let before = self.gauge(what).add(bytes);
        let step = self.limit() / STEPS + 1;
        if what.displaces() && before / step != before.saturating_add(bytes) / step {
            self.divide();
        }
    }

    fn subtract(&self, what: MemoryUse, bytes: usize) {
        // Nobody is in a hurry to use what has become free: the next look divides it.
        let before = self.gauge(what).subtract(bytes);
        debug_assert!(before >= bytes, "what is given back was counted");
    }

    /// Says what memory a cause has, where that is found out from time to time.
    pub(crate) fn set(&self, what: MemoryUse, bytes: usize) {
        self.gauge(what).set(bytes);
    }

    /// A look from time to time: `unflushed_tables` is the memory of memtables that are in a tree.
    pub(crate) fn sample(&self, unflushed_tables: usize) {
        let lingering = self
            .used(MemoryUse::Memtables)
            .saturating_sub(unflushed_tables);
        self.lingering.set(lingering);
        // Looking raises the marks.
        self.derived();
        if let Some(cache) = self.cache() {
            cache.trim();
        }
        let before = self.total();
        let resident = self.process.get().and_then(|p| (p.resident)());
        // What is given back meanwhile was counted.
        let counted = before.max(self.total());
        let uncounted = resident.map_or(0, |r| (r.now as usize).saturating_sub(counted));
        self.values_are_gone();
        if let Some(mut divided) = self.divided.try_lock() {
            divided.memtables_peak -= divided.memtables_peak / PEAK_DECAY;
            divided.uncounted_peak -= divided.uncounted_peak / PEAK_DECAY;
            divided.uncounted_peak = divided.uncounted_peak.max(uncounted);
        }
        self.divide();
        if let Some(cache) = self.cache() {
            cache.trim();
        }
    }

    /// Divides the limit by what is taken now.
    #[cold]
    fn divide(&self) {
        let Some(mut divided) = self.divided.try_lock() else {
            return;
        };
        let memtables = self.unflushed();
        divided.memtables_peak = divided.memtables_peak.max(memtables);
        let demands = MemoryUse::DEMANDS
            .into_iter()
            .chain([MemoryUse::Background]);
        let demands: usize = demands.map(|cause| self.used(cause)).sum();
        let shares = Shares::of(&Picture {
            limit: self.limit(),
            fixed: self.sum(&MemoryUse::FIXED),
            uncounted: divided.uncounted_peak,
            demands: demands + self.lingering() + self.blocks_outside(),
            memtables: divided.memtables_peak,
            cache: divided.cache_capacity,
        });
        debug_assert!(shares.memtables_soft <= shares.memtables_hard);
        self.soft.store(shares.memtables_soft, Ordering::Relaxed);
        self.hard.store(shares.memtables_hard, Ordering::Relaxed);
        if shares.cache != divided.cache_capacity {
            divided.cache_capacity = shares.cache;
            if let Some(cache) = self.cache() {
                cache.set_capacity(shares.cache as u64);
            }
        }
        drop(divided);
        if memtables > shares.memtables_soft
            && let Some(alarm) = self.alarm.get()
        {
            alarm();
        }
    }
}

/// Follows the size of a thing: takes what it grows by, and gives everything back when it is dropped.
#[derive(Default)]
pub struct Charge {
    account: Option<(Arc<MemoryBudget>, MemoryUse)>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Nothing, on this account.
    pub fn new(budget: &Arc<MemoryBudget>, what: MemoryUse) -> Charge {
        Charge {
            account: Some((Arc::clone(budget), what)),
            bytes: AtomicUsize::new(0),
        }
    }

    /// This much, on this account.
    pub(crate) fn of(budget: &Arc<MemoryBudget>, what: MemoryUse, bytes: usize) -> Charge {
        let charge = Charge::new(budget, what);
        charge.raise_to(bytes);
        charge
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The thing has at least this size. Many threads may say so at once.
    #[inline]
    pub fn raise_to(&self, bytes: usize) {
        if self.bytes.load(Ordering::Relaxed) < bytes {
            self.raise(bytes);
        }
    }

    #[cold]
    fn raise(&self, bytes: usize) {
        let before = self.bytes.fetch_max(bytes, Ordering::Relaxed);
        if let Some((budget, what)) = &self.account
            && before < bytes
        {
            budget.add(*what, bytes - before);
        }
    }

    /// The thing has this size.
    pub fn set(&mut self, bytes: usize) {
        self.raise_to(bytes);
        let before = std::mem::replace(self.bytes.get_mut(), bytes);
        debug_assert!(before >= bytes, "it was raised above");
        if let Some((budget, what)) = &self.account {
            budget.subtract(*what, before - bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Memory of a statement, given back when this is dropped.
pub struct Reservation {
    charge: Charge,
}

impl Reservation {
    /// Bytes that are reserved.
    pub fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Reserves more; after an error nothing has changed.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`].
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if let Some((budget, _)) = &self.charge.account {
            budget.admit(bytes)?;
        }
        self.charge.raise_to(self.bytes() + bytes);
        debug_assert!(self.bytes() >= bytes, "what is reserved is charged");
        Ok(())
    }

    /// Gives some of it back; at most all.
    pub fn shrink(&mut self, bytes: usize) {
        self.charge.set(self.bytes().saturating_sub(bytes));
    }
}
