//! Results for people and for programs.
//!
//! Neighbours: [`super`] prints with it what `target` answered.
//! **Invariants**: a table's frame holds whatever a cell contains: widths are columns of a terminal, control characters
//! are shown as escapes; `csv` follows RFC 4180 (NULL is an empty field, an empty string is quoted), `json` is one
//! array of objects a result. Programs lose nothing: `tabs` and `csv` have the bytes as they came, `json` has what is
//! no UTF-8 in base64.

use esker_server::client::QueryResult;
use esker_types::func::{WITHOUT_BREAKS, encode_base64};
use unicode_width::UnicodeWidthStr as _;

use crate::show::{hex, json_text};

/// How JSON of MySQL begins a string that has bytes in base64; the type's number and a colon follow.
const BASE64: &str = "base64:type";

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// With borders.
    Table,
    /// One line a column.
    Vertical,
    /// Separated by tabs.
    Tabs,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
}

/// How and what is printed of a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) format: Format,
    /// Names of columns above the rows.
    pub(super) header: bool,
    /// A line on what happened, for people.
    pub(super) summary: bool,
}

type Cells = [Option<Vec<u8>>];

/// Prints one result; `time` is the text of how long it took.
pub(super) fn result(result: &QueryResult, style: Style, time: &str, out: &mut Vec<u8>) {
    match result {
        QueryResult::Done(rows, warnings, info) => {
            if style.summary {
                let mut text = format!("Query OK, {} affected", plural(*rows, "row"));
                summary(*warnings, time, &mut text);
                if !info.is_empty() {
                    text.push_str(&format!("{info}\n"));
                }
                out.extend_from_slice(text.as_bytes());
            }
        }
        QueryResult::Rows {
            columns,
            rows,
            warnings,
        } => {
            let mut text = String::new();
            match style.format {
                Format::Table => table(columns, rows, style.header, &mut text),
                Format::Vertical => vertical(columns, rows, &mut text),
                Format::Tabs => tabs(columns, rows, style.header, out),
                Format::Csv => csv(columns, rows, style.header, out),
                Format::Json => json(columns, rows, &mut text),
            }
            if style.summary {
                match rows.len() {
                    0 => text.push_str("Empty set"),
                    n => text.push_str(&format!("{} in set", plural(n as u64, "row"))),
                }
                summary(*warnings, time, &mut text);
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn plural(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn summary(warnings: u16, time: &str, out: &mut String) {
    if warnings > 0 {
        out.push_str(&format!(", {}", plural(warnings.into(), "warning")));
    }
    out.push_str(time);
    out.push('\n');
}

/// Are values of this `MYSQL_TYPE_*` numbers?
fn is_number(code: u8) -> bool {
    matches!(code, 0..=5 | 8 | 9 | 13 | 246)
}

/// A cell for people: what is no UTF-8 in hexadecimal.
fn shown(cell: Option<&Vec<u8>>) -> String {
    let Some(bytes) = cell else {
        return "NULL".to_owned();
    };
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("0x{}", hex(bytes).to_uppercase()),
    }
}

/// A cell on one line.
fn flat(cell: Option<&Vec<u8>>) -> String {
    let text = shown(cell);
    if !text.chars().any(char::is_control) {
        return text;
    }
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
        out
    })
}

fn table(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], header: bool, out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|c| flat(c.as_ref())).collect())
        .collect();
    let mut widths: Vec<usize> = columns.iter().map(|c| c.0.width()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let border: String = widths
        .iter()
        .map(|width| format!("+{}", "-".repeat(width + 2)))
        .chain(["+\n".to_owned()])
        .collect();
    out.push_str(&border);
    if header {
        let names: Vec<String> = columns.iter().map(|c| c.0.clone()).collect();
        table_row(&names, &widths, |_| false, out);
        out.push_str(&border);
    }
    for row in &cells {
        table_row(row, &widths, |column| is_number(columns[column].1), out);
    }
    out.push_str(&border);
}

fn table_row(cells: &[String], widths: &[usize], right: impl Fn(usize) -> bool, out: &mut String) {
    for (column, (text, width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width - text.width());
        match right(column) {
            true => out.push_str(&format!("| {pad}{text} ")),
            false => out.push_str(&format!("| {text}{pad} ")),
        }
    }
    out.push_str("|\n");
}

fn vertical(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], out: &mut String) {
    let width = columns.iter().map(|c| c.0.width()).max().unwrap_or(0);
    let stars = "*".repeat(27);
    for (number, row) in rows.iter().enumerate() {
        out.push_str(&format!("{stars} {}. row {stars}\n", number + 1));
        for ((name, _), cell) in columns.iter().zip(row) {
            let pad = " ".repeat(width - name.width());
            out.push_str(&format!("{pad}{name}: {}\n", shown(cell.as_ref())));
        }
    }
}

fn tabs(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], header: bool, out: &mut Vec<u8>) {
    let mut line = |cells: Vec<Vec<u8>>| {
        out.extend(cells.join(&b'\t'));
        out.push(b'\n');
    };
    if header && !rows.is_empty() {
        line(columns.iter().map(|c| c.0.clone().into_bytes()).collect());
    }
    for row in rows {
        line(row.iter().map(|cell| escaped(cell.as_deref())).collect());
    }
}

/// A cell without tabs, line feeds and zeros.
fn escaped(cell: Option<&[u8]>) -> Vec<u8> {
    let bytes = cell.unwrap_or(b"NULL");
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => out.extend(br"\\"),
            b'\t' => out.extend(br"\t"),
            b'\n' => out.extend(br"\n"),
            0 => out.extend(br"\0"),
            byte => out.push(*byte),
        }
    }
    out
}

fn csv(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], header: bool, out: &mut Vec<u8>) {
    let mut line = |fields: Vec<Vec<u8>>| {
        out.extend(fields.join(&b','));
        out.extend(b"\r\n");
    };
    if header {
        line(columns.iter().map(|c| quoted(c.0.as_bytes())).collect());
    }
    for row in rows {
        let field = |cell: &Option<Vec<u8>>| cell.as_deref().map_or_else(Vec::new, quoted);
        line(row.iter().map(field).collect());
    }
}

/// A field of CSV, in quotes where it needs them.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    if !bytes.is_empty() && !bytes.iter().any(|byte| b",\"\n\r".contains(byte)) {
        return bytes.to_vec();
    }
    let mut out = vec![b'"'];
    for byte in bytes {
        out.extend(std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'"')));
    }
    out.push(b'"');
    out
}

fn json(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], out: &mut String) {
    out.push('[');
    for (number, row) in rows.iter().enumerate() {
        out.push_str(if number == 0 { "\n" } else { ",\n" });
        out.push_str(&json_row(columns, row));
    }
    out.push_str("\n]\n");
}

fn json_row(columns: &[(String, u8)], row: &Cells) -> String {
    let fields = columns.iter().zip(row).map(|((name, code), cell)| {
        let value = match cell {
            None => "null".to_owned(),
            // ZEROFILL writes numbers with leading zeros, which JSON does not have.
            Some(digits) if is_number(*code) && !is_padded(digits) => shown(cell.as_ref()),
            Some(bytes) => json_bytes(bytes, *code),
        };
        format!("{}: {value}", json_text(name))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// A string of JSON, which is UTF-8. What looks like base64 is written in base64, too: whoever decodes knows which is
/// which.
fn json_bytes(bytes: &[u8], code: u8) -> String {
    match str::from_utf8(bytes) {
        Ok(text) if !text.starts_with(BASE64) => json_text(text),
        _ => {
            let coded = encode_base64(bytes, WITHOUT_BREAKS);
            let coded = String::from_utf8_lossy(&coded);
            format!("\"{BASE64}{code}:{coded}\"")
        }
    }
}

fn is_padded(digits: &[u8]) -> bool {
    matches!(digits.strip_prefix(b"-").unwrap_or(digits), [b'0', d, ..] if d.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MYSQL_TYPE_LONG` and `MYSQL_TYPE_VAR_STRING`.
    const NUMBER: u8 = 3;
    const TEXT: u8 = 253;

    fn printed(format: Format, cells: &[(&str, u8, Option<&str>)]) -> String {
        let cells = cells.iter().map(|c| (c.0, c.1, c.2.map(str::as_bytes)));
        let cells: Vec<_> = cells.collect();
        String::from_utf8(printed_bytes(format, &cells)).expect("text of text")
    }

    fn printed_bytes(format: Format, cells: &[(&str, u8, Option<&[u8]>)]) -> Vec<u8> {
        let rows = QueryResult::Rows {
            columns: cells.iter().map(|c| (c.0.to_owned(), c.1)).collect(),
            rows: vec![cells.iter().map(|c| c.2.map(<[u8]>::to_vec)).collect()],
            warnings: 0,
        };
        let style = Style {
            format,
            header: true,
            summary: false,
        };
        let mut out = Vec::new();
        result(&rows, style, "", &mut out);
        out
    }

    #[test]
    fn tables_align() {
        let cells = [
            ("a", NUMBER, Some("1")),
            ("long", NUMBER, Some("2")),
            ("b", TEXT, None),
        ];
        let expected = "+---+------+------+\n\
                        | a | long | b    |\n\
                        +---+------+------+\n\
                        | 1 |    2 | NULL |\n\
                        +---+------+------+\n";
        assert_eq!(printed(Format::Table, &cells), expected);
    }

    #[test]
    fn wide_and_control_characters_keep_the_frame() {
        let cells = [("name", TEXT, Some("日本\nx"))];
        let expected = "+---------+\n\
                        | name    |\n\
                        +---------+\n\
                        | 日本\\nx |\n\
                        +---------+\n";
        assert_eq!(printed(Format::Table, &cells), expected);
    }

    #[test]
    fn programs_can_tell_null_from_nothing() {
        let cells = [
            ("n", NUMBER, Some("007")),
            ("m", NUMBER, Some("-1.5")),
            ("t", TEXT, Some("a\"b,c")),
            ("e", TEXT, Some("")),
            ("z", TEXT, None),
        ];
        let csv = "n,m,t,e,z\r\n007,-1.5,\"a\"\"b,c\",\"\",\r\n";
        assert_eq!(printed(Format::Csv, &cells), csv);
        let json =
            "[\n{\"n\": \"007\", \"m\": -1.5, \"t\": \"a\\\"b,c\", \"e\": \"\", \"z\": null}\n]\n";
        assert_eq!(printed(Format::Json, &cells), json);
        assert_eq!(
            printed(Format::Tabs, &cells),
            "n\tm\tt\te\tz\n007\t-1.5\ta\"b,c\t\tNULL\n"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_not_lost() {
        let cells: [(&str, u8, Option<&[u8]>); 2] = [
            ("b", TEXT, Some(b"\x00\xff\xfe'")),
            ("c", TEXT, Some(b"\xff,\"\xfe")),
        ];
        let tabs = b"b\tc\n\\0\xff\xfe'\t\xff,\"\xfe\n";
        assert_eq!(printed_bytes(Format::Tabs, &cells), tabs);
        let csv = b"b,c\r\n\0\xff\xfe',\"\xff,\"\"\xfe\"\r\n";
        assert_eq!(printed_bytes(Format::Csv, &cells), csv);
        let json =
            b"[\n{\"b\": \"base64:type253:AP/+Jw==\", \"c\": \"base64:type253:/ywi/g==\"}\n]\n";
        assert_eq!(printed_bytes(Format::Json, &cells), json);
        let vertical = String::from_utf8(printed_bytes(Format::Vertical, &cells)).expect("text");
        assert!(
            vertical.ends_with("b: 0x00FFFE27\nc: 0xFF2C22FE\n"),
            "{vertical}"
        );
        let table = String::from_utf8(printed_bytes(Format::Table, &cells)).expect("text");
        assert!(table.contains("| 0x00FFFE27 | 0xFF2C22FE |\n"), "{table}");
    }

    #[test]
    fn json_tells_base64_from_text_that_looks_like_it() {
        let cells = [
            ("a", TEXT, Some("base64:type253:AP8=")),
            ("b", TEXT, Some("base64:")),
        ];
        let json =
            "[\n{\"a\": \"base64:type253:YmFzZTY0OnR5cGUyNTM6QVA4PQ==\", \"b\": \"base64:\"}\n]\n";
        assert_eq!(printed(Format::Json, &cells), json);
    }
}
