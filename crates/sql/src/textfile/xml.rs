//! Rows of an XML file, as LOAD XML takes them.
//!
//! Neighbours: `dml::insert::load_rows` asks for row after row and looks values up by name; `input` has the bytes.
//!
//! It is no parser of XML, and is not meant to be: what `mariadb --xml` and `mysqldump --xml` write, and files like
//! these, become the rows that MySQL makes of them. Three forms are values of a row:
//! ```text
//! <row a="1" b="2"/>      <row><a>1</a><b>2</b></row>      <row><field name="a">1</field></row>
//! ```
//! Elements around a row have values for all rows in them. The file is gone over once, byte by byte, by what comes
//! next: `<` opens an element (or is a comment), blanks an attribute, `=` its value, `>` the text of the element,
//! `/` closes one.
//!
//! **Invariants**
//! - A value belongs to the level of its element, and goes when another element of that level or above begins.
//! - Names and values of all open levels together are no longer than the limit, and neither is what is being read. What
//!   both take is reserved of the server's memory, or refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_engine::MemoryBudget;
use esker_types::collation::Charset;
use esker_types::{SqlResult, errors};

use super::FileSource;
use super::input::Input;

/// The element whose attribute `name` is the name of the value; as in MySQL, more may follow in both words.
const FIELD: &[u8] = b"field";
const NAME: &[u8] = b"name";
const CDATA: &[u8] = b"![CDATA[";
/// What a value takes beside its bytes.
const VALUE_BYTES: usize = size_of::<Value>();

/// A value that rows have.
struct Value {
    /// Of two of one name the later one counts.
    number: u64,
    name: Vec<u8>,
    text: Vec<u8>,
}

impl Value {
    fn bytes(&self) -> usize {
        VALUE_BYTES + self.name.len() + self.text.len()
    }
}

/// Reads rows.
pub(crate) struct XmlRows<'a> {
    input: Input<'a>,
    charset: Charset,
    /// The name of a row's element.
    row: &'a [u8],
    limit: usize,
    /// Of the open elements and the row that was read, by level.
    values: BTreeMap<u64, Vec<Value>>,
    /// How many there have been.
    count: u64,
    /// Bytes of these.
    kept: usize,
    level: u64,
    /// In the attributes of an element.
    in_tag: bool,
    tag: Vec<u8>,
    attribute: Vec<u8>,
    /// The quote around the name of a `field`.
    quote: Option<u8>,
}

/// Space of any kind.
fn blank(byte: u8) -> u8 {
    match byte {
        b'\t' | b'\r' | b'\n' => b' ',
        byte => byte,
    }
}

/// The character that an entity stands for.
fn entity(name: &[u8]) -> Option<u8> {
    match name {
        b"lt" => Some(b'<'),
        b"gt" => Some(b'>'),
        b"amp" => Some(b'&'),
        b"quot" => Some(b'"'),
        b"apos" => Some(b'\''),
        _ => None,
    }
}

impl<'a> XmlRows<'a> {
    /// Reads rows whose element is `row` from `source`, which is in `charset`; a row has at most `limit` bytes.
    ///
    /// # Errors
    /// There is no memory left.
    pub(crate) fn new(
        row: &'a [u8],
        charset: Charset,
        source: &'a mut dyn FileSource,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
        limit: usize,
        memory: &Arc<MemoryBudget>,
    ) -> SqlResult<Self> {
        Ok(Self {
            input: Input::new(source, check_killed, memory)?,
            charset,
            row,
            limit,
            values: BTreeMap::new(),
            count: 0,
            kept: 0,
            level: 0,
            in_tag: false,
            tag: Vec::new(),
            attribute: Vec::new(),
            quote: None,
        })
    }

    /// The value of this name in the row that was read last.
    pub(crate) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let named = self.values.values().flatten();
        let named = named.filter(|value| value.name == name);
        named.max_by_key(|value| value.number).map(|v| &*v.text)
    }

    /// Reads up to the end of the next row; false if the file has no more.
    ///
    /// # Errors
    /// Those of the source; values above the limit.
    pub(crate) fn next_row(&mut self) -> SqlResult<bool> {
        // Levels and their values stay; what was half read of the last row does not.
        self.tag.clear();
        self.attribute.clear();
        self.in_tag = false;
        self.quote = None;
        let mut next = self.next()?;
        while let Some(byte) = next {
            next = match byte {
                b'<' => self.open()?,
                b' ' => self.attribute_name()?,
                b'=' => self.attribute_value()?,
                b'>' => self.text()?,
                b'/' => {
                    let after = self.close()?;
                    if self.tag == self.row && !self.row.is_empty() {
                        return Ok(true);
                    }
                    match after {
                        Some(_) => self.next()?,
                        None => None,
                    }
                }
                _ => self.next()?,
            };
        }
        Ok(false)
    }

    fn next(&mut self) -> SqlResult<Option<u8>> {
        self.input.field_bytes = self.kept + self.tag.capacity() + self.attribute.capacity();
        Ok(self.input.next()?.map(blank))
    }

    /// Behind `<`: a comment, or the name of an element.
    fn open(&mut self) -> SqlResult<Option<u8>> {
        if self.input.eat(b"!--")? {
            return self.skip_comment();
        }
        self.tag.clear();
        let next = self.next()?;
        self.name(next)
    }

    /// The name of an element, which begins with `next`.
    fn name(&mut self, mut next: Option<u8>) -> SqlResult<Option<u8>> {
        while let Some(byte) = next.filter(|byte| !b"> /".contains(byte)) {
            // The name of a field ends with the quote around it.
            if self.quote != Some(byte) {
                push(&mut self.tag, byte, self.limit)?;
            }
            next = self.next()?;
        }
        if matches!(next, Some(b' ' | b'>')) {
            self.level += 1;
            self.clear_from(self.level + 1);
        }
        self.in_tag = next == Some(b' ');
        Ok(next)
    }

    fn skip_comment(&mut self) -> SqlResult<Option<u8>> {
        while !self.input.eat(b"-->")? {
            if self.input.next()?.is_none() {
                return Ok(None);
            }
        }
        self.next()
    }

    /// Between the attributes of an element: the name of the next one.
    fn attribute_name(&mut self) -> SqlResult<Option<u8>> {
        let mut next = Some(b' ');
        while next == Some(b' ') {
            next = self.next()?;
        }
        if !self.in_tag {
            return Ok(next);
        }
        while let Some(byte) = next.filter(|byte| !b"=/>".contains(byte)) {
            push(&mut self.attribute, byte, self.limit)?;
            next = self.next()?;
        }
        Ok(next)
    }

    /// Behind `=`.
    fn attribute_value(&mut self) -> SqlResult<Option<u8>> {
        if self.tag.starts_with(FIELD) && self.attribute.starts_with(NAME) {
            // What follows is the name of the value, as if it were that of the element.
            self.quote = self.next()?;
            self.tag.clear();
            self.attribute.clear();
            self.level = self.level.saturating_sub(1);
            let next = self.next()?;
            return self.name(next);
        }
        let end = match self.input.peek()? {
            None => return Ok(None),
            Some(quote @ (b'"' | b'\'')) => {
                self.input.pos += 1;
                quote
            }
            Some(_) => b' ',
        };
        let mut text = Vec::new();
        let next = self.read_value(end, &mut text)?;
        let name = std::mem::take(&mut self.attribute);
        self.keep(self.level + 1, name, text)?;
        match next {
            Some(b' ') | None => Ok(next),
            Some(_) => self.next(),
        }
    }

    /// Behind `>`: the text of the element.
    fn text(&mut self) -> SqlResult<Option<u8>> {
        self.in_tag = false;
        while self.input.peek()?.map(blank) == Some(b' ') {
            self.input.pos += 1;
        }
        let mut text = Vec::new();
        let mut next = self.read_value(b'<', &mut text)?;
        while next.is_some() && self.input.eat(CDATA)? {
            self.read_cdata(&mut text)?;
            next = self.read_value(b'<', &mut text)?;
        }
        if next.is_some() {
            let name = std::mem::take(&mut self.tag);
            self.keep(self.level, name, text)?;
        }
        self.attribute.clear();
        Ok(next)
    }

    /// Up to `end`, which is returned; None at the end of the file.
    fn read_value(&mut self, end: u8, text: &mut Vec<u8>) -> SqlResult<Option<u8>> {
        loop {
            self.input.field_bytes = self.kept + text.capacity();
            let Some(byte) = self.input.peek()? else {
                return Ok(None);
            };
            if blank(byte) == end {
                self.input.pos += 1;
                return Ok(Some(end));
            }
            if byte == b'&' {
                self.input.pos += 1;
                self.read_entity(text)?;
                continue;
            }
            let len = self.input.code_len(self.charset)?;
            let code = &self.input.look(len)?[..len];
            text.extend_from_slice(code);
            self.input.pos += len;
            self.check_limit(text.len())?;
        }
    }

    /// Behind `&`: one that is unknown stays as it is.
    fn read_entity(&mut self, text: &mut Vec<u8>) -> SqlResult<()> {
        let from = text.len();
        text.push(b'&');
        while let Some(byte) = self.next()? {
            push(text, byte, self.limit)?;
            if byte == b';' {
                let known = entity(&text[from + 1..text.len() - 1]);
                if let Some(known) = known {
                    text.truncate(from);
                    text.push(known);
                }
                break;
            }
        }
        Ok(())
    }

    fn read_cdata(&mut self, text: &mut Vec<u8>) -> SqlResult<()> {
        while !self.input.eat(b"]]>")? {
            self.input.field_bytes = self.kept + text.capacity();
            let Some(byte) = self.input.next()? else {
                return Ok(());
            };
            push(text, byte, self.limit)?;
        }
        Ok(())
    }

    /// Behind `/`: the name of the element that ends is the tag then.
    fn close(&mut self) -> SqlResult<Option<u8>> {
        let mut next = self.next()?;
        // `<a/>` has opened no level.
        if next != Some(b'>') || self.in_tag {
            self.level = self.level.saturating_sub(1);
            self.in_tag = false;
        }
        if next != Some(b'>') {
            self.tag.clear();
        }
        while let Some(byte) = next.filter(|byte| *byte != b'>') {
            push(&mut self.tag, byte, self.limit)?;
            next = self.next()?;
        }
        Ok(next)
    }

    /// Values of this level and those below it go.
    fn clear_from(&mut self, level: u64) {
        let gone = self.values.split_off(&level);
        let bytes: usize = gone.values().flatten().map(Value::bytes).sum();
        self.kept -= bytes;
    }

    /// Keeps a value; an empty one is none.
    fn keep(&mut self, level: u64, name: Vec<u8>, text: Vec<u8>) -> SqlResult<()> {
        if name.is_empty() || text.is_empty() {
            return Ok(());
        }
        self.count += 1;
        let value = Value {
            number: self.count,
            name,
            text,
        };
        self.kept += value.bytes();
        self.check_limit(self.kept)?;
        self.values.entry(level).or_default().push(value);
        self.input.field_bytes = self.kept;
        self.input.reserve()
    }

    fn check_limit(&self, bytes: usize) -> SqlResult<()> {
        match bytes > self.limit {
            true => Err(errors::packet_too_large()),
            false => Ok(()),
        }
    }
}

fn push(to: &mut Vec<u8>, byte: u8, limit: usize) -> SqlResult<()> {
    if to.len() >= limit {
        return Err(errors::packet_too_large());
    }
    to.push(byte);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::textfile::input::testing::Pieces;

    /// Values `a` and `b` of each row.
    fn rows(file: &str, row: &str, limit: usize, size: usize) -> SqlResult<Vec<String>> {
        let mut source = Pieces::new(file.as_bytes(), size);
        let memory = MemoryBudget::new(1 << 20);
        let go_on = || Ok(());
        let charset = Charset::default();
        let mut reader =
            XmlRows::new(row.as_bytes(), charset, &mut source, &go_on, limit, &memory)?;
        let mut rows = Vec::new();
        while reader.next_row()? {
            let value = |name: &str| {
                let value = reader.value(name.as_bytes());
                value.map_or("-".into(), |v| String::from_utf8_lossy(v).into_owned())
            };
            rows.push(format!("{}|{}", value("a"), value("b")));
        }
        Ok(rows)
    }

    fn assert_rows(file: &str, expected: &[&str]) {
        for size in [1, 2, 3, 1000] {
            let found = rows(file, "row", 1 << 16, size).expect("rows");
            assert_eq!(found, expected, "{file} in pieces of {size}");
        }
    }

    #[test]
    fn attributes_elements_and_fields_are_values() {
        assert_rows(r#"<t><row a="1" b='2'/></t>"#, &["1|2"]);
        assert_rows("<row><a>1</a><b>2</b></row>", &["1|2"]);
        assert_rows(
            r#"<row> <field name="a">1</field> <field name="b" xsi:nil="true" /> </row>"#,
            &["1|-"],
        );
        // As in MySQL, an element without a blank or an end of its own begins nothing.
        assert_rows(r#"<row a=1 b=2 /><row/>"#, &["1|2", "1|2"]);
    }

    #[test]
    fn what_is_half_read_of_a_row_is_no_part_of_the_next() {
        assert_rows(
            r#"<row a="1" b="2" checked/><row a="3" b="4"/>"#,
            &["1|2", "3|4"],
        );
        assert_rows(r#"<row a = "5"/><row a="1" b="2"/>"#, &["-|-", "1|2"]);
        assert_rows(r#"<row a="1"></row>x/><row b="2"/>"#, &["1|-", "-|2"]);
        let file = r#"<row><field name=a>1</field></row><row><fieldx names="a">2</fieldx></row>"#;
        assert_rows(file, &["-|-", "2|-"]);
    }

    #[test]
    fn elements_around_a_row_have_values_for_it() {
        let file = r#"<x b="o"><row a="1"/><row a="2" b="i"/></x><row a="3"/>"#;
        assert_rows(file, &["1|o", "2|i", "3|-"]);
        assert_rows("<row><a>1</a><x><a>2</a></x></row>", &["2|-"]);
    }

    #[test]
    fn text_keeps_what_it_means() {
        let file = "<row><a>  x &lt;&amp;&#65;;&quot; </a><b><![CDATA[<&lt;]]> y</b></row>";
        assert_rows(file, &["x <&&#65;;\" |<&lt; y"]);
        assert_rows(
            "<!-- <row a='0'/> --><row><a>\u{e4}\n</a></row>",
            &["\u{e4}\n|-"],
        );
    }

    #[test]
    fn what_ends_early_has_no_row() {
        for file in [
            "",
            "<row a='1'",
            "<row><a>1",
            "<!-- ",
            "<row a='1&lt",
            "<row><a><![CDATA[x",
        ] {
            assert_rows(file, &[]);
        }
        assert_eq!(rows("<row/></>", "", 1000, 9).expect("rows"), [""; 0]);
    }

    #[test]
    fn values_are_no_longer_than_the_limit() {
        let long = "x".repeat(300);
        for file in [
            format!("<row><a>{long}</a></row>"),
            format!("<row a='{long}'/>"),
            format!("<{long}/>"),
            format!("<row {long}='1'/>"),
            format!("<row><a>&{long};</a></row>"),
            format!("<row><a><![CDATA[{long}]]></a></row>"),
            "<a>x".repeat(300),
        ] {
            let refused = rows(&file, "row", 200, 7).expect_err("too long");
            assert_eq!(refused.code, 1153, "{file}");
        }
    }
}
