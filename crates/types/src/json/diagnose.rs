//! What is wrong with a text that is no JSON document: the messages and positions that MySQL gives.
//!
//! Neighbours: `text` calls it when `serde_json` has refused a text; whether a text is a document is decided there.
//! **Invariant**: containers are followed [`MAX_DEPTH`] deep, so the recursion ends.

use super::MAX_DEPTH;
use super::text::Fault;

const EMPTY: &str = "The document is empty.";
const NOT_SINGULAR: &str = "The document root must not be followed by other values.";
const VALUE: &str = "Invalid value.";
const NAME: &str = "Missing a name for object member.";
const COLON: &str = "Missing a colon after a name of object member.";
const COMMA_OR_BRACE: &str = "Missing a comma or '}' after an object member.";
const COMMA_OR_BRACKET: &str = "Missing a comma or ']' after an array element.";
const HEX: &str = "Incorrect hex digit after \\u escape in string.";
const SURROGATE: &str = "The surrogate pair in string is invalid.";
const ESCAPE: &str = "Invalid escape character in string.";
const QUOTATION: &str = "Missing a closing quotation mark in string.";
const ENCODING: &str = "Invalid encoding in string.";
const TOO_BIG: &str = "Number too big to be stored in double.";
const FRACTION: &str = "Miss fraction part in number.";
const EXPONENT: &str = "Miss exponent in number.";

/// The first fault of a text.
pub(super) fn diagnose(text: &[u8]) -> Fault {
    let mut scan = Scan { text, at: 0 };
    match scan.document() {
        Err(fault) => fault,
        // Refused for a reason that this scan does not know.
        Ok(()) => Fault::Syntax(VALUE, scan.at),
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

type Found = Result<(), Fault>;

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault::Syntax(what, self.at))
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn document(&mut self) -> Found {
        self.spaces();
        if self.peek().is_none() {
            return self.fault(EMPTY);
        }
        self.value(0)?;
        self.spaces();
        if self.peek().is_some() {
            return self.fault(NOT_SINGULAR);
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Found {
        match self.peek() {
            Some(b'n') => self.word(b"null"),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'"') => self.string(),
            Some(b'{' | b'[') if depth == MAX_DEPTH => Err(Fault::TooDeep),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Found {
        self.at += 1;
        for byte in &word[1..] {
            if !self.take(*byte) {
                return self.fault(VALUE);
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Found {
        self.at += 1;
        self.spaces();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fault(NAME);
            }
            self.string()?;
            self.spaces();
            if !self.take(b':') {
                return self.fault(COLON);
            }
            self.spaces();
            self.value(depth)?;
            self.spaces();
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.fault(COMMA_OR_BRACE);
            }
            self.spaces();
        }
    }

    fn array(&mut self, depth: usize) -> Found {
        self.at += 1;
        self.spaces();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.spaces();
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.fault(COMMA_OR_BRACKET);
            }
            self.spaces();
        }
    }

    fn string(&mut self) -> Found {
        self.at += 1;
        loop {
            let start = self.at;
            match self.peek() {
                None => return self.fault(QUOTATION),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(start)?,
                Some(0) => return self.fault(QUOTATION),
                Some(..0x20) => return self.fault(ENCODING),
                Some(..0x80) => self.at += 1,
                Some(_) => match self.text[self.at..].utf8_chunks().next() {
                    Some(chunk) if !chunk.valid().is_empty() => {
                        self.at += chunk.valid().chars().next().map_or(1, char::len_utf8)
                    }
                    _ => return self.fault(ENCODING),
                },
            }
        }
    }

    fn escape(&mut self, start: usize) -> Found {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                let Some(first) = self.hex() else {
                    return Err(Fault::Syntax(HEX, start));
                };
                if !(0xd800..0xe000).contains(&first) {
                    return Ok(());
                }
                if first >= 0xdc00 || !(self.take(b'\\') && self.take(b'u')) {
                    return Err(Fault::Syntax(SURROGATE, start));
                }
                match self.hex() {
                    None => Err(Fault::Syntax(HEX, start)),
                    Some(second) if (0xdc00..0xe000).contains(&second) => Ok(()),
                    Some(_) => Err(Fault::Syntax(SURROGATE, start)),
                }
            }
            _ => Err(Fault::Syntax(ESCAPE, start)),
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let text = std::str::from_utf8(digits).ok()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(text, 16).ok()
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Found {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && !self.digits() {
            return self.fault(VALUE);
        }
        if self.take(b'.') && !self.digits() {
            return self.fault(FRACTION);
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            if !self.digits() {
                return self.fault(EXPONENT);
            }
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("");
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(()),
            _ => Err(Fault::Syntax(TOO_BIG, start)),
        }
    }
}
