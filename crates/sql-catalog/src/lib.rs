//! What exists, how it is stored and locked, and who may use it.
//!
//! In reading order: [`codec`] (rows and keys as bytes) · [`catalog`] (schemas, tables, views) · [`mdl`] (metadata
//! locks) · [`accounts`] (users and their privileges) · [`variables`] (settings) · [`result`] (what a statement gives
//! back) · [`exec_error`] (what it can end with besides success).
//! Neighbours: `engine` below (keys, transactions), `types` below (values); all other floors of SQL are above.
//! **Invariant**: nothing here knows the syntax of statements.

pub mod accounts;
pub mod catalog;
pub mod codec;
pub mod exec_error;
pub mod mdl;
pub mod result;
pub mod variables;
