//! Stored programs, compiled: flat instructions, the frame they work on, and the handlers around each of them.
//!
//! Neighbours: the parser gives a [`Body`](esker_sql_syntax::ast::Body); `session::program` runs what is made here.
//! Parts: [`code`] (instructions), [`compile`] (from the tree), [`handler`] (which handler a condition gets),
//! [`stored`] (reading what the catalog keeps).
//!
//! **Invariants**: a program is immutable and knows no session; jumps lead to instructions or to the end; the handlers
//! that an instruction may end in follow from its place alone, as in MySQL.

pub(crate) mod code;
mod compile;
pub(crate) mod handler;
pub(crate) mod stored;

pub(crate) use code::{Destination, Formula, Op, Program, Source, Sql};
