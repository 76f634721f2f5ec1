//! How a table is partitioned: which partition a row is in follows from its columns.
//!
//! The rows of all partitions are in the same trees (`docs/decisions/partitions.md`). What decides is kept as SQL text,
//! and so are the conditions that [`Partitioning::belongs`] makes of it: the binder reads them as any other.
//!
//! Neighbours: `ddl` checks and makes these, `store` keeps [`Partitioning::extension`] with the table, `show` prints
//! them, `bind` and `dml` ask for conditions. **Invariants**: there is at least one partition; the names of a table's
//! partitions and subpartitions differ; columns are named as the table names them, and keep their names.

use std::fmt::Write;

use esker_types::SqlResult;

use super::bytes::{Reader, Writer};
use super::quotes::{Quotes, quoted};
use crate::codec::damaged;

/// Kinds of partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the SQL word of that name")]
pub enum PartitionKind {
    Range,
    List,
    Hash,
    Key,
}

/// How rows find their partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMethod {
    /// RANGE, LIST, HASH, KEY.
    pub kind: PartitionKind,
    /// LINEAR.
    pub linear: bool,
    /// ALGORITHM = 1 of KEY: hashes of MySQL 5.1.
    pub old_hash: bool,
    /// The integer expression; empty where columns decide.
    pub expr: Box<str>,
    /// The columns that decide: of COLUMNS and KEY.
    pub columns: Vec<Box<str>>,
    /// `KEY ()`: the columns are those of the primary key.
    pub by_primary: bool,
}

/// A value of a partition, as SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionValue {
    /// MAXVALUE.
    Max,
    /// NULL.
    Null,
    /// A literal.
    Literal(Box<str>),
}

/// VALUES of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionBound {
    /// HASH and KEY have none.
    None,
    /// LESS THAN: a value a column.
    LessThan(Vec<PartitionValue>),
    /// IN: rows of values.
    In(Vec<Vec<PartitionValue>>),
}

/// Name and options of a partition or subpartition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionItem {
    /// Name.
    pub name: Box<str>,
    /// COMMENT.
    pub comment: Box<str>,
    /// MAX_ROWS, 0: none.
    pub max_rows: u64,
    /// MIN_ROWS, 0: none.
    pub min_rows: u64,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDef {
    /// Name and options.
    pub item: PartitionItem,
    /// VALUES.
    pub bound: PartitionBound,
    /// Its subpartitions.
    pub subpartitions: Vec<PartitionItem>,
}

/// How a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitioning {
    /// Of the table.
    pub method: PartitionMethod,
    /// Of each partition.
    pub sub: Option<PartitionMethod>,
    /// The partitions.
    pub partitions: Vec<PartitionDef>,
    /// Only the number of partitions was given: SHOW CREATE TABLE says `PARTITIONS n`; with the number as well.
    pub counted: Counted,
    /// The same of subpartitions.
    pub sub_counted: Counted,
    /// Those of the names in it that are keywords, and are shown in backticks.
    pub keywords: Vec<Box<str>>,
}

/// How the number of partitions was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// They are listed.
    Listed,
    /// By a number.
    Number,
    /// Not at all: it is 1.
    Default,
}

/// Which partitions a name stands for: a partition, and one of its subpartitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Position of the partition.
    pub partition: usize,
    /// Position of the subpartition in it; none: all of it.
    pub subpartition: Option<usize>,
}

/// By what the partition of a row is found: SQL over the table's columns.
#[derive(Debug)]
pub enum Placing {
    /// Its number, from 0.
    Number(String),
    /// For each partition: the row is in it or in one before it.
    Below(Vec<String>),
    /// For each partition: the row is in it.
    Within(Vec<String>),
}

impl PartitionKind {
    /// The SQL word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Range => "RANGE",
            Self::List => "LIST",
            Self::Hash => "HASH",
            Self::Key => "KEY",
        }
    }
}

impl PartitionValue {
    /// As SQL has it.
    pub fn text(&self) -> &str {
        match self {
            Self::Max => "MAXVALUE",
            Self::Null => "NULL",
            Self::Literal(text) => text,
        }
    }
}

impl PartitionMethod {
    /// RANGE COLUMNS or LIST COLUMNS?
    pub fn has_columns(&self) -> bool {
        self.kind != PartitionKind::Key && !self.columns.is_empty()
    }

    /// As information_schema calls it.
    pub fn name(&self) -> String {
        let linear = if self.linear { "LINEAR " } else { "" };
        let columns = if self.has_columns() { " COLUMNS" } else { "" };
        format!("{linear}{}{columns}", self.kind.word())
    }

    /// What decides, as SQL: the columns or the expression.
    fn operands(&self) -> Vec<String> {
        match self.columns.is_empty() {
            true => vec![format!("({})", self.expr)],
            false => self.columns.iter().map(|c| quoted(c)).collect(),
        }
    }

    /// Where every row has a partition: a condition that is always met, but for an expression that fails. None for a
    /// column, which cannot.
    fn computes(&self) -> Option<String> {
        let name = self
            .expr
            .strip_prefix('`')
            .and_then(|e| e.strip_suffix('`'));
        let is_column = !self.columns.is_empty() || name.is_some_and(|name| !name.contains('`'));
        (!is_column).then(|| format!("internal_partition(0, 0, 1, {}) = 0", self.expr))
    }

    /// The number, from 0, of the partition among `count` that HASH or KEY gives a row: SQL.
    pub fn number(&self, count: usize) -> String {
        let kind = match (self.kind, self.old_hash) {
            (PartitionKind::Key, true) => 1,
            (PartitionKind::Key, false) => 2,
            _ => 0,
        };
        let operands = self.operands().join(",");
        let linear = u8::from(self.linear);
        format!("internal_partition({kind},{linear},{count},{operands})")
    }
}

/// Is a row below the bound? SQL that is never NULL.
fn below(operands: &[String], bound: &[PartitionValue]) -> String {
    let (Some(operand), Some(value)) = (operands.first(), bound.first()) else {
        return "FALSE".into();
    };
    let text = match value {
        PartitionValue::Max => return "TRUE".into(),
        value => value.text(),
    };
    match bound.len() {
        1 => format!("({operand} < {text} OR {operand} IS NULL)"),
        _ => {
            let rest = below(&operands[1..], &bound[1..]);
            format!("({operand} < {text} OR {operand} IS NULL OR ({operand} = {text} AND {rest}))")
        }
    }
}

/// Is a row one of those listed? SQL.
fn listed(operands: &[String], rows: &[Vec<PartitionValue>]) -> String {
    let is_null = |v: &PartitionValue| *v == PartitionValue::Null;
    if let [operand] = operands {
        let values = rows.iter().flatten().filter(|v| !is_null(v));
        let values: Vec<&str> = values.map(PartitionValue::text).collect();
        let null = rows.iter().flatten().any(is_null);
        return match (values.is_empty(), null) {
            (true, _) => format!("({operand} IS NULL)"),
            (false, true) => format!("({operand} IN ({}) OR {operand} IS NULL)", values.join(",")),
            (false, false) => format!("({operand} IN ({}))", values.join(",")),
        };
    }
    let of_row = |row: &Vec<PartitionValue>| {
        let one = |(operand, value): (&String, &PartitionValue)| match is_null(value) {
            true => format!("{operand} IS NULL"),
            false => format!("{operand} = {}", value.text()),
        };
        let all: Vec<String> = operands.iter().zip(row).map(one).collect();
        format!("({})", all.join(" AND "))
    };
    let all: Vec<String> = rows.iter().map(of_row).collect();
    format!("({})", all.join(" OR "))
}

impl Partitioning {
    /// Is a row in a partition? SQL over the table's columns.
    pub fn belongs(&self, chosen: Chosen) -> String {
        let at = chosen.partition;
        let operands = self.method.operands();
        let condition = match &self.partitions[at].bound {
            PartitionBound::None => {
                format!("{} = {at}", self.method.number(self.partitions.len()))
            }
            PartitionBound::In(rows) => listed(&operands, rows),
            PartitionBound::LessThan(bound) => {
                let before = at.checked_sub(1).map(|b| &self.partitions[b].bound);
                let from = match before {
                    Some(PartitionBound::LessThan(before)) => match &**before {
                        [value] => format!("{} >= {}", operands[0], value.text()),
                        _ => format!("NOT {}", below(&operands, before)),
                    },
                    _ => "TRUE".into(),
                };
                match (&**bound, at) {
                    ([PartitionValue::Max], _) => from,
                    ([value], 1..) => {
                        format!("{from} AND {} < {}", operands[0], value.text())
                    }
                    _ => format!("{from} AND {}", below(&operands, bound)),
                }
            }
        };
        match (&self.sub, chosen.subpartition) {
            (Some(sub), Some(nth)) => {
                let count = self.partitions[at].subpartitions.len();
                format!("({condition} AND {} = {nth})", sub.number(count))
            }
            _ => format!("({condition})"),
        }
    }

    /// By what the partition of a row is found.
    pub fn placing(&self) -> Placing {
        let operands = self.method.operands();
        let conditions = |(at, partition): (usize, &PartitionDef)| match &partition.bound {
            PartitionBound::LessThan(bound) => below(&operands, bound),
            PartitionBound::In(_) | PartitionBound::None => self.belongs(Chosen {
                partition: at,
                subpartition: None,
            }),
        };
        let all = self.partitions.iter().enumerate();
        match self.method.kind {
            PartitionKind::Hash | PartitionKind::Key => {
                Placing::Number(self.method.number(self.partitions.len()))
            }
            PartitionKind::Range => Placing::Below(all.map(conditions).collect()),
            PartitionKind::List => Placing::Within(all.map(conditions).collect()),
        }
    }

    /// Is there a partition for a row, and can it be computed? SQL; none: always.
    pub fn accepts(&self) -> Option<String> {
        let operands = self.method.operands();
        match &self.partitions.last()?.bound {
            PartitionBound::None => self.method.computes(),
            PartitionBound::LessThan(bound) if bound[0] == PartitionValue::Max => {
                self.method.computes()
            }
            PartitionBound::LessThan(bound) => Some(below(&operands, bound)),
            PartitionBound::In(_) => {
                let rows = self.partitions.iter().filter_map(|p| match &p.bound {
                    PartitionBound::In(rows) => Some(rows),
                    _ => None,
                });
                let rows: Vec<Vec<PartitionValue>> = rows.flatten().cloned().collect();
                Some(listed(&operands, &rows))
            }
        }
    }

    /// The value for which there is no partition, as SQL; none: it is one of several columns.
    pub fn missing_value(&self) -> Option<&str> {
        self.method.columns.is_empty().then_some(&*self.method.expr)
    }

    /// What a name stands for (case-insensitive).
    pub fn find(&self, name: &str) -> Option<Chosen> {
        let is_it = |item: &PartitionItem| super::same_name(&item.name, name);
        for (partition, def) in self.partitions.iter().enumerate() {
            if is_it(&def.item) {
                return Some(Chosen {
                    partition,
                    subpartition: None,
                });
            }
            if let Some(nth) = def.subpartitions.iter().position(is_it) {
                return Some(Chosen {
                    partition,
                    subpartition: Some(nth),
                });
            }
        }
        None
    }

    /// Name and options of what was chosen.
    pub fn item(&self, chosen: Chosen) -> &PartitionItem {
        let partition = &self.partitions[chosen.partition];
        match chosen.subpartition {
            Some(nth) => &partition.subpartitions[nth],
            None => &partition.item,
        }
    }

    /// Does a column decide the partition of a row, by a list of columns?
    pub fn names_column(&self, column: &str) -> bool {
        let methods = [Some(&self.method), self.sub.as_ref()];
        let mut columns = methods.into_iter().flatten().flat_map(|m| &m.columns);
        columns.any(|c| super::same_name(c, column))
    }

    /// Does a column have a part in deciding the partition of a row?
    pub fn decides(&self, column: &str) -> bool {
        let name = quoted(column);
        self.names_column(column) || self.exprs().any(|e| e.contains(&*name))
    }

    /// The expressions that decide.
    pub fn exprs(&self) -> impl Iterator<Item = &str> {
        let methods = [Some(&self.method), self.sub.as_ref()];
        let exprs = methods.into_iter().flatten().map(|m| &*m.expr);
        exprs.filter(|e| !e.is_empty())
    }

    // Bytes.

    /// The extension of a table.
    pub(super) fn extension(&self) -> Vec<u8> {
        let mut w = Writer::default();
        write_method(&mut w, &self.method);
        w.option(self.sub.as_ref(), write_method);
        for counted in [self.counted, self.sub_counted] {
            w.byte(match counted {
                Counted::Listed => 0,
                Counted::Number => 1,
                Counted::Default => 2,
            });
        }
        w.int(self.partitions.len() as u64);
        for partition in &self.partitions {
            write_item(&mut w, &partition.item);
            match &partition.bound {
                PartitionBound::None => w.byte(0),
                PartitionBound::LessThan(values) => {
                    w.byte(1);
                    write_values(&mut w, values);
                }
                PartitionBound::In(rows) => {
                    w.byte(2);
                    w.int(rows.len() as u64);
                    rows.iter().for_each(|row| write_values(&mut w, row));
                }
            }
            w.int(partition.subpartitions.len() as u64);
            let subs = partition.subpartitions.iter();
            subs.for_each(|item| write_item(&mut w, item));
        }
        w.int(self.keywords.len() as u64);
        self.keywords.iter().for_each(|k| w.text(k));
        w.out
    }

    /// What an extension says.
    pub(super) fn read_extension(content: &[u8]) -> SqlResult<Self> {
        let mut r = Reader::new(content);
        let method = read_method(&mut r)?;
        let sub = r.option(read_method)?;
        let (counted, sub_counted) = (read_counted(&mut r)?, read_counted(&mut r)?);
        let partitions = r.list(|r| {
            Ok(PartitionDef {
                item: read_item(r)?,
                bound: match r.byte()? {
                    0 => PartitionBound::None,
                    1 => PartitionBound::LessThan(read_values(r)?),
                    2 => PartitionBound::In(r.list(read_values)?),
                    _ => return Err(damaged("catalog row: partition")),
                },
                subpartitions: r.list(read_item)?,
            })
        })?;
        let keywords = r.list(|r| Ok(r.text()?.into()))?;
        r.end()?;
        if partitions.is_empty() {
            return Err(damaged("catalog row: partitions"));
        }
        Ok(Self {
            method,
            sub,
            partitions,
            counted,
            sub_counted,
            keywords,
        })
    }

    // SHOW CREATE TABLE.

    /// The clause with its comment; `engine` is the table's, where it is shown.
    pub(super) fn push_clause(&self, engine: Option<&str>, quotes: Quotes, out: &mut String) {
        // What MySQL 5.1 could not read is a comment for it.
        let is_newer = |expr: &str| expr.contains("to_seconds(");
        let version = match self.method.has_columns() || self.exprs().any(is_newer) {
            true => 50500,
            false => 50100,
        };
        let _ = write!(out, "\n/*!{version} PARTITION BY ");
        self.push_method(&self.method, version, quotes, out);
        if self.counted == Counted::Number {
            let _ = write!(out, "\nPARTITIONS {}", self.partitions.len());
        }
        if let Some(sub) = &self.sub {
            out.push_str("\nSUBPARTITION BY ");
            self.push_method(sub, version, quotes, out);
            if self.sub_counted == Counted::Number {
                let count = self.partitions[0].subpartitions.len();
                let _ = write!(out, "\nSUBPARTITIONS {count}");
            }
        }
        if self.counted == Counted::Listed {
            out.push_str("\n(");
            for (at, partition) in self.partitions.iter().enumerate() {
                if at > 0 {
                    out.push_str(",\n ");
                }
                self.push_partition(partition, engine, quotes, out);
            }
            out.push(')');
        }
        out.push_str(" */");
    }

    /// A name, in quotes only where it needs them.
    fn push_name(&self, name: &str, quotes: Quotes, out: &mut String) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        let is_plain = name.chars().all(is_word) && !name.chars().all(|c| c.is_ascii_digit());
        match is_plain && !self.keywords.iter().any(|k| **k == *name) {
            true => out.push_str(name),
            false => quotes.push(out, name),
        }
    }

    fn push_method(
        &self,
        method: &PartitionMethod,
        version: u32,
        quotes: Quotes,
        out: &mut String,
    ) {
        if method.linear {
            out.push_str("LINEAR ");
        }
        out.push_str(method.kind.word());
        if method.kind == PartitionKind::Key && method.old_hash {
            let _ = write!(out, " */ /*!50611 ALGORITHM = 1 */ /*!{version}");
        }
        out.push_str(match method.has_columns() {
            true => "  COLUMNS(",
            false => " (",
        });
        if !method.by_primary {
            for (at, column) in method.columns.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                self.push_name(column, quotes, out);
            }
        }
        let _ = write!(out, "{})", quotes.expression(&method.expr));
    }

    fn push_partition(
        &self,
        partition: &PartitionDef,
        engine: Option<&str>,
        quotes: Quotes,
        out: &mut String,
    ) {
        out.push_str("PARTITION ");
        self.push_name(&partition.item.name, quotes, out);
        match &partition.bound {
            PartitionBound::None => {}
            bound @ PartitionBound::LessThan(values) => {
                let text = description(bound);
                let is_max = *values == [PartitionValue::Max] && !self.method.has_columns();
                out.push_str(" VALUES LESS THAN ");
                out.push_str(&if is_max { text } else { format!("({text})") });
            }
            bound @ PartitionBound::In(_) => {
                let _ = write!(out, " VALUES IN ({})", description(bound));
            }
        }
        if self.sub.is_none() || self.sub_counted != Counted::Listed {
            push_options(&partition.item, engine, out);
            return;
        }
        out.push_str("\n (");
        for (at, item) in partition.subpartitions.iter().enumerate() {
            out.push_str(if at > 0 { ",\n  " } else { "" });
            out.push_str("SUBPARTITION ");
            self.push_name(&item.name, quotes, out);
            push_options(item, engine, out);
        }
        out.push(')');
    }
}

/// VALUES as information_schema and SHOW CREATE TABLE have them.
pub fn description(bound: &PartitionBound) -> String {
    let row = |values: &[PartitionValue]| {
        let texts: Vec<&str> = values.iter().map(PartitionValue::text).collect();
        texts.join(",")
    };
    match bound {
        PartitionBound::None => String::new(),
        PartitionBound::LessThan(values) => row(values),
        PartitionBound::In(rows) => {
            let of_row = |values: &Vec<PartitionValue>| match values.len() {
                1 => row(values),
                _ => format!("({})", row(values)),
            };
            let rows: Vec<String> = rows.iter().map(of_row).collect();
            rows.join(",")
        }
    }
}

/// A string literal in which quotes are escaped, as MySQL has it here, and not doubled as elsewhere.
fn push_comment(out: &mut String, text: &str) {
    out.push('\'');
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' | '\'' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('\'');
}

/// Options of a partition; there is no engine where the session leaves out what only MySQL has.
fn push_options(item: &PartitionItem, engine: Option<&str>, out: &mut String) {
    let Some(engine) = engine else {
        return;
    };
    if item.max_rows > 0 {
        let _ = write!(out, " MAX_ROWS = {}", item.max_rows);
    }
    if item.min_rows > 0 {
        let _ = write!(out, " MIN_ROWS = {}", item.min_rows);
    }
    if !item.comment.is_empty() {
        out.push_str(" COMMENT = ");
        push_comment(out, &item.comment);
    }
    let _ = write!(out, " ENGINE = {engine}");
}

fn write_method(w: &mut Writer, method: &PartitionMethod) {
    w.byte(match method.kind {
        PartitionKind::Range => 0,
        PartitionKind::List => 1,
        PartitionKind::Hash => 2,
        PartitionKind::Key => 3,
    });
    w.flag(method.linear);
    w.flag(method.old_hash);
    w.flag(method.by_primary);
    w.text(&method.expr);
    w.int(method.columns.len() as u64);
    method.columns.iter().for_each(|c| w.text(c));
}

fn read_method(r: &mut Reader<'_>) -> SqlResult<PartitionMethod> {
    let kind = match r.byte()? {
        0 => PartitionKind::Range,
        1 => PartitionKind::List,
        2 => PartitionKind::Hash,
        3 => PartitionKind::Key,
        _ => return Err(damaged("catalog row: partitions")),
    };
    Ok(PartitionMethod {
        kind,
        linear: r.flag()?,
        old_hash: r.flag()?,
        by_primary: r.flag()?,
        expr: r.text()?.into(),
        columns: r.list(|r| Ok(r.text()?.into()))?,
    })
}

fn read_counted(r: &mut Reader<'_>) -> SqlResult<Counted> {
    Ok(match r.byte()? {
        0 => Counted::Listed,
        1 => Counted::Number,
        2 => Counted::Default,
        _ => return Err(damaged("catalog row: partitions")),
    })
}

fn write_item(w: &mut Writer, item: &PartitionItem) {
    w.text(&item.name);
    w.text(&item.comment);
    w.int(item.max_rows);
    w.int(item.min_rows);
}

fn read_item(r: &mut Reader<'_>) -> SqlResult<PartitionItem> {
    Ok(PartitionItem {
        name: r.text()?.into(),
        comment: r.text()?.into(),
        max_rows: r.int()?,
        min_rows: r.int()?,
    })
}

fn write_values(w: &mut Writer, values: &[PartitionValue]) {
    w.int(values.len() as u64);
    for value in values {
        match value {
            PartitionValue::Max => w.byte(0),
            PartitionValue::Null => w.byte(1),
            PartitionValue::Literal(text) => {
                w.byte(2);
                w.text(text);
            }
        }
    }
}

fn read_values(r: &mut Reader<'_>) -> SqlResult<Vec<PartitionValue>> {
    r.list(|r| {
        Ok(match r.byte()? {
            0 => PartitionValue::Max,
            1 => PartitionValue::Null,
            2 => PartitionValue::Literal(r.text()?.into()),
            _ => return Err(damaged("catalog row: partition")),
        })
    })
}
