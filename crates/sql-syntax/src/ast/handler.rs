//! HANDLER: reading a table row by row in the order of an index.
//!
//! Neighbours: the parser's `handler` builds it, `session::handlers` runs it.
//! **Invariant**: neither the values of a key nor the condition have a subquery.

use super::{Expr, Ident, Limit, ObjectName};

/// HANDLER.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerStatement {
    /// OPEN.
    Open {
        /// Table.
        table: ObjectName,
        /// What it is called from here on; without it, as the table.
        alias: Option<Ident>,
    },
    /// READ.
    Read(Box<HandlerRead>),
    /// CLOSE.
    Close(Ident),
}

/// HANDLER … READ.
#[derive(Debug, Clone, PartialEq)]
pub struct HandlerRead {
    /// Which of the open handlers.
    pub name: Ident,
    /// The index; `None` is the order in which rows are stored.
    pub index: Option<Ident>,
    /// Where to read.
    pub to: HandlerMove,
    /// WHERE.
    pub filter: Option<Expr>,
    /// LIMIT.
    pub limit: Option<Limit>,
}

/// Where a handler goes.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each is the word of that name")]
pub enum HandlerMove {
    First,
    Next,
    Prev,
    Last,
    /// To a key, by its first parts.
    Key(KeySearch, Vec<Expr>),
}

/// How the keys that are looked for lie to the given one, in the order of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySearch {
    /// `=`
    Equal,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
    /// `<=`
    AtMost,
    /// `<`
    Below,
}
