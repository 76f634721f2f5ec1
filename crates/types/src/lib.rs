//! MySQL values: types, decimals, dates, strings and collations, and every operator and function,
//! each written once as a scalar kernel.
//!
//! Neighbours: `sql` binds expressions to these kernels; `wire` prints values. Knows nothing of tables, statements or
//! sockets. Parts: [`value`], [`sqltype`] (values and their types) · [`decimal`], [`temporal`], [`collation`],
//! [`json`], [`geometry`] (the domains) · [`cast`] (conversions) · [`cmp`], [`arith`], [`func`] (comparison,
//! operators, functions) · [`fulltext`] (words, queries and relevance) · [`hex`] (bytes that are shown) · [`large`]
//! (buffers whose size a client decides) · [`names`] (of schema objects) · [`program`], [`trigger`] (words about stored
//! programs) · [`ctx`] (what they may know of the session) · [`error`], [`errors`] (what fails, and how it is said),
//! [`condition`] (what is kept of it).

pub mod arith;
pub mod cast;
pub mod cmp;
pub mod collation;
pub mod condition;
pub mod ctx;
pub mod decimal;
pub mod error;
pub mod errors;
pub mod fulltext;
pub mod func;
pub mod geometry;
pub mod hex;
pub mod json;
pub mod large;
pub mod names;
pub mod program;
pub mod sqltype;
pub mod temporal;
#[cfg(test)]
mod testing;
pub mod trigger;
pub mod value;

pub use ctx::{EvalCtx, EvalSettings, SessionInfo, SqlMode};
pub use decimal::Decimal;
pub use error::{Level, SqlError, SqlResult, Warning};
pub use sqltype::{SqlType, TypeKind};
pub use temporal::{Date, DateTime, Time};
pub use value::{Value, ValueRef};
