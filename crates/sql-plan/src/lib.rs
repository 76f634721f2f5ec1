//! From syntax trees to plans.
//!
//! In flow order: [`bind`] (names and types), with [`expr`] (bound expressions and their evaluation) · [`plan`] (access
//! paths, join order, EXPLAIN).
//! Neighbours: `sql-syntax` below (trees), `sql-catalog` below (tables); `sql-exec` above runs the plans.
//! **Invariant**: nothing here reads rows of tables; what expressions need of the executor stands behind
//! [`expr::Queries`].

pub mod bind;
pub mod expr;
pub mod plan;
