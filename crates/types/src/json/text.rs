//! JSON text to a tree, by `serde_json`.
//!
//! Neighbours: `diagnose` says what is wrong with a text that is refused, in MySQL's words.
//! **Invariants**: of members with the same key the last one stays; a number is a signed integer, else an unsigned
//! one, else a double; containers nest [`MAX_DEPTH`] deep at most, which also bounds the recursion.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::diagnose::diagnose;
use super::dom::{Json, object};
use super::{MAX_DEPTH, too_deep};
use crate::ctx::{SessionInfo, Work};
use crate::error::SqlError;

/// Why a text is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// What is wrong, and at which byte.
    Syntax(&'static str, usize),
    /// Too many levels.
    TooDeep,
    /// The statement may not go on.
    Stopped(SqlError),
}

impl Fault {
    /// 3141, or 3157: the text is an argument of a function.
    pub fn in_argument(self, argument: usize, function: &str) -> SqlError {
        self.error(3141, |what, at| {
            format!("Invalid JSON text in argument {argument} to function {function}: \"{what}\" at position {at}.")
        })
    }

    /// 3140, or 3157: the text is stored in a column.
    pub fn in_column(self, column: &str) -> SqlError {
        self.error(3140, |what, at| {
            format!(
                "Invalid JSON text: \"{what}\" at position {at} in value for column '{column}'."
            )
        })
    }

    /// 3980, or 3157: the text is the attribute of something.
    pub fn in_attribute(self, text: &[u8]) -> SqlError {
        match self {
            Self::Syntax(what, at) => {
                let rest = String::from_utf8_lossy(text.get(at..).unwrap_or_default());
                let text =
                    format!("Invalid json attribute, error: \"{what}\" at pos {at}: '{rest}'");
                SqlError::new(3980, "HY000", text)
            }
            Self::TooDeep => too_deep(),
            Self::Stopped(error) => error,
        }
    }

    fn error(self, code: u16, text: impl Fn(&str, usize) -> String) -> SqlError {
        match self {
            Self::Syntax(what, at) => SqlError::new(code, "22032", text(what, at)),
            Self::TooDeep => too_deep(),
            Self::Stopped(error) => error,
        }
    }
}

/// Reads a document.
///
/// # Errors
/// The text is none, or nests too deep; the statement may not go on.
pub fn parse(text: &[u8], session: &dyn SessionInfo) -> Result<Json, Fault> {
    let fault = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let seed = Level {
        depth: 0,
        fault: &fault,
        work: &RefCell::new(Work::new(session)),
    };
    match seed.deserialize(&mut reader).and_then(|doc| {
        reader.end()?;
        Ok(doc)
    }) {
        Ok(doc) => Ok(doc),
        Err(_) => Err(fault.take().unwrap_or_else(|| diagnose(text))),
    }
}

/// What a value counts for, bytes: about what its node in the tree takes.
const EACH: usize = 32;

/// Reads a value this many containers deep.
#[derive(Clone, Copy)]
struct Level<'a> {
    depth: usize,
    /// Why reading ended, where it is not the text's syntax.
    fault: &'a RefCell<Option<Fault>>,
    work: &'a RefCell<Work<'a>>,
}

impl Level<'_> {
    fn end<E: Error>(self, fault: Fault) -> E {
        self.fault.replace(Some(fault));
        E::custom("ended")
    }

    /// A value is read.
    fn count<E: Error>(self) -> Result<(), E> {
        let asked = self.work.borrow_mut().done(EACH);
        asked.map_err(|e| self.end(Fault::Stopped(e)))
    }

    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.end(Fault::TooDeep));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Json, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Json, E> {
        Ok(Json::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Json, E> {
        Ok(Json::Int(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Json, E> {
        // JSON_TYPE tells the difference: in a text what needs more than 32 bits is unsigned.
        Ok(u32::try_from(v).map_or(Json::UInt(v), |v| Json::Int(v.into())))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Json, E> {
        Ok(Json::Double(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Json, E> {
        Ok(Json::string(v))
    }

    fn visit_string<E>(self, v: String) -> Result<Json, E> {
        Ok(Json::String(v.into_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let level = self.deeper()?;
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(level)? {
            self.count()?;
            out.push(item);
        }
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let level = self.deeper()?;
        let mut out = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            self.count()?;
            out.push((key.into_bytes(), members.next_value_seed(level)?));
        }
        Ok(object(out))
    }
}
