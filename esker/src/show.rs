//! How bytes, keys and records of files are shown: to people, and as JSON, one object a line.
//!
//! Neighbours: `check` and `inspect` print with it.

use std::fmt::{Display, Write as _};

/// Bytes of a key that are shown to people.
const SHOWN_KEY_BYTES: usize = 32;

/// Every byte as two digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The beginning of a key.
pub(crate) fn key(bytes: &[u8]) -> String {
    let more = match bytes.len() > SHOWN_KEY_BYTES {
        true => "...",
        false => "",
    };
    let shown = &bytes[..bytes.len().min(SHOWN_KEY_BYTES)];
    format!("0x{}{more}", hex(shown))
}

/// A JSON string.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A JSON object, field after field.
pub(crate) struct Object(String);

impl Object {
    /// An object of this type.
    pub(crate) fn new(kind: &str) -> Self {
        Object(format!("{{\"type\":{}", json_text(kind)))
    }

    /// A number, or true or false.
    pub(crate) fn plain(mut self, name: &str, value: impl Display) -> Self {
        let _ = write!(self.0, ",{}:{value}", json_text(name));
        self
    }

    pub(crate) fn text(self, name: &str, value: impl Display) -> Self {
        self.plain(name, json_text(&value.to_string()))
    }

    /// All bytes in hexadecimal.
    pub(crate) fn hex(self, name: &str, bytes: &[u8]) -> Self {
        self.text(name, hex(bytes))
    }

    pub(crate) fn end(self) -> String {
        self.0 + "}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_keys_are_cut() {
        let line = Object::new("a\"b").plain("n", 7).text("t", "x\n\\");
        let line = line.hex("h", &[0, 255]).plain("is", true).end();
        assert_eq!(
            line,
            r#"{"type":"a\"b","n":7,"t":"x\u000a\\","h":"00ff","is":true}"#
        );
        assert_eq!(key(&[1, 2]), "0x0102");
        assert_eq!(key(&[7; 33]), format!("0x{}...", "07".repeat(32)));
    }
}
