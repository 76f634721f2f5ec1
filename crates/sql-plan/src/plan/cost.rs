//! The cost model: constants of the cost-based planner, and their unit.
//!
//! **The unit is one row of a clustered scan**: reading the next row of a warm sequential scan, decoding the columns of
//! its conditions and evaluating them costs 1. All other constants are multiples of it, measured on warm data with one
//! thread. The model has no term for I/O: what a cold cache costs is part of [`CACHE_MISS_FACTOR`].
//!
//! | operation | cost |
//! |---|---|
//! | full scan of `n` rows | `SEEK + n * CLUSTERED_ROW` |
//! | covering index range, `n` entries of `w` bytes | `SEEK + n * (COVERING_ENTRY - discount(w))` |
//! | index range with lookups | `SEEK + n * (COVERING_ENTRY + LOOKUPS_PER_ENTRY * SEEK)` |
//! | a path that locks its `n` rows | as without, `+ n * LOCKED_ROW` |
//! | `r` ranges of an index | as one, `+ (r - 1) * NEAR_SEEK` |
//! | index nested loop join | `outer + outer_rows * cost of one opening` |
//! | hash join | `outer + inner + inner_rows * BUILD_ROW + outer_rows * PROBE_ROW + rows * COMPARE_BUFFERED_ROW` |
//! | buffered nested loop join | `outer + inner + inner_rows * BUILD_ROW + outer_rows * inner_rows * COMPARE_BUFFERED_ROW` |
//!
//! Neighbours: `access` prices access paths, `join_search` prices joins and searches the order, `stats` and `estimate`
//! give the cardinalities. **Invariant**: every cost is finite and positive, so comparing sums of them is a total
//! order.

/// Reading the next row of a clustered scan: the unit.
pub(super) const CLUSTERED_ROW: f64 = 1.0;
/// Reading the next entry of a covering index, if it is as wide as [`WIDE_ENTRY_BYTES`].
pub(super) const COVERING_ENTRY: f64 = 0.8;
/// What the narrowest entry saves of [`COVERING_ENTRY`]; linear in the key's width.
pub(super) const NARROW_ENTRY_DISCOUNT: f64 = 0.3;
/// Key length in bytes from which an entry gets no discount.
pub(super) const WIDE_ENTRY_BYTES: u32 = 200;

/// Locking a row that is read, and the gap before it.
pub(super) const LOCKED_ROW: f64 = 4.0;

/// A point lookup in a small table: memtables, filters, the path down the levels.
pub(super) const SEEK: f64 = 5.0;
/// Running a correlated subquery once, beside the rows that it looks at.
pub(super) const SUBQUERY_RUN: f64 = 25.0;
/// Taking a row into a derived table or a set of distinct rows: its key is made, hashed and copied.
pub(super) const KEPT_ROW: f64 = 15.0;
/// Seeks per entry of an index that is not covering: neighbours in the index lie anywhere in the clustered tree.
pub(super) const LOOKUPS_PER_ENTRY: f64 = 2.0;
/// Seeks to count a range from metadata: only the extents at its ends are read.
pub(super) const COUNT_RANGE_SEEKS: f64 = 4.0;
/// A lookup just behind the last one: the next range of a scan, or an index nested loop join whose outer rows ascend by
/// the key.
pub(super) const NEAR_SEEK: f64 = 2.5;
/// Skipping an entry between two such lookups.
pub(super) const SKIP_ENTRY: f64 = 0.1;

/// How many times [`SEEK`] a lookup costs in a table of [`LARGE_TABLE_ROWS`] or more, whose blocks and their indexes do
/// not stay in the processor's caches; linear below.
pub(super) const CACHE_MISS_FACTOR: f64 = 4.0;
/// Rows from which a lookup costs the full [`CACHE_MISS_FACTOR`].
pub(super) const LARGE_TABLE_ROWS: f64 = 200_000.0;

/// Ranges of one scan whose entries are counted by an index dive; of more ranges every n-th is.
pub(super) const MAX_INDEX_DIVES: usize = 20;

/// A locking read of one table prefers a key to the cheapest path if it leads to at most one row of so many.
pub(super) const FEW_FRACTION: f64 = 4.0;
/// Rows below which a locking read prefers any key that does not lead to all rows.
pub(super) const SMALL_TABLE_ROWS: f64 = 1000.0;

/// Inserting a row into the hash table of a join, or into its buffer.
pub(super) const BUILD_ROW: f64 = 1.5;
/// Probing a hash table with a row of the outer input.
pub(super) const PROBE_ROW: f64 = 0.6;
/// Looking at a buffered row: a pair of a buffered nested loop, or a match of a hash join.
pub(super) const COMPARE_BUFFERED_ROW: f64 = 0.2;
/// How many times as much a nested loop costs if no condition ties the inner table to the outer rows: one thread reads
/// it, and only the rest of the statement is split among threads.
pub(super) const UNCONNECTED_PENALTY: f64 = 2.0;

/// Least rows of an estimate: a product of selectivities never reaches zero.
pub(super) const MIN_ROWS: f64 = 0.01;
/// Elements that JSON_OVERLAPS is thought to look for in a multi-valued index, where they are not constant.
pub(super) const OVERLAPPING_ELEMENTS: f64 = 4.0;
/// Of the rows of a table, those that a full-text search is thought to find.
pub(super) const SEARCHED_FRACTION: f64 = 0.01;
