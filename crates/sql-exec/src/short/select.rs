//! Running a short SELECT.
//!
//! Neighbours: the engine's transaction gives rows, the codec reads them in place, the sink takes them.
//! **Invariants**
//! - [`ShortSelect::bind`] and [`ShortSelect::gather`] decide whether this execution is short before anything is sent;
//!   after that only the engine can fail.
//! - What is gathered before it is sent is bounded; rows that need not be are sent as the sink takes them.

use std::cmp::Ordering;
use std::ops::Bound as RangeBound;

use esker_engine::{Direction, Txn, View};
use esker_types::{Decimal, SqlResult, SqlType, Value, ValueRef};
use jiff::tz::TimeZone;
use smallvec::SmallVec;

use super::access::KeyPart;
use super::place::{self, Keys};
use super::window::{MOST_GATHERED_ROWS, Window};
use super::{AggKind, Output, RangeSpec, ShortSelect};
use esker_sql_catalog::catalog::{
    HandlerCall, IndexDef, ReadCount, RowEvent, Walk, note_call, note_examined,
};
use esker_sql_catalog::codec::{KeyCodec, KeyRange, RowReader};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::result::RowSink;

/// Buffers that a session keeps between executions, and the keys of the execution that runs.
#[derive(Default)]
pub struct Scratch {
    /// A full key of a unique index.
    key: Vec<u8>,
    /// Ranges in order, none overlapping.
    ranges: Vec<KeyRange>,
    sort: SortBuffers,
    gathered: Gathered,
    /// Rows that were sent.
    sent: u64,
    window: Window,
}

/// What an execution knows before it sends anything.
#[derive(Default)]
enum Gathered {
    /// Rows are sent as they come.
    #[default]
    Nothing,
    /// Count of inputs and the running value of each aggregate; 128 bits hold any sum of 64 bit numbers.
    Aggregates(SmallVec<[(u64, i128); 4]>),
    /// The rows of the sort buffers, of one string each.
    Strings,
    Rows(Vec<Vec<Value>>),
}

#[derive(Default)]
struct SortBuffers {
    /// Copied values of rows to be sorted, end to end.
    bytes: Vec<u8>,
    /// Per row: start and length in `bytes`.
    rows: Vec<SortRow>,
}

#[derive(Clone, Copy)]
struct SortRow {
    start: u32,
    len: u32,
}

/// The keys of an execution.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// A full key of a unique index.
    Point(&'a [u8]),
    /// Ranges in order, none overlapping.
    Ranges(&'a [KeyRange]),
}

/// Capacity a session keeps for sorting.
const KEPT_BYTES: usize = 256 * 1024;
/// Bytes of strings that an execution gathers before it sends any row.
const MOST_GATHERED_BYTES: usize = 1 << 20;

impl ShortSelect {
    /// The definition of the index that is read.
    fn index(&self) -> &IndexDef {
        &self.table.indexes[self.index]
    }

    /// Turns parameters into keys, which then lie in `scratch`; false when this execution is not short.
    pub fn bind(
        &self,
        params: &[Value],
        zone: &TimeZone,
        scratch: &mut Scratch,
    ) -> SqlResult<bool> {
        let index = self.index();
        scratch.gathered = Gathered::Nothing;
        scratch.sent = 0;
        match Window::of(self.limit.as_ref(), params) {
            Some(window) => scratch.window = window,
            None => return Ok(false),
        }
        if self.unique {
            return place::full_key(index, &self.ranges[0], params, zone, &mut scratch.key);
        }
        scratch.ranges.clear();
        for spec in &self.ranges {
            match place::range(index, spec, params, zone)? {
                None => return Ok(false),
                Some(Keys::Empty) => (),
                Some(Keys::Some(range)) => scratch.ranges.push(range),
            }
        }
        place::merge(&mut scratch.ranges);
        debug_assert!(scratch.ranges.len() <= self.ranges.len());
        if self.direction == Direction::Backward {
            scratch.ranges.reverse();
        }
        Ok(true)
    }

    /// Does what must be done before the first row is sent; false when there are too many rows for that.
    pub fn gather(&self, txn: &Txn, zone: &TimeZone, scratch: &mut Scratch) -> SqlResult<bool> {
        let Scratch {
            key,
            ranges,
            sort: buffers,
            gathered,
            window,
            ..
        } = scratch;
        let keys = self.keys(key, ranges);
        let found = match &self.output {
            Output::Columns(_) => Some(Gathered::Nothing),
            Output::Aggregates(list) => self.aggregate(list, keys, txn, zone)?,
            Output::Sorted {
                columns,
                by,
                desc,
                distinct,
            } => {
                let sort = Sort {
                    columns,
                    by: *by,
                    desc: *desc,
                    distinct: *distinct,
                    most: window.most_sorted(),
                };
                self.sorted(&sort, keys, txn, zone, buffers)?
            }
        };
        let Some(mut found) = found else {
            return Ok(false);
        };
        match &mut found {
            Gathered::Rows(rows) => window.cut(rows),
            Gathered::Strings => window.cut(&mut buffers.rows),
            Gathered::Nothing | Gathered::Aggregates(_) => {}
        }
        *gathered = found;
        Ok(true)
    }

    fn keys<'a>(&self, key: &'a [u8], ranges: &'a [KeyRange]) -> Bound<'a> {
        match self.unique {
            true => Bound::Point(key),
            false => Bound::Ranges(ranges),
        }
    }

    /// Sends rows until the sink has `limit` bytes or there are no more; whether there are more. The next call goes on
    /// behind them.
    pub fn run(
        &self,
        txn: &Txn,
        zone: &TimeZone,
        scratch: &mut Scratch,
        sink: &mut dyn RowSink,
        limit: usize,
    ) -> SqlResult<bool> {
        match (&self.output, std::mem::take(&mut scratch.gathered)) {
            (Output::Columns(columns), _) => {
                let mut window = scratch.window;
                debug_assert!(window.skip <= MOST_GATHERED_ROWS as u64);
                if window.take == 0 {
                    return Ok(false);
                }
                let keys = self.keys(&scratch.key, &scratch.ranges);
                let mut sent = 0;
                let stop = self.each(keys, txn, zone, |row| {
                    if window.skip > 0 {
                        window.skip -= 1;
                        return Ok(true);
                    }
                    sent += 1;
                    window.take -= 1;
                    self.send(row, columns, sink);
                    Ok(window.take > 0 && sink.bytes() < limit)
                })?;
                scratch.sent += sent;
                scratch.window = window;
                let Some(Stop { range, key }) = stop.filter(|_| window.take > 0) else {
                    return Ok(false);
                };
                scratch.ranges.drain(..range);
                if let Some(range) = scratch.ranges.first_mut() {
                    match self.direction {
                        Direction::Forward => range.lower = RangeBound::Excluded(key),
                        Direction::Backward => range.upper = RangeBound::Excluded(key),
                    }
                }
                return Ok(true);
            }
            (Output::Aggregates(list), Gathered::Aggregates(states)) => {
                sink.begin_row();
                for (((kind, _), (n, v)), meta) in list.iter().zip(states).zip(self.columns.iter())
                {
                    sink.value(finish(*kind, n, v, &meta.ty), &meta.ty);
                }
                sink.end_row();
                scratch.sent = 1;
            }
            (_, Gathered::Strings) => scratch.sent = self.send_strings(&mut scratch.sort, sink),
            (_, Gathered::Rows(rows)) => {
                for row in &rows {
                    sink.begin_row();
                    for (v, meta) in row.iter().zip(self.columns.iter()) {
                        sink.value(v.as_ref(), &meta.ty);
                    }
                    sink.end_row();
                }
                scratch.sent = rows.len() as u64;
            }
            _ => unreachable!("rows are sent after they were gathered"),
        }
        Ok(false)
    }

    fn send(&self, row: &Row<'_>, columns: &[usize], sink: &mut dyn RowSink) {
        sink.begin_row();
        for (col, meta) in columns.iter().zip(self.columns.iter()) {
            sink.value(row.field(*col), &meta.ty);
        }
        sink.end_row();
    }

    /// Calls `f` for every row of the ranges, until it says no: then it gives where that was.
    fn each(
        &self,
        bound: Bound<'_>,
        txn: &Txn,
        zone: &TimeZone,
        mut f: impl FnMut(&Row<'_>) -> SqlResult<bool>,
    ) -> SqlResult<Option<Stop>> {
        let index = self.index();
        self.table.check_visible(index, txn.snapshot())?;
        if let Bound::Point(_) = bound {
            debug_assert!(index.unique, "a point is of a unique key");
            let counts = self.table.accesses(self.index, false);
            counts.note(RowEvent::Fetch, 1);
            note_call(HandlerCall::ReadKey, 1);
        }
        let mut at_point = |row: &Row<'_>| {
            note_examined(1);
            f(row)
        };
        match bound {
            Bound::Point(key) if index.primary => {
                self.row(key, txn, zone, &mut at_point)?;
            }
            Bound::Point(key) => {
                let mut clustered = Vec::new();
                let found = txn
                    .get_with(&index.tree, key, View::Snapshot, |v| {
                        clustered.extend_from_slice(v)
                    })
                    .map_err(|e| engine_error(&e))?;
                if found.is_some() {
                    self.row(&clustered, txn, zone, &mut at_point)?;
                }
            }
            Bound::Ranges(ranges) => {
                for (nth, range) in ranges.iter().enumerate() {
                    if let Some(key) = self.scan(range, txn, zone, &mut f)? {
                        return Ok(Some(Stop { range: nth, key }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// One row by its clustered key; false if `f` said no.
    fn row(
        &self,
        clustered: &[u8],
        txn: &Txn,
        zone: &TimeZone,
        f: &mut impl FnMut(&Row<'_>) -> SqlResult<bool>,
    ) -> SqlResult<bool> {
        txn.get_with(
            &self.table.primary().tree,
            clustered,
            View::Snapshot,
            |bytes| {
                f(&Row::Stored(RowReader::new(
                    &self.table.layout,
                    zone,
                    bytes,
                )?))
            },
        )
        .map_err(|e| engine_error(&e))?
        .unwrap_or(Ok(true))
    }

    /// How a range is gone through, and how many keys are looked for.
    fn walk(&self, range: &KeyRange) -> (Walk, u64) {
        let is_back = self.direction == Direction::Backward;
        let index = self.index();
        let looks_for_null = self.ranges.iter().any(RangeSpec::has_null);
        if index.unique && !looks_for_null && index.parts.len() == 1 && range.has_one_prefix() {
            return (Walk::Unique, 1);
        }
        match (range.is_all(), is_back) {
            (true, true) => (Walk::IndexBack, 0),
            (true, false) if index.primary => (Walk::Table, 0),
            (true, false) => (Walk::Index, 0),
            (false, true) => (Walk::KeysBack, 1),
            (false, false) => (Walk::Keys, 1),
        }
    }

    /// The rows of a range; the key at which `f` said no.
    fn scan(
        &self,
        range: &KeyRange,
        txn: &Txn,
        zone: &TimeZone,
        f: &mut impl FnMut(&Row<'_>) -> SqlResult<bool>,
    ) -> SqlResult<Option<Vec<u8>>> {
        let index = self.index();
        let mut cursor = txn
            .scan(
                &index.tree,
                range.lower(),
                range.upper(),
                self.direction,
                View::Snapshot,
            )
            .map_err(|e| engine_error(&e))?;
        let mut reads = ReadCount::default();
        let (walk, keys) = self.walk(range);
        reads.aim(self.table.accesses(self.index, range.is_all()), walk, keys);
        while let Some((key, bytes)) = cursor.next().map_err(|e| engine_error(&e))? {
            reads.add();
            let goes_on = if index.primary {
                f(&Row::Stored(RowReader::new(
                    &self.table.layout,
                    zone,
                    bytes,
                )?))?
            } else if let Some(parts) = &self.index_only {
                f(&Row::Key(KeyRow {
                    parts,
                    primary: &self.table.primary().codec,
                    index: &index.codec,
                    key,
                    clustered: index.codec.clustered_of(key, bytes)?,
                    zone,
                }))?
            } else {
                let clustered = index.codec.clustered_of(key, bytes)?;
                self.row(clustered, txn, zone, f)?
            };
            if !goes_on {
                return Ok(Some(key.to_vec()));
            }
        }
        reads.end(1);
        Ok(None)
    }

    /// The states of aggregates; `None` if there are too many rows.
    fn aggregate(
        &self,
        list: &[(AggKind, usize)],
        keys: Bound<'_>,
        txn: &Txn,
        zone: &TimeZone,
    ) -> SqlResult<Option<Gathered>> {
        debug_assert_eq!(list.len(), self.columns.len());
        let mut states = SmallVec::from_elem((0, 0), list.len());
        let mut rows = 0;
        let stop = self.each(keys, txn, zone, |row| {
            for ((kind, col), state) in list.iter().zip(&mut states) {
                step(*kind, row, *col, state);
            }
            rows += 1;
            Ok(!self.first_only && rows < MOST_GATHERED_ROWS)
        })?;
        let is_done = stop.is_none() || self.first_only;
        Ok(is_done.then_some(Gathered::Aggregates(states)))
    }

    /// Rows in their order; `None` if there are too many.
    fn sorted(
        &self,
        sort: &Sort<'_>,
        keys: Bound<'_>,
        txn: &Txn,
        zone: &TimeZone,
        buffers: &mut SortBuffers,
    ) -> SqlResult<Option<Gathered>> {
        let key_type = &self.columns[sort.by].ty;
        if sort.columns.len() == 1 && key_type.is_string() {
            return self.sorted_strings(sort, keys, txn, zone, buffers);
        }
        // Several columns: keep the values and sort those.
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let mut bytes = 0;
        let stop = self.each(keys, txn, zone, |row| {
            let values = sort.columns.iter().map(|col| row.field(*col));
            let values = values.inspect(|value| {
                bytes += match value {
                    ValueRef::Str(s) => s.len(),
                    _ => 0,
                }
            });
            rows.push(values.map(ValueRef::to_owned).collect());
            Ok(rows.len() < sort.most && bytes < MOST_GATHERED_BYTES)
        })?;
        if stop.is_some() {
            return Ok(None);
        }
        let collation = key_type.collation;
        rows.sort_by(|a, b| {
            let order = compare(a[sort.by].as_ref(), b[sort.by].as_ref(), |x, y| {
                collation.compare(x, y)
            });
            if sort.desc { order.reverse() } else { order }
        });
        if sort.distinct {
            rows.dedup_by(|a, b| {
                compare(a[0].as_ref(), b[0].as_ref(), |x, y| collation.compare(x, y)).is_eq()
            });
        }
        Ok(Some(Gathered::Rows(rows)))
    }

    /// One string column: slices of one buffer are sorted.
    fn sorted_strings(
        &self,
        sort: &Sort<'_>,
        keys: Bound<'_>,
        txn: &Txn,
        zone: &TimeZone,
        buffers: &mut SortBuffers,
    ) -> SqlResult<Option<Gathered>> {
        buffers.clear();
        let SortBuffers { bytes, rows } = buffers;
        let stop = self.each(keys, txn, zone, |row| {
            let start = bytes.len() as u32;
            let len = match row.field(sort.columns[0]) {
                ValueRef::Str(s) => {
                    bytes.extend_from_slice(s);
                    s.len() as u32
                }
                _ => SortRow::NULL,
            };
            rows.push(SortRow { start, len });
            Ok(rows.len() < sort.most && bytes.len() < MOST_GATHERED_BYTES)
        })?;
        if stop.is_some() {
            buffers.trim();
            return Ok(None);
        }
        debug_assert!(u32::try_from(bytes.len()).is_ok_and(|len| len < SortRow::NULL));
        let collation = self.columns[0].ty.collation;
        let order = |a: &SortRow, b: &SortRow| match (a.text(bytes), b.text(bytes)) {
            (Some(a), Some(b)) => collation.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        rows.sort_unstable_by(|a, b| {
            let o = order(a, b);
            if sort.desc { o.reverse() } else { o }
        });
        if sort.distinct {
            rows.dedup_by(|a, b| order(a, b).is_eq());
        }
        Ok(Some(Gathered::Strings))
    }

    /// Sends the rows of the buffers; returns how many.
    fn send_strings(&self, buffers: &mut SortBuffers, sink: &mut dyn RowSink) -> u64 {
        let ty = &self.columns[0].ty;
        for row in &buffers.rows {
            sink.begin_row();
            let text = row.text(&buffers.bytes);
            sink.value(text.map_or(ValueRef::Null, ValueRef::Str), ty);
            sink.end_row();
        }
        let sent = buffers.rows.len() as u64;
        buffers.trim();
        sent
    }
}

impl SortBuffers {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Gives back what a session does not keep.
    fn trim(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

impl SortRow {
    /// Length of what is NULL.
    const NULL: u32 = u32::MAX;

    fn text(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = self.start as usize;
        (self.len != Self::NULL).then(|| &bytes[start..start + self.len as usize])
    }
}

impl Scratch {
    /// Rows that the execution has sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// Where rows were no longer wanted.
struct Stop {
    /// The number of the range, and the last key of it that was read.
    range: usize,
    key: Vec<u8>,
}

/// How rows are ordered.
struct Sort<'a> {
    columns: &'a [usize],
    by: usize,
    desc: bool,
    distinct: bool,
    /// Rows that are too many.
    most: usize,
}

/// A row in place: in the clustered tree, or as far as an index entry tells it.
enum Row<'a> {
    Stored(RowReader<'a>),
    Key(KeyRow<'a>),
}

/// The entry of a secondary index.
struct KeyRow<'a> {
    parts: &'a [Option<KeyPart>],
    primary: &'a KeyCodec,
    index: &'a KeyCodec,
    key: &'a [u8],
    clustered: &'a [u8],
    zone: &'a TimeZone,
}

impl Row<'_> {
    fn field(&self, col: usize) -> ValueRef<'_> {
        match self {
            Self::Stored(row) => row.field(col),
            Self::Key(row) => row.field(col).unwrap_or(ValueRef::Null),
        }
    }
}

impl KeyRow<'_> {
    fn field(&self, col: usize) -> Option<ValueRef<'_>> {
        let (codec, key, nth) = match self.parts[col]? {
            KeyPart::Own(nth) => (self.index, self.key, nth),
            KeyPart::Clustered(nth) => (self.primary, self.clustered, nth),
        };
        let mut rest = key;
        for before in 0..nth {
            rest = rest.get(codec.part_len(before, rest)?..)?;
        }
        codec
            .decode_part(nth, rest, self.zone)
            .map(|(value, _)| value)
    }
}

fn as_i128(v: ValueRef<'_>) -> Option<i128> {
    match v {
        ValueRef::Int(i) => Some(i128::from(i)),
        ValueRef::UInt(u) => Some(i128::from(u)),
        _ => None,
    }
}

fn step(kind: AggKind, row: &Row<'_>, col: usize, state: &mut (u64, i128)) {
    if kind == AggKind::CountStar {
        state.0 += 1;
        return;
    }
    let v = row.field(col);
    if matches!(v, ValueRef::Null) {
        return;
    }
    let n = as_i128(v).unwrap_or(0);
    state.1 = match kind {
        AggKind::Sum => state.1 + n,
        AggKind::Min if state.0 > 0 => state.1.min(n),
        AggKind::Max if state.0 > 0 => state.1.max(n),
        _ => n,
    };
    state.0 += 1;
}

fn finish(kind: AggKind, n: u64, v: i128, ty: &SqlType) -> ValueRef<'static> {
    match kind {
        AggKind::CountStar | AggKind::Count => ValueRef::Int(n as i64),
        _ if n == 0 => ValueRef::Null,
        AggKind::Sum => ValueRef::Decimal(Decimal::from_i128(v, 0)),
        _ if ty.unsigned => ValueRef::UInt(v as u64),
        _ => ValueRef::Int(v as i64),
    }
}

/// NULL first, then numbers or strings.
fn compare(
    a: ValueRef<'_>,
    b: ValueRef<'_>,
    strings: impl Fn(&[u8], &[u8]) -> Ordering,
) -> Ordering {
    match (a, b) {
        (ValueRef::Null, ValueRef::Null) => Ordering::Equal,
        (ValueRef::Null, _) => Ordering::Less,
        (_, ValueRef::Null) => Ordering::Greater,
        (ValueRef::Str(a), ValueRef::Str(b)) => strings(a, b),
        (a, b) => as_i128(a).cmp(&as_i128(b)),
    }
}
