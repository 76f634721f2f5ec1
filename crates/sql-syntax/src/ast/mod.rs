//! The syntax tree: what a statement says, before any name is looked up.
//!
//! Neighbours: the parser builds it, `bind` and `ddl`/`dml`/`session` read it. Nothing here knows a catalog, a type's
//! storage or a session. Parts: `statement` · `query`, `hint`, `expr` · `dml`, `ddl`, `partition`, `tablespace`,
//! `program`, `trigger`, `event`, `handler`, `account`, `admin` · `walk` (what expressions consist of). **Invariants**:
//! names keep the text as written (case included); string literals are bytes with escapes already resolved; the height
//! of any expression is bounded by [`MAX_EXPR_HEIGHT`](crate::MAX_EXPR_HEIGHT), so walking a tree recursively cannot
//! exhaust a stack; AND, OR, UNION and join lists that people generate by the thousand are flat vectors or bounded.

mod account;
mod admin;
mod ddl;
mod dml;
mod event;
mod expr;
mod handler;
mod hint;
mod partition;
mod program;
mod query;
mod statement;
mod tablespace;
mod trigger;
mod walk;

pub use account::*;
pub use admin::*;
pub use ddl::*;
pub use dml::*;
pub use event::*;
pub use expr::*;
pub use handler::*;
pub use hint::*;
pub use partition::*;
pub use program::*;
pub use query::*;
pub use statement::*;
pub use tablespace::*;
pub use trigger::*;
pub use walk::PartMut;

use std::fmt;

/// A byte range of the source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A name as written, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    /// Text, quotes removed, case kept.
    pub text: Box<str>,
    /// Written in backticks (or double quotes under ANSI_QUOTES).
    pub quoted: bool,
}

impl Ident {
    /// An unquoted name.
    pub fn new(text: impl std::convert::Into<Box<str>>) -> Self {
        Self {
            text: text.into(),
            quoted: false,
        }
    }

    /// Case-insensitive comparison with an ASCII word.
    pub fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `schema.name` or `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The part before the dot.
    pub schema: Option<Ident>,
    /// The last part.
    pub name: Ident,
}

impl ObjectName {
    /// A name without schema.
    pub fn bare(name: impl std::convert::Into<Box<str>>) -> Self {
        Self {
            schema: None,
            name: Ident::new(name),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(s) => write!(f, "{s}.{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}
