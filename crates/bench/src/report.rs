//! Results as tables: for a terminal, for Markdown and as JSON.
//!
//! Neighbours: `commit`, `logbuf` and `paper` fill them; the command prints them.
//!
//! **Invariants**
//! - Every row has a value for every column; a missing one is [`Value::Nothing`].

use std::fmt::Write;
use std::io;
use std::path::Path;

use esker_vfs::{Fs, OpenMode, OsFs};

use crate::{Error, Result};

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number, and how many decimals of it are worth showing.
    Number(f64, usize),
    /// Not measured.
    Nothing,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Whole(number)
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Self {
        Value::from(if on { "on" } else { "off" })
    }
}

impl Value {
    fn show(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Whole(number) => grouped(&number.to_string()),
            Value::Number(number, decimals) => grouped(&format!("{number:.decimals$}")),
            Value::Nothing => "-".to_owned(),
        }
    }

    fn json(&self) -> String {
        match self {
            Value::Text(text) => quoted(text),
            Value::Whole(number) => number.to_string(),
            Value::Number(number, _) if number.is_finite() => number.to_string(),
            Value::Number(..) | Value::Nothing => "null".to_owned(),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Value::Text(_))
    }
}

/// Puts commas between thousands.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut out = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if place > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A table of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What is shown.
    pub title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table. The names of its columns are all different.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Table {
        for (place, name) in columns.iter().enumerate() {
            assert!(!columns[..place].contains(name), "two columns {name}");
        }
        Table {
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it has one value per column.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(
            row.len(),
            self.columns.len(),
            "a row of table '{}'",
            self.title
        );
        self.rows.push(row);
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn shown(&self) -> Vec<Vec<String>> {
        let head = self.columns.iter().map(|c| (*c).to_owned()).collect();
        let body = self
            .rows
            .iter()
            .map(|row| row.iter().map(Value::show).collect());
        std::iter::once(head).chain(body).collect()
    }

    fn is_left(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_text())
    }

    /// For a terminal. A single row stands upright.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        if let [row] = &self.rows[..] {
            let width = self.columns.iter().map(|c| c.len()).max().unwrap_or(0);
            for (name, value) in self.columns.iter().zip(row) {
                let _ = writeln!(out, "  {name:<width$}  {}", value.show());
            }
            return out;
        }
        let shown = self.shown();
        let width = |column: usize| shown.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in &shown {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let _ = match self.is_left(column) {
                    true => write!(line, "  {cell:<width$}"),
                    false => write!(line, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    /// A Markdown table under its title as a heading.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("### {}\n\n", self.title);
        let mut shown = self.shown().into_iter();
        let mut line = |cells: Vec<String>| {
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        };
        line(shown.next().unwrap_or_default());
        let rules = (0..self.columns.len()).map(|c| match self.is_left(c) {
            true => "---".to_owned(),
            false => "--:".to_owned(),
        });
        line(rules.collect());
        shown.for_each(line);
        out
    }

    /// A JSON array with an object per row.
    pub fn to_json(&self) -> String {
        let object = |row: &Vec<Value>| {
            let fields: Vec<String> = self
                .columns
                .iter()
                .zip(row)
                .map(|(name, value)| format!("{}: {}", quoted(name), value.json()))
                .collect();
            format!("{{{}}}", fields.join(", "))
        };
        let rows: Vec<String> = self.rows.iter().map(object).collect();
        format!("[{}]", rows.join(",\n "))
    }
}

/// A JSON object with the tables under their titles.
pub fn to_json(tables: &[Table]) -> String {
    let fields: Vec<String> = tables
        .iter()
        .map(|table| format!("{}:\n {}", quoted(&table.title), table.to_json()))
        .collect();
    format!("{{{}}}\n", fields.join(",\n"))
}

/// Writes a file; one that was there is replaced as a whole.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let write = || -> io::Result<()> {
        let file = OsFs.open(path, OpenMode::CreateOrOpen)?;
        file.set_len(0)?;
        file.write_all_at(text.as_bytes(), 0)
    };
    write().map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("of \"things\"", &["name", "count", "mean"]);
        table.push(vec!["a".into(), 1_234_567.into(), Value::Number(0.25, 1)]);
        table.push(vec!["bcd".into(), 7.into(), Value::Nothing]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expected = "of \"things\"\n  name      count  mean\n  a     1,234,567   0.2\n  bcd           7     -\n";
        assert_eq!(table().to_text(), expected);
        let mut one = Table::new("one", &["a", "long"]);
        one.push(vec![1.into(), true.into()]);
        assert_eq!(one.to_text(), "one\n  a     1\n  long  on\n");
    }

    #[test]
    fn markdown_has_a_rule_under_the_head() {
        let expected = "### of \"things\"\n\n| name | count | mean |\n| --- | --: | --: |\n\
                        | a | 1,234,567 | 0.2 |\n| bcd | 7 | - |\n";
        assert_eq!(table().to_markdown(), expected);
    }

    #[test]
    fn json_is_quoted_and_exact() {
        let expected = "{\"of \\\"things\\\"\":\n [{\"name\": \"a\", \"count\": 1234567, \"mean\": 0.25},\n \
                        {\"name\": \"bcd\", \"count\": 7, \"mean\": null}]}\n";
        assert_eq!(to_json(&[table()]), expected);
        assert_eq!(quoted("a\n\\"), "\"a\\u000a\\\\\"");
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, shown) in [("1", "1"), ("123", "123"), ("-123456.75", "-123,456.75")] {
            assert_eq!(grouped(number), shown);
        }
    }
}
