//! Which partitions a scan looks for, as EXPLAIN names them.
//!
//! In flow order: `column_ranges` of the plan says what the scan wants of the columns that decide · each range is held
//! against the partitions, those of the table and those of each partition apart (`Dimension`). Neighbours: `explain`
//! asks; the catalog knows the partitions. **Invariant**: a partition that is not named has no row for the scan; what
//! cannot be told names all.

use std::ops::Bound;

use esker_sql_catalog::catalog::{
    IndexPart, PartitionBound, PartitionDef, PartitionKind, PartitionMethod, PartitionValue,
    Partitioning, TableDef,
};
use esker_sql_catalog::codec::{KeyCodec, KeyRange, UTC, prefix_successor};
use esker_sql_plan::expr::{EvalEnv, Expr};
use esker_sql_plan::plan::{ScanPlan, Source};
use esker_types::cast::to_column;
use esker_types::{SqlType, TypeKind, Value, ValueRef};

use crate::dml::bind_stored;

/// Most values of a range that are looked at one by one: as in MySQL.
const MAX_WALKED: i128 = 32;

/// Most bytes of a key of one column that can be read back.
const MAX_KEY_BYTES: usize = 16;

/// Bytes of the key of a number that may be NULL.
const NUMBER_BYTES: usize = 9;

/// Functions that never fall where a single column that they read grows.
const MONOTONIC: &[&str] = &["to_days(", "to_seconds(", "year(", "unix_timestamp("];

/// The names of the partitions, a subpartition's behind its partition's. None: the table has no partitions, or the scan
/// looks for none of them.
pub(super) fn partitions_of(scan: &ScanPlan, env: &EvalEnv<'_>) -> Option<Vec<String>> {
    let Source::Base { def, .. } = &scan.source else {
        return None;
    };
    let partitioning = def.partitioning.as_deref()?;
    let whole = Dimension::new(scan, def, env, &partitioning.method);
    let parts = whole.used(partitioning, false);
    let subs = partitioning.sub.as_ref().map(|sub| {
        let dimension = Dimension::new(scan, def, env, sub);
        dimension.used(partitioning, true)
    });
    let named = |(partition, _): (&PartitionDef, _)| {
        let name = &partition.item.name;
        let Some(subs) = &subs else {
            return vec![name.to_string()];
        };
        let chosen = partition
            .subpartitions
            .iter()
            .zip(subs)
            .filter(|(_, used)| **used);
        chosen
            .map(|(sub, _)| format!("{name}_{}", sub.name))
            .collect()
    };
    let chosen = partitioning
        .partitions
        .iter()
        .zip(parts)
        .filter(|(_, used)| *used);
    let names: Vec<String> = chosen.flat_map(named).collect();
    (!names.is_empty()).then_some(names)
}

/// One way in which rows are divided.
struct Dimension<'a> {
    scan: &'a ScanPlan,
    def: &'a TableDef,
    env: &'a EvalEnv<'a>,
    method: &'a PartitionMethod,
    /// The columns that decide.
    columns: Vec<usize>,
    codec: KeyCodec,
    /// What the scan wants of them; none: it cannot be told.
    ranges: Option<Vec<KeyRange>>,
}

impl<'a> Dimension<'a> {
    fn new(
        scan: &'a ScanPlan,
        def: &'a TableDef,
        env: &'a EvalEnv<'a>,
        method: &'a PartitionMethod,
    ) -> Self {
        let mut columns = Vec::new();
        match method.columns.is_empty() {
            true => {
                if let Ok(expr) = bind_stored(env.ctx, &def.name, &def.columns, &method.expr) {
                    expr.slots(&mut |slot| columns.push(slot as usize));
                    columns.dedup();
                }
            }
            false => columns.extend(method.columns.iter().filter_map(|c| def.column_index(c))),
        }
        let parts: Vec<IndexPart> = columns
            .iter()
            .map(|col| IndexPart {
                col: *col,
                prefix_len: None,
                desc: false,
            })
            .collect();
        let codec = KeyCodec::new(&def.columns, &parts, false, false);
        let ranges = match columns.is_empty() {
            true => None,
            false => scan.column_ranges(&codec, env).ok(),
        };
        Self {
            scan,
            def,
            env,
            method,
            columns,
            codec,
            ranges,
        }
    }

    /// Which partitions, or subpartitions of each, are looked for.
    fn used(&self, partitioning: &Partitioning, of_subs: bool) -> Vec<bool> {
        let count = match of_subs {
            true => partitioning.partitions[0].subpartitions.len(),
            false => partitioning.partitions.len(),
        };
        let mut used = self.used_by_columns(partitioning, count);
        if let Some(named) = self.used_by_number(partitioning, count) {
            used.iter_mut()
                .zip(named)
                .for_each(|(used, named)| *used &= named);
        }
        used
    }

    /// By conditions on what decides as a whole: those of `PARTITION (…)` are such.
    fn used_by_number(&self, partitioning: &Partitioning, count: usize) -> Option<Vec<bool>> {
        let text = match self.is_hashed() {
            true => self.method.number(count),
            false if self.is_direct() => return None,
            false => self.method.expr.to_string(),
        };
        let expr = self.bound(&text)?;
        let mut column = self.def.columns.first()?.clone();
        column.ty = SqlType {
            unsigned: expr.ty.unsigned,
            ..SqlType::new(TypeKind::BigInt)
        };
        let part = IndexPart {
            col: 0,
            prefix_len: None,
            desc: false,
        };
        let codec = KeyCodec::new(&[column], &[part], false, false);
        let ranges = self.scan.expression_ranges(&expr, &codec, self.env).ok()?;
        let number = |key: &[u8]| {
            let mut key = key.to_vec();
            key.resize(NUMBER_BYTES, 0);
            let (value, _) = codec.decode_part(0, &key, &UTC)?;
            Some(whole(&value.to_owned()))
        };
        let mut used = vec![false; count];
        for range in ranges {
            let (low, has_null) = match &range.lower {
                Bound::Included(key) | Bound::Excluded(key) => match number(key)? {
                    Some(low) => (low, false),
                    None => (i128::MIN, true),
                },
                Bound::Unbounded => (i128::MIN, true),
            };
            // Behind the NULL comes the first value.
            let high = match &range.upper {
                Bound::Included(key) | Bound::Excluded(key) => number(key)?.unwrap_or(i128::MIN),
                Bound::Unbounded => i128::MAX,
            };
            let found = match self.is_hashed() {
                true => (0..count)
                    .filter(|at| (low..high).contains(&(*at as i128)))
                    .collect(),
                false => positions(partitioning, |piece| match piece {
                    Piece::Null => has_null,
                    Piece::From(from, to) => from < high && low < to,
                }),
            };
            found.into_iter().for_each(|at| used[at] = true);
        }
        Some(used)
    }

    fn is_hashed(&self) -> bool {
        matches!(self.method.kind, PartitionKind::Hash | PartitionKind::Key)
    }

    /// By conditions on columns.
    fn used_by_columns(&self, partitioning: &Partitioning, count: usize) -> Vec<bool> {
        let mut used = vec![false; count];
        let Some(ranges) = &self.ranges else {
            return vec![true; count];
        };
        for range in ranges {
            let known = match range.is_all() {
                true => None,
                false if self.is_hashed() => self.hashed(range, count),
                false => self.divided(range, partitioning),
            };
            let Some(found) = known else {
                return vec![true; count];
            };
            found.into_iter().for_each(|at| used[at] = true);
        }
        used
    }

    // HASH and KEY.

    /// The partitions of the values in a range, if it has few.
    fn hashed(&self, range: &KeyRange, count: usize) -> Option<Vec<usize>> {
        let number = self.bound(&self.method.number(count))?;
        let rows = self.rows(range)?;
        let of_row = |row: Vec<Value>| usize::try_from(self.integer(&number, &row)??).ok();
        rows.into_iter().map(of_row).collect()
    }

    /// Rows with every value in the range, other columns being NULL.
    fn rows(&self, range: &KeyRange) -> Option<Vec<Vec<Value>>> {
        let row = |values: &[Value]| {
            let mut row = vec![Value::Null; self.def.columns.len()];
            for (at, value) in self.columns.iter().zip(values) {
                row[*at] = value.clone();
            }
            row
        };
        if let Some(values) = self.point(range) {
            return Some(vec![row(&values)]);
        }
        let [column] = &*self.columns else {
            return None;
        };
        let ty = &self.def.columns[*column].ty;
        let (first, behind) = (self.first(range)?, self.behind(range)?);
        let (first, last) = (whole(&first)?, whole(&behind)? - 1);
        if !ty.is_integer() || last - first >= MAX_WALKED {
            return None;
        }
        let value = |n: i128| match ty.unsigned {
            true => u64::try_from(n).map(Value::UInt).ok(),
            false => i64::try_from(n).map(Value::Int).ok(),
        };
        (first..=last).map(|n| Some(row(&[value(n)?]))).collect()
    }

    /// The only key of a range.
    fn point(&self, range: &KeyRange) -> Option<Vec<Value>> {
        let Bound::Included(key) = &range.lower else {
            return None;
        };
        let values = self.decoded(key)?;
        let is_point = KeyRange::prefix(key.clone()) == *range || range.upper == range.lower;
        (values.len() == self.columns.len() && is_point).then_some(values)
    }

    /// The values of the parts of a key.
    fn decoded(&self, key: &[u8]) -> Option<Vec<Value>> {
        let mut rest = key;
        let mut values = Vec::new();
        while !rest.is_empty() && values.len() < self.columns.len() {
            let nth = values.len();
            if !self.codec.is_reversible(nth) {
                return None;
            }
            let (value, left) = self.codec.decode_part(nth, rest, &self.env.ctx.time_zone)?;
            values.push(value.to_owned());
            rest = left;
        }
        Some(values)
    }

    /// The smallest value of a range over one column.
    fn first(&self, range: &KeyRange) -> Option<Value> {
        match &range.lower {
            Bound::Included(key) => self.padded(key),
            Bound::Excluded(_) | Bound::Unbounded => None,
        }
    }

    /// The first value behind a range over one column.
    fn behind(&self, range: &KeyRange) -> Option<Value> {
        match &range.upper {
            Bound::Excluded(key) => self.padded(key),
            Bound::Included(_) | Bound::Unbounded => None,
        }
    }

    /// The value of a key that may lack zeros at its end, as bounds do.
    fn padded(&self, key: &[u8]) -> Option<Value> {
        let mut key = key.to_vec();
        for _ in 0..=MAX_KEY_BYTES {
            match self.decoded(&key).and_then(|mut values| values.pop()) {
                Some(value) => return Some(value),
                None => key.push(0),
            }
        }
        None
    }

    // RANGE and LIST.

    fn divided(&self, range: &KeyRange, partitioning: &Partitioning) -> Option<Vec<usize>> {
        match self.is_direct() {
            true => self.by_keys(range, partitioning),
            false => self.by_value(range, partitioning),
        }
    }

    /// Do columns themselves decide?
    fn is_direct(&self) -> bool {
        let expr = self.method.expr.strip_prefix('`');
        let name = expr.and_then(|e| e.strip_suffix('`'));
        !self.method.columns.is_empty() || name.is_some_and(|name| !name.contains('`'))
    }

    /// Where bounds are keys, too.
    fn by_keys(&self, range: &KeyRange, partitioning: &Partitioning) -> Option<Vec<usize>> {
        let starts_before = |end: &Edge| match (&range.lower, end) {
            (_, Edge::End) | (Bound::Unbounded, Edge::Key(_)) => true,
            (Bound::Included(key) | Bound::Excluded(key), Edge::Key(end)) => key < end,
            (_, Edge::Start) => false,
        };
        let ends_behind = |start: &Edge| match (&range.upper, start) {
            (_, Edge::Start) | (Bound::Unbounded, Edge::Key(_)) => true,
            (Bound::Included(key), Edge::Key(start)) => key >= start,
            (Bound::Excluded(key), Edge::Key(start)) => key > start,
            (_, Edge::End) => false,
        };
        let mut found = Vec::new();
        let mut start = Edge::Start;
        for (at, partition) in partitioning.partitions.iter().enumerate() {
            match &partition.bound {
                PartitionBound::LessThan(bound) => {
                    let end = self.edge(bound)?;
                    if starts_before(&end) && ends_behind(&start) {
                        found.push(at);
                    }
                    start = end;
                }
                PartitionBound::In(rows) => {
                    let is_in = |row: &Vec<PartitionValue>| {
                        let Edge::Key(key) = self.edge(row)? else {
                            return Some(false);
                        };
                        let mut behind = key.clone();
                        let is_last = !prefix_successor(&mut behind);
                        let behind = if is_last {
                            Edge::End
                        } else {
                            Edge::Key(behind)
                        };
                        Some(starts_before(&behind) && ends_behind(&Edge::Key(key)))
                    };
                    let is_in = rows.iter().map(is_in).collect::<Option<Vec<bool>>>()?;
                    if is_in.contains(&true) {
                        found.push(at);
                    }
                }
                PartitionBound::None => return None,
            }
        }
        Some(found)
    }

    /// The key of VALUES; those behind MAXVALUE do not count.
    fn edge(&self, values: &[PartitionValue]) -> Option<Edge> {
        let mut key = Vec::new();
        for (nth, value) in values.iter().enumerate() {
            let ty = &self.def.columns[self.columns[nth]].ty;
            let value = match value {
                PartitionValue::Max => {
                    let has_more = !key.is_empty() && prefix_successor(&mut key);
                    return Some(if has_more { Edge::Key(key) } else { Edge::End });
                }
                PartitionValue::Null => Value::Null,
                PartitionValue::Literal(text) => {
                    let literal = self.bound(text)?;
                    let value = literal.eval(&[], self.env).ok()?;
                    let quiet = self.env.ctx.quiet();
                    quiet.diagnostics.strict_write.set(true);
                    match to_column(&quiet, value, &literal.ty, ty, "", 1) {
                        Ok(value) => value,
                        // No value of an integer's type: behind all of them, or before.
                        Err(_) if nth == 0 && ty.is_integer() => {
                            let is_low = text.starts_with('-');
                            return Some(if is_low { Edge::Start } else { Edge::End });
                        }
                        Err(_) => return None,
                    }
                }
            };
            if value.is_null() && !ty.nullable {
                return Some(Edge::Start);
            }
            let encoded = self.codec.encode_part(nth, value.as_ref(), &UTC, &mut key);
            encoded.ok()?;
        }
        Some(Edge::Key(key))
    }

    /// Where an expression decides: of one value, or of a range where it never falls.
    fn by_value(&self, range: &KeyRange, partitioning: &Partitioning) -> Option<Vec<usize>> {
        let expr = self.bound(&self.method.expr)?;
        let value = |values: &[Value]| {
            let mut row = vec![Value::Null; self.def.columns.len()];
            for (at, value) in self.columns.iter().zip(values) {
                row[*at] = value.clone();
            }
            self.integer(&expr, &row)
        };
        if let Some(values) = self.point(range) {
            let value = value(&values)?;
            return Some(positions(partitioning, |bound| match (bound, value) {
                (Piece::Null, None) => true,
                (Piece::From(low, high), Some(v)) => low <= v && v < high,
                _ => false,
            }));
        }
        let is_monotonic = MONOTONIC.iter().any(|name| {
            let inside = self
                .method
                .expr
                .strip_prefix(name)
                .and_then(|e| e.strip_suffix(')'));
            inside.is_some_and(|e| e.starts_with('`') && e.matches('`').count() == 2)
        });
        if !is_monotonic {
            return None;
        }
        let low = match (&range.lower, self.first(range)) {
            (Bound::Unbounded, _) => i128::MIN,
            (_, Some(at)) if is_moment(&at) => value(&[at])?.unwrap_or(i128::MIN),
            (Bound::Excluded(key) | Bound::Included(key), _) => {
                let last = self.padded(&before(key)?)?;
                let grows = i128::from(!self.method.expr.starts_with("year("));
                value(&[last])?.map_or(i128::MIN, |v| v + grows)
            }
        };
        let high = match (&range.upper, self.behind(range)) {
            (Bound::Unbounded, _) => i128::MAX,
            (_, Some(at)) if is_moment(&at) => {
                let begins = self.begins(&at);
                value(&[at])?.map_or(i128::MAX, |v| v - i128::from(begins))
            }
            // What follows a month's last day is none.
            (Bound::Excluded(key) | Bound::Included(key), _) => {
                let last = self.padded(&before(key)?)?;
                value(&[last])?.unwrap_or(i128::MAX)
            }
        };
        // Dates that are none have a year, and no number of days.
        let may_be_null = !self.method.expr.starts_with("year(");
        Some(positions(partitioning, |piece| match piece {
            Piece::Null => may_be_null,
            Piece::From(from, to) => from <= high && low < to,
        }))
    }

    /// Is the function's result greater than that of all values before this one?
    fn begins(&self, value: &Value) -> bool {
        let (date, is_midnight) = match value {
            Value::Date(date) => (*date, true),
            Value::DateTime(at) => (at.date(), at.time().micros() == 0),
            _ => return true,
        };
        let expr = &self.method.expr;
        match () {
            () if expr.starts_with("year(") => is_midnight && (date.month(), date.day()) == (1, 1),
            () if expr.starts_with("to_days(") => is_midnight,
            () => true,
        }
    }

    // Expressions.

    fn bound(&self, text: &str) -> Option<Expr> {
        bind_stored(self.env.ctx, &self.def.name, &self.def.columns, text).ok()
    }

    /// Some(None) is NULL.
    fn integer(&self, expr: &Expr, row: &[Value]) -> Option<Option<i128>> {
        match expr.eval(row, self.env).ok()? {
            Value::Null => Some(None),
            value => whole(&value).map(Some),
        }
    }
}

/// An end of a partition.
enum Edge {
    /// Before every key.
    Start,
    Key(Vec<u8>),
    /// Behind every key.
    End,
}

/// Some of the values that a partition has.
enum Piece {
    Null,
    /// From one, before the other.
    From(i128, i128),
}

/// Positions of the partitions that have a piece for which `holds`.
fn positions(partitioning: &Partitioning, holds: impl Fn(Piece) -> bool) -> Vec<usize> {
    let number = |value: &PartitionValue| match value {
        PartitionValue::Literal(text) => text.parse::<i128>().ok(),
        PartitionValue::Max | PartitionValue::Null => None,
    };
    let mut found = Vec::new();
    let mut from = i128::MIN;
    for (at, partition) in partitioning.partitions.iter().enumerate() {
        let is_found = match &partition.bound {
            PartitionBound::None => true,
            PartitionBound::LessThan(bound) => {
                let to = bound.first().and_then(number).unwrap_or(i128::MAX);
                let before = std::mem::replace(&mut from, to);
                (at == 0 && holds(Piece::Null)) || holds(Piece::From(before, to))
            }
            PartitionBound::In(rows) => rows.iter().flatten().any(|value| match number(value) {
                Some(v) => holds(Piece::From(v, v + 1)),
                None => holds(Piece::Null),
            }),
        };
        if is_found {
            found.push(at);
        }
    }
    found
}

/// Is it no date with a zero in it?
fn is_moment(value: &Value) -> bool {
    match value {
        Value::Date(date) => date.is_calendar_day(),
        Value::DateTime(at) => at.date().is_calendar_day(),
        Value::Int(_) | Value::UInt(_) => true,
        _ => false,
    }
}

/// The largest key of the same length before this one.
fn before(key: &[u8]) -> Option<Vec<u8>> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != u8::MAX {
            return Some(key);
        }
    }
    None
}

fn whole(value: &Value) -> Option<i128> {
    match value.as_ref() {
        ValueRef::Int(v) => Some(v.into()),
        ValueRef::UInt(v) => Some(v.into()),
        _ => None,
    }
}
