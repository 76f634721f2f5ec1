//! A JSON document as MySQL indents it.
//!
//! Neighbours: `json`, `operator` and `plan::trace` make documents.
//! **Invariant**: members are written in the order given.

use std::fmt::Write as _;

/// A value of the document.
#[derive(Debug, Clone)]
pub(in crate::plan) enum Json {
    Text(String),
    Number(u64),
    Float(f64),
    Bool(bool),
    Null,
    List(Vec<Json>),
    Object(Members),
}

/// Members of an object being made.
pub(in crate::plan) type Members = Vec<(&'static str, Json)>;

/// A text.
pub(in crate::plan) fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

/// The document's text.
pub(in crate::plan) fn print(value: &Json) -> String {
    let mut out = String::new();
    write(value, Some(0), &mut out);
    out
}

/// The same in one line.
pub(in crate::plan) fn print_line(value: &Json) -> String {
    let mut out = String::new();
    write(value, None, &mut out);
    out
}

/// Writes a value that stands so deep; without a depth in one line.
fn write(value: &Json, depth: Option<usize>, out: &mut String) {
    match value {
        Json::Text(text) => quote(text, out),
        // Writing to a String cannot fail.
        Json::Number(n) => drop(write!(out, "{n}")),
        Json::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => drop(write!(out, "{n:.1}")),
        Json::Float(n) => drop(write!(out, "{n}")),
        Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Json::Null => out.push_str("null"),
        Json::List(items) => {
            out.push('[');
            let inner = depth.map(|depth| depth + 1);
            for (nth, item) in items.iter().enumerate() {
                separate(nth, inner, out);
                write(item, inner, out);
            }
            close(depth, ']', out);
        }
        Json::Object(members) => {
            out.push('{');
            let inner = depth.map(|depth| depth + 1);
            for (nth, (name, member)) in members.iter().enumerate() {
                separate(nth, inner, out);
                quote(name, out);
                out.push_str(": ");
                write(member, inner, out);
            }
            close(depth, '}', out);
        }
    }
}

/// What comes before the `nth` member.
fn separate(nth: usize, depth: Option<usize>, out: &mut String) {
    match depth {
        Some(depth) => {
            out.push_str(if nth > 0 { ",\n" } else { "\n" });
            out.push_str(&"  ".repeat(depth));
        }
        None => out.push_str(if nth > 0 { "," } else { "" }),
    }
}

fn close(depth: Option<usize>, mark: char, out: &mut String) {
    if let Some(depth) = depth {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(mark);
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}
