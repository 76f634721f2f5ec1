//! Statements to effects: parse, catalog, bind, plan, execute, and the session that drives them.
//!
//! Neighbours: `types` below (values and kernels), `engine` below (keys, transactions), `server`
//! above (connections and packets).
//!
//! In reading order: [`parse`] (text to trees) · [`catalog`], [`codec`], [`mdl`] (what exists, how it is stored, who
//! may change it) · [`bind`], [`expr`] (names and types) · [`plan`], [`exec`] (queries) · [`dml`], [`ddl`] (changes) ·
//! `binlog` (the binary log) · `textfile` (files of LOAD DATA and OUTFILE) · [`short`] (reads by key, without
//! planning) · [`session`] (one client)
//! · [`variables`], [`accounts`], [`infoschema`], `show` (settings, privileges, what clients ask about) · `xids` (XA
//! transactions) · [`Instance`] (`instance`: everything behind the sockets) · `datadir` (the data directory), `schema`
//! (questions to the catalog), `exec_error` and [`result`] (how statements end).

pub mod accounts;
pub mod bind;
pub mod binlog;
pub mod catalog;
pub mod codec;
pub mod datadir;
pub mod ddl;
pub mod dml;
pub mod exec;
pub mod exec_error;
pub mod expr;
pub mod infoschema;
mod instance;
pub mod mdl;
pub mod parse;
pub mod plan;
#[cfg(test)]
mod query_tests;
mod result;
mod schema;
pub mod session;
pub mod short;
mod show;
mod textfile;
pub mod variables;
mod xids;

pub use instance::{
    HashPassword, Instance, InstanceConfig, PasswordHashing, SALT_BYTES, Starting, VerifyPassword,
    check_settings,
};
pub use result::{
    ColumnMeta, InfoText, Mode, OkInfo, Outcome, OutcomeKind, RowSink, Step, WaitFor, meta_flag,
};
pub use session::{
    Batch, ClientInfo, Counter, PlanStatistics, Prepared, Request, Session, StateChange,
};
pub use textfile::FileSource;
