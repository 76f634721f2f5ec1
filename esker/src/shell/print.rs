//! Results for people and for programs.
//!
//! Neighbours: [`super`] prints with it what `target` answered.
//! **Invariants**: a table's frame holds whatever a cell contains: widths are columns of a terminal, control characters
//! are shown as escapes; `csv` follows RFC 4180 (NULL is an empty field, an empty string is quoted), `json` is one
//! array of objects a result.

use esker_server::client::QueryResult;
use unicode_width::UnicodeWidthStr as _;

use crate::show::json_text;

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
pub(super) fn result(result: &QueryResult, style: Style, time: &str, out: &mut String) {
    match result {
        QueryResult::Done(rows, warnings, info) => {
            if style.summary {
                out.push_str(&format!("Query OK, {} affected", plural(*rows, "row")));
                summary(*warnings, time, out);
                if !info.is_empty() {
                    out.push_str(&format!("{info}\n"));
                }
            }
        }
        QueryResult::Rows {
            columns,
            rows,
            warnings,
        } => {
            match style.format {
                Format::Table => table(columns, rows, style.header, out),
                Format::Vertical => vertical(columns, rows, out),
                Format::Tabs => tabs(columns, rows, style.header, out),
                Format::Csv => csv(columns, rows, style.header, out),
                Format::Json => json(columns, rows, out),
            }
            if style.summary {
                match rows.len() {
                    0 => out.push_str("Empty set"),
                    n => out.push_str(&format!("{} in set", plural(n as u64, "row"))),
                }
                summary(*warnings, time, out);
            }
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

fn lossy(cell: Option<&Vec<u8>>) -> String {
    cell.map_or_else(
        || "NULL".to_owned(),
        |bytes| String::from_utf8_lossy(bytes).into_owned(),
    )
}

/// A cell on one line.
fn flat(cell: Option<&Vec<u8>>) -> String {
    let text = lossy(cell);
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
            out.push_str(&format!("{pad}{name}: {}\n", lossy(cell.as_ref())));
        }
    }
}

fn tabs(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], header: bool, out: &mut String) {
    let mut line = |cells: Vec<String>| {
        out.push_str(&cells.join("\t"));
        out.push('\n');
    };
    if header && !rows.is_empty() {
        line(columns.iter().map(|c| c.0.clone()).collect());
    }
    for row in rows {
        let escape = |cell: &Option<Vec<u8>>| {
            lossy(cell.as_ref())
                .replace('\\', "\\\\")
                .replace('\t', "\\t")
                .replace('\n', "\\n")
                .replace('\0', "\\0")
        };
        line(row.iter().map(escape).collect());
    }
}

fn csv(columns: &[(String, u8)], rows: &[Vec<Option<Vec<u8>>>], header: bool, out: &mut String) {
    let quoted = |text: &str| match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let mut line = |fields: Vec<String>| {
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    };
    if header {
        line(columns.iter().map(|c| quoted(&c.0)).collect());
    }
    for row in rows {
        let field = |cell: &Option<Vec<u8>>| match cell {
            None => String::new(),
            some => quoted(&lossy(some.as_ref())),
        };
        line(row.iter().map(field).collect());
    }
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
            Some(digits) if is_number(*code) && !is_padded(digits) => lossy(cell.as_ref()),
            some => json_text(&lossy(some.as_ref())),
        };
        format!("{}: {value}", json_text(name))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
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
        let rows = QueryResult::Rows {
            columns: cells.iter().map(|c| (c.0.to_owned(), c.1)).collect(),
            rows: vec![
                cells
                    .iter()
                    .map(|c| c.2.map(|t| t.as_bytes().to_vec()))
                    .collect(),
            ],
            warnings: 0,
        };
        let style = Style {
            format,
            header: true,
            summary: false,
        };
        let mut out = String::new();
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
}
