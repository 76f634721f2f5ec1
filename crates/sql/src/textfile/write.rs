//! Rows into a text file, and a row as it is (DUMPFILE).
//!
//! Neighbours: `session::export` pulls rows into the sinks and takes the bytes to the file; [`super::FieldReader`]
//! reads what is written here.
//!
//! **Invariants**
//! - What was written with a quote or an escape is read back with the same clauses as the same values.
//! - A sink only gathers bytes; whoever pulls writes them out whenever there are enough.

use esker_sql_catalog::result::{ColumnMeta, RowSink};
use esker_types::cast::{to_str, write_text};
use esker_types::collation::Charset;
use esker_types::{SqlType, TypeKind, ValueRef};

use super::{Dialect, width_of};

/// Bytes that stand for other ones behind an escape.
const ESCAPED_LETTERS: &[u8] = b"ntrb0ZN";
/// Bytes of printed numbers.
const NUMBER_BYTES: &[u8] = b".0123456789e+-";

/// A sink whose bytes go to a file.
pub(crate) trait Export: RowSink {
    /// What was gathered since it was last emptied.
    fn gathered(&mut self) -> &mut Vec<u8>;
    /// Rows so far.
    fn rows(&self) -> u64;
    /// As the sink that rows are pulled into.
    fn as_sink(&mut self) -> &mut dyn RowSink;
}

/// Rows as FIELDS and LINES say.
pub(crate) struct TextSink {
    dialect: Dialect,
    /// What values are converted to; None: to the character set of their column.
    charset: Option<Charset>,
    /// Fields are filled up to the width of their type.
    fixed: bool,
    /// FIELDS TERMINATED begins with a letter that means another byte behind an escape: its escape is to be doubled.
    ambiguous: bool,
    /// Numbers may need an escape, too.
    unsafe_numbers: bool,
    /// What is escaped in a field with quotes around it, and in one without.
    in_quotes: Escaped,
    bare: Escaped,
    out: Vec<u8>,
    text: Vec<u8>,
    in_row: bool,
    rows: u64,
}

impl TextSink {
    /// A sink for rows of these columns.
    pub(crate) fn new(dialect: Dialect, charset: Option<Charset>, columns: &[ColumnMeta]) -> Self {
        let mut dialect = dialect;
        if dialect.line_end.is_empty() {
            dialect.line_end = dialect.field_end.clone();
        }
        if dialect.field_end.is_empty() {
            dialect.optionally = false;
        }
        let field_first = dialect.field_end.first().copied();
        let line_first = dialect.line_end.first().copied();
        // What must be escaped inside a field: the quote, or where there is none the first byte of the separator.
        let separator = dialect.quote.or(field_first);
        let any_text = columns.iter().any(|c| is_text(&c.ty));
        let among = |byte: Option<u8>, list: &[u8]| byte.is_some_and(|b| list.contains(&b));
        let letter = among(separator, ESCAPED_LETTERS);
        let unsafe_numbers = among(separator, NUMBER_BYTES);
        let any_number = columns.iter().any(|c| !is_text(&c.ty));
        let bare_numbers = dialect.optionally || dialect.quote.is_none();
        let ambiguous = (letter && dialect.quote.is_none() && (any_text || unsafe_numbers))
            || (bare_numbers && any_number && among(field_first, NUMBER_BYTES));
        Self {
            fixed: dialect.is_fixed() && columns.iter().all(|c| width_of(&c.ty).is_some()),
            charset,
            ambiguous,
            unsafe_numbers,
            in_quotes: Escaped::new([dialect.escape, separator, line_first], None),
            bare: Escaped::new(
                [dialect.escape, field_first, line_first],
                field_first.filter(|_| ambiguous),
            ),
            dialect,
            out: Vec::new(),
            text: Vec::new(),
            in_row: false,
            rows: 0,
        }
    }

    /// Can rows not be told apart when they are read again? Warning 1475 then.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// Puts the value's text, which is in `charset`.
    fn put_text(&mut self, quoted: bool, text_type: bool, charset: Charset) {
        let Some(escape) = self
            .dialect
            .escape
            .filter(|_| text_type || self.unsafe_numbers)
        else {
            self.out.extend_from_slice(&self.text);
            return;
        };
        let escaped = if quoted { &self.in_quotes } else { &self.bare };
        let mut rest = &*self.text;
        loop {
            let (plain, behind) = rest.split_at(escaped.first_in(rest, charset));
            self.out.extend_from_slice(plain);
            let Some((&byte, behind)) = behind.split_first() else {
                return;
            };
            self.out.push(escape);
            self.out.push(if byte == 0 { b'0' } else { byte });
            rest = behind;
        }
    }
}

/// Bytes that need an escape inside a field.
struct Escaped([bool; 256]);

impl Escaped {
    /// Zero and these, but for `never`.
    fn new(bytes: [Option<u8>; 3], never: Option<u8>) -> Self {
        let mut escaped = [false; 256];
        for byte in bytes.into_iter().flatten().chain([0]) {
            escaped[usize::from(byte)] = true;
        }
        if let Some(byte) = never {
            escaped[usize::from(byte)] = false;
        }
        Self(escaped)
    }

    /// Where the first of them is, or the end. Bytes within a code of several bytes stand for nothing alone.
    fn first_in(&self, text: &[u8], charset: Charset) -> usize {
        let is_escaped = |byte: &u8| self.0[usize::from(*byte)];
        if !charset.is_of_several_bytes() {
            return text.iter().position(is_escaped).unwrap_or(text.len());
        }
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match charset.code_len(&text[at..]) {
                0 if is_escaped(byte) => break,
                0 => at += 1,
                code => at += code,
            }
        }
        at
    }
}

/// Is the type one that MySQL prints as a string (dates among them)?
fn is_text(ty: &SqlType) -> bool {
    ty.is_string()
        || ty.is_temporal()
        || matches!(
            ty.kind,
            TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json | TypeKind::Null
        )
}

impl RowSink for TextSink {
    fn begin_row(&mut self) {
        self.in_row = false;
        self.out.extend_from_slice(&self.dialect.line_start);
    }

    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        if std::mem::replace(&mut self.in_row, true) {
            self.out.extend_from_slice(&self.dialect.field_end);
        }
        let text_type = is_text(ty);
        let width = self.fixed.then(|| width_of(ty).unwrap_or(0));
        let begin = self.out.len();
        if v.is_null() {
            match (width, self.dialect.escape) {
                (Some(_), _) => {}
                (None, Some(escape)) => self.out.extend_from_slice(&[escape, b'N']),
                (None, None) => self.out.extend_from_slice(b"NULL"),
            }
        } else {
            self.text.clear();
            let charset = write_value(v, ty, self.charset, &mut self.text);
            if let Some(width) = width {
                self.text.truncate(width);
            }
            let quote = self
                .dialect
                .quote
                .filter(|_| !self.dialect.optionally || text_type);
            self.out.extend(quote);
            self.put_text(quote.is_some(), text_type, charset);
            self.out.extend(quote);
        }
        if let Some(width) = width {
            let end = self.out.len().max(begin + width);
            self.out.resize(end, b' ');
        }
    }

    fn end_row(&mut self) {
        self.out.extend_from_slice(&self.dialect.line_end);
        self.rows += 1;
    }

    fn bytes(&self) -> usize {
        self.out.len()
    }
}

impl Export for TextSink {
    fn gathered(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn as_sink(&mut self) -> &mut dyn RowSink {
        self
    }
}

/// One row without any separators.
#[derive(Default)]
pub(crate) struct RawSink {
    out: Vec<u8>,
    rows: u64,
}

impl RowSink for RawSink {
    fn begin_row(&mut self) {}

    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        // More than one row is an error anyway.
        if self.rows == 0 && !v.is_null() {
            write_value(v, ty, None, &mut self.out);
        }
    }

    fn end_row(&mut self) {
        self.rows += 1;
    }

    fn bytes(&self) -> usize {
        self.out.len()
    }
}

impl Export for RawSink {
    fn gathered(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn as_sink(&mut self) -> &mut dyn RowSink {
        self
    }
}

/// Appends a value as it is printed, in `charset` or else in that of its type: in which it was.
fn write_value(
    v: ValueRef<'_>,
    ty: &SqlType,
    charset: Option<Charset>,
    out: &mut Vec<u8>,
) -> Charset {
    let own = ty.collation.charset();
    let text = match v {
        ValueRef::Str(text) | ValueRef::Label(_, text) if own != Charset::Binary => text.into(),
        ValueRef::Json(_) => to_str(v, ty),
        v => {
            write_text(v, ty, out);
            return Charset::Binary;
        }
    };
    let charset = charset.unwrap_or(own);
    out.extend_from_slice(&charset.encode_lossy(&text));
    charset
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_sql_syntax::ast::FileFormat;
    use esker_types::collation::Collation;
    use esker_types::{SqlMode, Value};

    fn written(format: &FileFormat, rows: &[&[Value]]) -> String {
        let types: Vec<SqlType> = rows[0]
            .iter()
            .map(|v| match v {
                Value::Int(_) => SqlType::new(TypeKind::Int),
                _ => SqlType::varchar(4, Collation::LATIN1_SWEDISH_CI),
            })
            .collect();
        let columns: Vec<ColumnMeta> = types
            .iter()
            .map(|ty| ColumnMeta::computed("c", ty.clone()))
            .collect();
        let dialect = Dialect::new(format, SqlMode::default()).unwrap();
        let mut sink = TextSink::new(dialect, Some(Charset::Utf8mb4), &columns);
        for row in rows {
            sink.begin_row();
            for (v, ty) in row.iter().zip(&types) {
                sink.value(v.as_ref(), ty);
            }
            sink.end_row();
        }
        assert_eq!(sink.rows(), rows.len() as u64);
        String::from_utf8(sink.out).unwrap()
    }

    #[test]
    fn separators_inside_values_are_escaped() {
        let nasty = Value::str("a\tb\\c\nd\0");
        let row: &[Value] = &[Value::Int(-1), nasty.clone(), Value::Null];
        assert_eq!(
            written(&FileFormat::default(), &[row]),
            "-1\ta\\\tb\\\\c\\\nd\\0\t\\N\n"
        );
        let csv = FileFormat {
            fields_terminated: b",".into(),
            enclosed: b"\"".into(),
            optionally: true,
            ..FileFormat::default()
        };
        let row: &[Value] = &[Value::Int(-1), Value::str("x\"y,z")];
        assert_eq!(
            written(&csv, &[row, row]),
            "-1,\"x\\\"y,z\"\n-1,\"x\\\"y,z\"\n"
        );
        let bare = FileFormat {
            escaped: Vec::new(),
            optionally: false,
            ..csv
        };
        let row: &[Value] = &[Value::Int(5), Value::str("x\"y"), Value::Null];
        assert_eq!(written(&bare, &[row]), "\"5\",\"x\"y\",NULL\n");
    }

    #[test]
    fn half_of_a_code_is_not_escaped() {
        let ty = SqlType::varchar(4, Collation::UTF8MB4_0900_AI_CI);
        let columns = [ColumnMeta::computed("c", ty.clone())];
        let dialect = Dialect::new(&FileFormat::default(), SqlMode::default()).unwrap();
        let mut sink = TextSink::new(dialect, Some(Charset::Gbk), &columns);
        sink.begin_row();
        sink.value(Value::str("縗\\").as_ref(), &ty);
        sink.end_row();
        assert_eq!(sink.out, b"\xBF\\\\\\\n");
    }

    #[test]
    fn fixed_widths() {
        let fixed = FileFormat {
            fields_terminated: Vec::new(),
            ..FileFormat::default()
        };
        let row: &[Value] = &[Value::Int(7), Value::str("ab"), Value::Null];
        assert_eq!(written(&fixed, &[row]), "7          ab      \n");
    }
}
