//! A JSON document as MySQL indents it.
//!
//! Neighbours: `json` and `operator` make documents.
//! **Invariant**: members are written in the order given.

use std::fmt::Write as _;

/// A value of the document.
#[derive(Debug, Clone)]
pub(super) enum Json {
    Text(String),
    Number(u64),
    Float(f64),
    Bool(bool),
    List(Vec<Json>),
    Object(Members),
}

/// Members of an object being made.
pub(super) type Members = Vec<(&'static str, Json)>;

/// A text.
pub(super) fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

/// The document's text.
pub(super) fn print(value: &Json) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Json, depth: usize, out: &mut String) {
    let indent = |depth: usize| "  ".repeat(depth);
    match value {
        Json::Text(text) => quote(text, out),
        // Writing to a String cannot fail.
        Json::Number(n) => drop(write!(out, "{n}")),
        Json::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => drop(write!(out, "{n:.1}")),
        Json::Float(n) => drop(write!(out, "{n}")),
        Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Json::List(items) => {
            out.push_str("[\n");
            for (nth, item) in items.iter().enumerate() {
                out.push_str(&indent(depth + 1));
                write(item, depth + 1, out);
                out.push_str(if nth + 1 < items.len() { ",\n" } else { "\n" });
            }
            out.push_str(&indent(depth));
            out.push(']');
        }
        Json::Object(members) => {
            out.push_str("{\n");
            for (nth, (name, member)) in members.iter().enumerate() {
                out.push_str(&indent(depth + 1));
                quote(name, out);
                out.push_str(": ");
                write(member, depth + 1, out);
                out.push_str(if nth + 1 < members.len() { ",\n" } else { "\n" });
            }
            out.push_str(&indent(depth));
            out.push('}');
        }
    }
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
