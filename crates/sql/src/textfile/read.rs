//! A text file into fields.
//!
//! Neighbours: `dml::insert::load_rows` asks for field after field, line after line; `input` has the bytes.
//!
//! What a byte means depends on where it stands:
//! ```text
//! escape      everywhere: the next byte is taken as it is, or stands for another one (\n, \t, \N …)
//! quote       first in a field: begins a quoted field; in one: doubled it is itself, before a separator it ends the field
//! separators  outside of quoted fields: end the field or the line
//! half of a code of several bytes: nowhere anything but itself
//! ```
//! **Invariants**
//! - After the end of a line nothing is read before [`FieldReader::next_line`].
//! - A field longer than the limit is an error, so memory is bounded.

use std::sync::Arc;

use esker_engine::MemoryBudget;
use esker_types::collation::Charset;
use esker_types::{SqlResult, errors};

use super::input::Input;
use super::{Dialect, FileSource};

/// Reads fields.
pub(crate) struct FieldReader<'a> {
    input: Input<'a>,
    charset: Charset,
    dialect: &'a Dialect,
    /// Where plain bytes end outside and inside of quotes.
    special: [bool; 256],
    special_quoted: [bool; 256],
    line_end: &'a [u8],
    limit: usize,
    field: Vec<u8>,
    quoted: bool,
    /// An escaped N is in the field.
    escaped_n: bool,
    at_line_start: bool,
    line_ended: bool,
    file_ended: bool,
    cut: bool,
}

impl<'a> FieldReader<'a> {
    /// Reads from `source`, which is in `charset`; a field has at most `limit` bytes.
    ///
    /// # Errors
    /// There is no memory left.
    pub(crate) fn new(
        dialect: &'a Dialect,
        charset: Charset,
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
        limit: usize,
        memory: &Arc<MemoryBudget>,
    ) -> SqlResult<Self> {
        // A line end that is also the field end is none.
        let line_end: &[u8] = match dialect.line_end == dialect.field_end {
            true => &[],
            false => &dialect.line_end,
        };
        let mut special = [false; 256];
        let mut special_quoted = [false; 256];
        let firsts = [dialect.field_end.first(), line_end.first()];
        for byte in firsts.into_iter().flatten().chain(&dialect.escape) {
            special[usize::from(*byte)] = true;
        }
        for byte in dialect.quote.iter().chain(&dialect.escape) {
            special_quoted[usize::from(*byte)] = true;
        }
        if charset.is_of_several_bytes() {
            special[0x80..].fill(true);
            special_quoted[0x80..].fill(true);
        }
        Ok(Self {
            input: Input::new(source, check_killed, memory)?,
            charset,
            dialect,
            special,
            special_quoted,
            line_end,
            limit,
            field: Vec::new(),
            quoted: false,
            escaped_n: false,
            at_line_start: !dialect.line_start.is_empty(),
            line_ended: false,
            file_ended: false,
            cut: false,
        })
    }

    /// Do lines have an end of their own?
    pub(crate) fn has_line_end(&self) -> bool {
        !self.line_end.is_empty()
    }

    /// What was read last.
    pub(crate) fn field(&self) -> &[u8] {
        &self.field
    }

    /// Does the field that was read last stand for NULL?
    pub(crate) fn is_null(&self) -> bool {
        let word = !self.quoted && self.dialect.quote.is_some() && self.field == b"NULL";
        word || (self.escaped_n && self.field.len() == 1)
    }

    /// Was there more in the line that [`Self::next_line`] has left than was read?
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Reads the next field of the line; false if the line (or the file) has no more.
    ///
    /// # Errors
    /// Those of the source; a field above the limit.
    pub(crate) fn read_field(&mut self) -> SqlResult<bool> {
        if !self.begin()? {
            return Ok(false);
        }
        let Some(first) = self.input.peek()? else {
            return Ok(self.end_of_file(false));
        };
        self.quoted = self.dialect.quote == Some(first);
        if self.quoted {
            self.input.pos += 1;
        }
        loop {
            if self.plain_bytes()? {
                continue;
            }
            let Some(byte) = self.input.peek()? else {
                if std::mem::take(&mut self.quoted) {
                    // A quote that nothing closes is a part of the field.
                    self.field.insert(0, first);
                }
                return Ok(self.end_of_file(true));
            };
            if self.escaped(byte)? {
                continue;
            }
            if self.quoted && self.dialect.quote == Some(byte) {
                if self.quote()? {
                    return Ok(true);
                }
            } else if !self.quoted && self.input.eat(self.line_end)? {
                self.line_ended = true;
                return Ok(true);
            } else if !self.quoted && self.input.eat(&self.dialect.field_end)? {
                return Ok(true);
            } else {
                self.push_code()?;
            }
        }
    }

    /// Reads a row of `width` bytes, or up to the end of the line; false at the end of the file.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn read_row(&mut self, width: usize) -> SqlResult<bool> {
        if !self.begin()? {
            return Ok(false);
        }
        self.quoted = false;
        while self.field.len() < width {
            let Some(byte) = self.input.peek()? else {
                let any = !self.field.is_empty();
                return Ok(self.end_of_file(any));
            };
            if self.escaped(byte)? {
                continue;
            }
            if self.input.eat(self.line_end)? {
                self.line_ended = true;
                return Ok(true);
            }
            self.push_next(byte);
        }
        Ok(true)
    }

    /// Goes to the next line; true if there is none.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn next_line(&mut self) -> SqlResult<bool> {
        self.cut = false;
        self.at_line_start = !self.dialect.line_start.is_empty();
        if std::mem::take(&mut self.line_ended) || self.file_ended {
            return Ok(self.file_ended);
        }
        if !self.has_line_end() {
            return Ok(false);
        }
        loop {
            if !self.input.plain(&self.special).is_empty() {
                self.cut = true;
            }
            let Some(byte) = self.input.peek()? else {
                self.file_ended = true;
                return Ok(true);
            };
            if !self.special[usize::from(byte)] {
                continue;
            }
            if self.dialect.escape == Some(byte) {
                self.cut = true;
                self.input.pos += 1;
                if self.input.peek()?.is_none() {
                    return Ok(true);
                }
                self.input.pos += 1;
            } else if self.input.eat(self.line_end)? {
                return Ok(false);
            } else {
                self.cut = true;
                self.input.pos += self.code_len()?;
            }
        }
    }

    /// What comes before a field or row; false if there is none.
    fn begin(&mut self) -> SqlResult<bool> {
        self.field.clear();
        self.escaped_n = false;
        if self.line_ended {
            return Ok(false);
        }
        if std::mem::take(&mut self.at_line_start) {
            return self.find_line_start();
        }
        Ok(true)
    }

    /// Steps behind LINES STARTING BY; false if the file has no more.
    fn find_line_start(&mut self) -> SqlResult<bool> {
        loop {
            if self.input.peek()?.is_none() {
                return Ok(self.end_of_file(false));
            }
            if self.input.eat(&self.dialect.line_start)? {
                return Ok(true);
            }
            self.input.pos += 1;
        }
    }

    /// Takes what means nothing but itself; true if more may be there.
    fn plain_bytes(&mut self) -> SqlResult<bool> {
        let special = match self.quoted {
            true => &self.special_quoted,
            false => &self.special,
        };
        let plain = self.input.plain(special);
        if plain.is_empty() {
            // At a special byte, or at the end of what is at hand.
            self.input.field_bytes = self.field.capacity();
            let next = self.input.peek()?;
            return Ok(next.is_some_and(|byte| !special[usize::from(byte)]));
        }
        self.field.extend_from_slice(plain);
        if self.field.len() > self.limit {
            return Err(errors::packet_too_large());
        }
        Ok(true)
    }

    /// Deals with an escape; false if `byte`, which comes next, is none.
    fn escaped(&mut self, byte: u8) -> SqlResult<bool> {
        if self.dialect.escape != Some(byte) {
            return Ok(false);
        }
        let Some(next) = self.input.look(2)?.get(1).copied() else {
            self.push_next(byte);
            return Ok(true);
        };
        // An escape that is also the quote is itself when doubled, and no escape before anything else.
        if self.dialect.escape == self.dialect.quote && next != byte {
            return Ok(false);
        }
        self.input.pos += 2;
        self.escaped_n |= next == b'N';
        self.field.push(match next {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'0' => 0,
            b'Z' => 26,
            other => other,
        });
        Ok(true)
    }

    /// Deals with the quote that comes next inside a quoted field; true if it ends the field.
    fn quote(&mut self) -> SqlResult<bool> {
        let Some(quote) = self.input.peek()? else {
            return Ok(false);
        };
        match self.input.look(2)?.get(1).copied() {
            Some(next) if next == quote => {
                self.input.pos += 2;
                self.field.push(quote);
                return Ok(false);
            }
            None => {
                self.input.pos += 1;
                self.line_ended = true;
                return Ok(true);
            }
            Some(_) => self.input.pos += 1,
        }
        if self.input.eat(self.line_end)? {
            self.line_ended = true;
            return Ok(true);
        }
        if self.input.eat(&self.dialect.field_end)? {
            return Ok(true);
        }
        self.field.push(quote);
        Ok(false)
    }

    /// Bytes of what comes next and is taken whole, at least one.
    fn code_len(&mut self) -> SqlResult<usize> {
        self.input.code_len(self.charset)
    }

    fn push_code(&mut self) -> SqlResult<()> {
        let len = self.code_len()?;
        let code = &self.input.look(len)?[..len];
        self.field.extend_from_slice(code);
        self.input.pos += len;
        match self.field.len() > self.limit {
            true => Err(errors::packet_too_large()),
            false => Ok(()),
        }
    }

    fn push_next(&mut self, byte: u8) {
        self.input.pos += 1;
        self.field.push(byte);
    }

    /// The file ends here; `any`: with something read.
    fn end_of_file(&mut self, any: bool) -> bool {
        self.line_ended = true;
        self.file_ended = true;
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::textfile::input::testing::Pieces;
    use esker_sql_syntax::ast::FileFormat;
    use esker_types::SqlMode;

    /// The lines with their fields (`None`: NULL), and whether each was cut when `most` fields were read.
    type Lines = Vec<(Vec<Option<String>>, bool)>;

    fn lines(file: &[u8], format: &FileFormat, most: usize, size: usize) -> Lines {
        lines_in(Charset::default(), file, format, most, size)
    }

    fn lines_in(
        charset: Charset,
        file: &[u8],
        format: &FileFormat,
        most: usize,
        size: usize,
    ) -> Lines {
        let dialect = Dialect::new(format, SqlMode::default()).unwrap();
        let mut source = Pieces::new(file, size);
        let mut reader = FieldReader::new(
            &dialect,
            charset,
            &mut source,
            &|| Ok(()),
            1000,
            &MemoryBudget::unlimited(),
        )
        .unwrap();
        let mut out = Lines::new();
        loop {
            let mut fields = Vec::new();
            while fields.len() < most && reader.read_field().unwrap() {
                let text = String::from_utf8(charset.decode_lossy(reader.field()).into_owned());
                let text = text.unwrap();
                fields.push((!reader.is_null()).then_some(text));
            }
            if fields.is_empty() {
                return out;
            }
            let is_last = reader.next_line().unwrap();
            out.push((fields, reader.was_cut()));
            if is_last {
                return out;
            }
        }
    }

    fn format(field_end: &str, quote: &str, escape: &str, start: &str, end: &str) -> FileFormat {
        FileFormat {
            fields_terminated: field_end.into(),
            enclosed: quote.into(),
            optionally: false,
            escaped: escape.into(),
            lines_starting: start.into(),
            lines_terminated: end.into(),
        }
    }

    fn check(file: &str, format: &FileFormat, expected: &[&[&str]]) {
        for size in [1, 2, 3, 1000] {
            let got: Vec<Vec<String>> = lines(file.as_bytes(), format, 3, size)
                .into_iter()
                .map(|(fields, _)| fields)
                .map(|f| {
                    f.into_iter()
                        .map(|f| f.unwrap_or_else(|| "<>".into()))
                        .collect()
                })
                .collect();
            assert_eq!(got, expected, "{file:?} in pieces of {size}");
        }
    }

    #[test]
    fn tabs_and_escapes() {
        let f = FileFormat::default();
        check(
            "a\tb\tc\nd\\te\tf\\\\\t\\N\n",
            &f,
            &[&["a", "b", "c"], &["d\te", "f\\", "<>"]],
        );
        check("a\\\nb\tc", &f, &[&["a\nb", "c"]]);
        check("\n\n", &f, &[&[""], &[""]]);
        check("a\tb\\", &f, &[&["a", "b\\"]]);
        check("NULL\tN\\N\tx\n", &f, &[&["NULL", "NN", "x"]]);
        check("", &f, &[]);
    }

    #[test]
    fn quotes() {
        let f = format(",", "\"", "\\", "", "\r\n");
        check("\"a,b\",c,\"d\"\"e\"\r\n", &f, &[&["a,b", "c", "d\"e"]]);
        check(
            "\"a\"b\",\"x\r\ny\",NULL\r\n",
            &f,
            &[&["a\"b", "x\r\ny", "<>"]],
        );
        check("\"NULL\",\"\\N\",a\rb\r\n", &f, &[&["NULL", "<>", "a\rb"]]);
        check("a\"b,\"c", &f, &[&["a\"b", "\"c"]]);
        check("\"a\"", &f, &[&["a"]]);
        // A quote that is also the escape works by doubling alone.
        let f = format(",", "\"", "\"", "", "\n");
        check("\"a\"\"b\",\"c\\n\",d\n", &f, &[&["a\"b", "c\\n", "d"]]);
    }

    #[test]
    fn long_separators_and_starts() {
        let f = format("||", "", "", "xx", "<>\n");
        check(
            "skip xxa||b|c||d<>\nno\nxxe||f",
            &f,
            &[&["a", "b|c", "d"], &["e", "f"]],
        );
        check("xxxa<>\n", &f, &[&["xa"]]);
        let f = format(",", "", "\\", "", ",");
        check("a,b,c,d,e", &f, &[&["a", "b", "c"], &["d", "e"]]);
    }

    #[test]
    fn lines_with_more_fields_are_cut() {
        let f = FileFormat::default();
        let got = lines(b"a\tb\\\nc\td\ne\n", &f, 1, 2);
        assert_eq!(
            got,
            [
                (vec![Some("a".into())], true),
                (vec![Some("e".into())], false)
            ]
        );
    }

    #[test]
    fn half_of_a_code_is_no_separator() {
        let fields = |charset, file: &[u8], format: &FileFormat| {
            let all = [1, 2, 1000].map(|size| lines_in(charset, file, format, 3, size));
            assert!(all.iter().all(|lines| *lines == all[0]));
            let fields = |line: &(Vec<Option<String>>, bool)| line.0.clone();
            all[0].iter().flat_map(fields).flatten().collect::<Vec<_>>()
        };
        let f = FileFormat::default();
        assert_eq!(
            fields(Charset::Gbk, b"\xBF\\\t\\t\xBF\\n\n", &f),
            ["縗", "\t縗n"]
        );
        assert_eq!(fields(Charset::Sjis, b"\xB1\x95\\\tx\n", &f), ["ｱ表", "x"]);
        assert_eq!(fields(Charset::Gbk, b"a\xBF\tb\n", &f), ["a?", "b"]);
        let bars = format("|", "'", "\\", "", "\n");
        assert_eq!(
            fields(Charset::Big5, b"'\xA5|'|\xA5|x|y\n", &bars),
            ["四", "四x", "y"]
        );
    }

    #[test]
    fn rows_of_fixed_widths() {
        let dialect = Dialect::new(&format("", "", "\\", "", "\n"), SqlMode::default()).unwrap();
        let mut source = Pieces::new(b"abcdef\nab\n\\\nx\\\\y", 2);
        let mut reader = FieldReader::new(
            &dialect,
            Charset::default(),
            &mut source,
            &|| Ok(()),
            1000,
            &MemoryBudget::unlimited(),
        )
        .unwrap();
        let mut rows = Vec::new();
        while reader.read_row(4).unwrap() {
            rows.push((String::from_utf8_lossy(reader.field()).into_owned(), false));
            let is_last = reader.next_line().unwrap();
            rows.last_mut().unwrap().1 = reader.was_cut();
            if is_last {
                break;
            }
        }
        let expected = [("abcd", true), ("ab", false), ("\nx\\y", false)];
        assert_eq!(rows, expected.map(|(r, cut)| (r.to_owned(), cut)));
    }

    #[test]
    fn what_is_held_of_a_file_is_reserved_or_refused() {
        let dialect = Dialect::new(&FileFormat::default(), SqlMode::default()).unwrap();
        let file = vec![b'x'; 1 << 20];
        let budget = MemoryBudget::new(64 << 20);
        let reserved = || budget.used(esker_engine::MemoryUse::Statements);
        let mut source = Pieces::new(&file, 100_000);
        let (limit, utf8) = (usize::MAX, Charset::default());
        let mut reader =
            FieldReader::new(&dialect, utf8, &mut source, &|| Ok(()), limit, &budget).unwrap();
        assert_eq!(reserved(), 0);
        assert!(reader.read_field().unwrap());
        assert!((1 << 20..4 << 20).contains(&reserved()), "{}", reserved());
        drop(reader);
        assert_eq!(reserved(), 0);
        // Half of the memory is for statements and transactions.
        let others = budget.reserve((32 << 20) - (200 << 10)).unwrap();
        let mut source = Pieces::new(&file, 100_000);
        let mut reader =
            FieldReader::new(&dialect, utf8, &mut source, &|| Ok(()), limit, &budget).unwrap();
        assert_eq!(reader.read_field().unwrap_err().code, 1041);
        drop((reader, others));
        assert_eq!(reserved(), 0);
    }

    #[test]
    fn a_field_has_a_limit() {
        let dialect = Dialect::new(&FileFormat::default(), SqlMode::default()).unwrap();
        let file = vec![b'x'; 4000];
        let mut source = Pieces::new(&file, 100);
        let mut reader = FieldReader::new(
            &dialect,
            Charset::default(),
            &mut source,
            &|| Ok(()),
            1000,
            &MemoryBudget::unlimited(),
        )
        .unwrap();
        assert_eq!(reader.read_field().unwrap_err().code, 1153);
    }
}
