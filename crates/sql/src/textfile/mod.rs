//! Text files with rows: what LOAD DATA and LOAD XML read and SELECT … INTO OUTFILE writes.
//!
//! In this order: [`Dialect`] (FIELDS and LINES, checked) · `input` (the bytes of a file) · `read` (a file into
//! fields) · `xml` (a file of XML into rows) · `write` (rows into a file) · `place` (which files the server may
//! touch). Neighbours: `dml::insert::load_rows` makes rows of the fields; `session::load` and `session::export` run
//! the statements; the server brings the bytes of a client's file as a [`FileSource`].
//!
//! **Invariants**
//! - Files pass through in pieces; only one field (or row of a fixed width) is in memory, and its size is bounded.
//! - Separators are compared as bytes, but never with a part of a code of several bytes ([`Charset::code_len`]).

mod input;
mod place;
mod read;
mod write;
mod xml;

use esker_sql_syntax::ast::FileFormat;
use esker_types::collation::{Charset, Collation};
use esker_types::{SqlError, SqlMode, SqlResult, SqlType, TypeKind, errors};

pub(crate) use place::{Places, create_file, io_error, open_file, read_file};
pub(crate) use read::FieldReader;
pub(crate) use write::{Export, RawSink, TextSink};
pub(crate) use xml::XmlRows;

/// Where the bytes of LOAD DATA and LOAD XML come from.
pub trait FileSource {
    /// Puts the next bytes of the file into `piece`, which is empty; it stays empty at the end of the file. Asks
    /// `check_killed` now and then while it waits.
    ///
    /// # Errors
    /// The file cannot be read, or the statement was killed.
    fn read(
        &mut self,
        piece: &mut Vec<u8>,
        check_killed: &dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<()>;
}

/// FIELDS and LINES as reading and writing need them.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    /// FIELDS TERMINATED BY.
    pub(crate) field_end: Vec<u8>,
    /// LINES STARTING BY.
    pub(crate) line_start: Vec<u8>,
    /// LINES TERMINATED BY.
    pub(crate) line_end: Vec<u8>,
    /// ENCLOSED BY.
    pub(crate) quote: Option<u8>,
    /// OPTIONALLY.
    pub(crate) optionally: bool,
    /// ESCAPED BY.
    pub(crate) escape: Option<u8>,
}

impl Dialect {
    /// Checks the clauses of a statement.
    ///
    /// # Errors
    /// 1083 for a quote or an escape of more than one byte.
    pub(crate) fn new(format: &FileFormat, mode: SqlMode) -> SqlResult<Self> {
        if format.enclosed.len() > 1 || format.escaped.len() > 1 {
            let text = "Field separator argument is not what is expected; check the manual";
            return Err(SqlError::new(1083, "42000", text));
        }
        let plain_backslash = mode.has(SqlMode::NO_BACKSLASH_ESCAPES) && format.escaped == b"\\";
        Ok(Self {
            field_end: format.fields_terminated.clone(),
            line_start: format.lines_starting.clone(),
            line_end: format.lines_terminated.clone(),
            quote: format.enclosed.first().copied(),
            optionally: format.optionally,
            escape: format.escaped.first().copied().filter(|_| !plain_backslash),
        })
    }

    /// Rows have fields of fixed widths: neither a separator nor a quote.
    pub(crate) fn is_fixed(&self) -> bool {
        self.field_end.is_empty() && self.quote.is_none()
    }

    /// Is a separator not all ASCII? Warning 1638 then.
    pub(crate) fn has_foreign_bytes(&self) -> bool {
        let strings = [&self.field_end, &self.line_start, &self.line_end];
        strings.iter().any(|s| !s.is_ascii())
            || [self.quote, self.escape]
                .iter()
                .flatten()
                .any(|b| !b.is_ascii())
    }
}

/// Text of warning 1638.
pub(crate) const FOREIGN_BYTES: &str = "Non-ASCII separator arguments are not fully supported";

/// The character set of a CHARACTER SET clause.
///
/// # Errors
/// 1115; 1235 for those whose separators are not bytes.
pub(crate) fn charset_named(name: &str) -> SqlResult<Charset> {
    let charset = Charset::by_name(name).ok_or_else(|| errors::unknown_charset(name))?;
    separable(charset)
}

/// A character set of files: one whose separators are bytes.
///
/// # Errors
/// 1235.
pub(crate) fn separable(charset: Charset) -> SqlResult<Charset> {
    match charset.min_len() {
        1 => Ok(charset),
        _ => Err(SqlError::not_supported(format!(
            "Files in {}",
            charset.name()
        ))),
    }
}

/// Bytes that a column takes in rows of fixed widths; None for BLOB and TEXT, which have no width.
pub(crate) fn width_of(ty: &SqlType) -> Option<usize> {
    let per_char = |collation: Collation| collation.charset().max_len() as usize;
    let length = ty.length as usize;
    let fraction = match ty.decimals {
        0 => 0,
        digits => 1 + usize::from(digits),
    };
    Some(match &ty.kind {
        TypeKind::Char | TypeKind::VarChar => length * per_char(ty.collation),
        TypeKind::TinyText
        | TypeKind::Text
        | TypeKind::MediumText
        | TypeKind::LongText
        | TypeKind::Geometry(_)
        | TypeKind::Json => return None,
        TypeKind::Enum(labels) => {
            let longest = labels.iter().map(|l| l.chars().count()).max();
            longest.unwrap_or(0) * per_char(ty.collation)
        }
        TypeKind::Set(labels) => {
            let all: usize = labels.iter().map(|l| l.chars().count() + 1).sum();
            all.saturating_sub(1) * per_char(ty.collation)
        }
        TypeKind::Decimal => length + usize::from(ty.decimals > 0) + usize::from(!ty.unsigned),
        TypeKind::Bit => length.div_ceil(8),
        TypeKind::Date => 10,
        TypeKind::Time => 10 + fraction,
        TypeKind::DateTime | TypeKind::Timestamp => 19 + fraction,
        _ => length,
    })
}
