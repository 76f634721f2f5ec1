//! What a statement gives back to the server: outcomes, rows, waits.
//!
//! Neighbours: `session` produces these; the `server` crate turns them into packets.
//! **Invariants**: rows are pulled in bounded batches; no byte of an outcome may leave for the
//! client before the log is durable up to `depends_on` (the reader rule and commit durability).

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::Seq;
use esker_types::collation::Coercibility;
use esker_types::{SqlError, SqlType, TypeKind, ValueRef};
use smallvec::SmallVec;

use crate::catalog::{DefaultDef, TableDef};

/// Flags of [`ColumnMeta::flags`]: the key and default bits of MySQL's column definition.
pub mod meta_flag {
    /// Part of the primary key.
    pub const PRI_KEY: u16 = 2;
    /// Part of a unique key.
    pub const UNIQUE_KEY: u16 = 4;
    /// First part of a non-unique key, or of a unique one with several parts.
    pub const MULTIPLE_KEY: u16 = 8;
    /// AUTO_INCREMENT.
    pub const AUTO_INCREMENT: u16 = 512;
    /// TIMESTAMP with DEFAULT or ON UPDATE CURRENT_TIMESTAMP.
    pub const TIMESTAMP: u16 = 1024;
    /// NOT NULL without a default.
    pub const NO_DEFAULT_VALUE: u16 = 4096;
    /// TIMESTAMP with ON UPDATE CURRENT_TIMESTAMP.
    pub const ON_UPDATE_NOW: u16 = 8192;
    /// Part of some key.
    pub const PART_KEY: u16 = 16384;
}

/// A column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMeta {
    /// Schema, empty for expressions.
    pub schema: Arc<str>,
    /// Table alias.
    pub table: Arc<str>,
    /// Table name.
    pub org_table: Arc<str>,
    /// Column alias.
    pub name: Arc<str>,
    /// Column name.
    pub org_name: Arc<str>,
    /// Static type.
    pub ty: SqlType,
    /// Bits of [`meta_flag`].
    pub flags: u16,
    /// How strongly its texts insist on their collation where the result is read as a table.
    pub coercibility: Coercibility,
    /// What CREATE TABLE … SELECT makes of its type.
    pub stored_as: StoredAs,
}

/// How a table made of a result takes over the type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredAs {
    /// As it is: columns, aggregates.
    Same,
    /// As that of a subquery's value: integers by their length, CHAR as VARCHAR, all else as it is.
    Subquery,
    /// As that of a function's value, although it is a column: a key of GROUP BY … WITH ROLLUP.
    RolledUp,
    /// As that of a function's value: integers by their length, labels as text, every TEXT as LONGTEXT.
    Value,
    /// As that of a literal: an integer by its digits, all else as a function's value.
    Literal,
    /// As that of a chosen value: integers as they are, labels and CHAR as VARCHAR, every TEXT as LONGTEXT.
    Choice,
    /// As that of the rows of a set operation: a TEXT by the bytes that its characters may take.
    Rows,
    /// As the widest DECIMAL: a user variable may hold any.
    Widest,
    /// As that of a program's variable: integers by the digits that they may have, a TEXT as that of rows.
    Variable,
}

impl ColumnMeta {
    /// A column of a stored table, under its own name.
    pub fn stored(table: &TableDef, column: usize, alias: Arc<str>) -> Self {
        let def = &table.columns[column];
        Self {
            schema: table.schema.clone(),
            table: alias,
            org_table: table.name.clone(),
            name: def.name.clone(),
            org_name: def.name.clone(),
            flags: flags_of(table, column),
            coercibility: Coercibility::of_column(&def.ty),
            stored_as: StoredAs::Same,
            ty: def.ty.clone(),
        }
    }

    /// A column that comes from no table.
    pub fn computed(name: impl Into<Arc<str>>, ty: SqlType) -> Self {
        let none: Arc<str> = Arc::from("");
        Self {
            schema: none.clone(),
            table: none.clone(),
            org_table: none.clone(),
            name: name.into(),
            org_name: none,
            flags: 0,
            coercibility: Coercibility::of_column(&ty),
            stored_as: StoredAs::Value,
            ty,
        }
    }
}

/// Key and default flags of a column, as MySQL sends them.
fn flags_of(def: &TableDef, column: usize) -> u16 {
    let mut flags = 0;
    let primary = def.shown_primary().map(|index| index.id);
    for index in def.visible_indexes() {
        let Some(part) = index.parts.iter().position(|p| p.col == column) else {
            continue;
        };
        flags |= meta_flag::PART_KEY;
        flags |= if primary == Some(index.id) {
            meta_flag::PRI_KEY
        } else if index.unique && index.parts.len() == 1 {
            meta_flag::UNIQUE_KEY
        } else if part == 0 {
            meta_flag::MULTIPLE_KEY
        } else {
            0
        };
    }
    let c = &def.columns[column];
    if c.auto_increment {
        flags |= meta_flag::AUTO_INCREMENT;
    }
    let no_default = matches!(c.default, DefaultDef::None);
    if no_default && !c.ty.nullable && !c.auto_increment {
        flags |= meta_flag::NO_DEFAULT_VALUE;
    }
    if c.ty.kind == TypeKind::Timestamp {
        if c.on_update_now {
            flags |= meta_flag::ON_UPDATE_NOW;
        }
        if c.on_update_now || matches!(c.default, DefaultDef::Now) {
            flags |= meta_flag::TIMESTAMP;
        }
    }
    flags
}

/// Where rows go: implemented by the server's packet encoders and by the shell's printer.
pub trait RowSink {
    /// Starts a row.
    fn begin_row(&mut self);
    /// The next value of the row and its column's type.
    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType);
    /// Ends the row.
    fn end_row(&mut self);
    /// Bytes held and not yet sent; a producer pauses above its limit.
    fn bytes(&self) -> usize;
}

/// How a statement may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On a worker thread shared with other sessions: never block; answer [`Step::Wait`] or
    /// [`Step::NeedThread`] instead.
    Inline,
    /// On a thread of its own: waits park it.
    Thread,
}

/// Something to await before the statement can go on.
pub struct WaitFor {
    /// Resolves when the statement may run again, or with the error it ends with (deadlock, KILL).
    /// Dropping it leaves the queue.
    pub ready: Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>,
    /// After this `Session::look` wants to be asked whether to wait on.
    pub timeout: Duration,
}

/// Progress of the current statement.
pub enum Step {
    /// Finished, or rows are ready to be pulled.
    Done(Outcome),
    /// Await, tell the session with `Session::waited`, then step again.
    Wait(WaitFor),
    /// Too long for a shared worker: step again with [`Mode::Thread`].
    NeedThread,
    /// The statement reads the client's file of this name: bring it with `Session::feed`. Only for a client that can
    /// send files.
    NeedFile(Vec<u8>),
}

/// The end of one statement.
pub struct Outcome {
    /// What it gave.
    pub result: OutcomeKind,
    /// The log must be durable up to here before any byte of this leaves; 0 = nothing to await.
    pub depends_on: Seq,
}

/// What a statement gave.
pub enum OutcomeKind {
    /// No rows.
    Ok(OkInfo),
    /// Rows follow: pull them with `Session::next_rows`.
    Rows(Arc<[ColumnMeta]>),
    /// It failed; the transaction is as MySQL would leave it.
    Err(SqlError),
}

/// Contents of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OkInfo {
    /// Rows changed (or found, with CLIENT_FOUND_ROWS).
    pub affected_rows: u64,
    /// First generated AUTO_INCREMENT value of the statement, else 0.
    pub last_insert_id: u64,
    /// Text such as `Records: 2  Duplicates: 0  Warnings: 0`.
    pub info: InfoText,
}

/// Longest text of an OK packet that needs no memory of its own, bytes.
const INLINE_INFO_BYTES: usize = 64;

/// The text of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InfoText(SmallVec<[u8; INLINE_INFO_BYTES]>);

impl InfoText {
    /// Texts, each with a number behind it. Every UPDATE makes one, so it takes no formatter.
    pub fn counts(parts: &[(&str, u64)]) -> Self {
        let mut out = SmallVec::new();
        for (text, number) in parts {
            out.extend_from_slice(text.as_bytes());
            let digits = number.checked_ilog10().unwrap_or(0);
            for place in (0..=digits).rev() {
                out.push(b'0' + (number / 10u64.pow(place) % 10) as u8);
            }
        }
        Self(out)
    }
}

impl From<&str> for InfoText {
    fn from(text: &str) -> Self {
        Self(SmallVec::from_slice(text.as_bytes()))
    }
}

impl Deref for InfoText {
    type Target = str;

    fn deref(&self) -> &str {
        // Only whole strings were put in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::InfoText;

    #[test]
    fn texts_of_counts() {
        let parts = [("Rows: ", 0), ("  Changed: ", 10), (" ", u64::MAX)];
        let expected = "Rows: 0  Changed: 10 18446744073709551615";
        assert_eq!(&*InfoText::counts(&parts), expected);
    }
}
