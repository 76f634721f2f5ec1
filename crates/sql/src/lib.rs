//! Statements to effects: sessions, changes of rows and definitions, and everything behind the sockets.
//!
//! Neighbours: `sql-syntax`, `sql-catalog`, `sql-plan` and `sql-exec` below (the floors of a query), `engine` below
//! (keys, transactions), `server` above (connections and packets).
//!
//! In reading order: [`dml`], [`ddl`] (changes) · `printer` (syntax trees as text) · [`capture`] (changes as events of
//! the binary log), [`binlog`] (the binary log) · `textfile` (files of LOAD DATA and OUTFILE) · `program` (stored
//! programs, compiled) · [`session`] (one client), `counts` (what it has done, in numbers) · [`replica`] (replication
//! channels), [`applier`] (transactions of other servers) · [`infoschema`] (of the tables that `system_schemas`
//! declares), `show` (what clients ask about) · `scheduler` (runs events) · `statements` (statistics), `instruments`
//! (what is measured), `throttle` (pauses for others), `loglines` (lines of the server's log that clients cause),
//! `querylog` (slow and general log), `slowlog` (what the slow one says), `logtable` (both as tables), `audit` (audit
//! log) · `xids` (XA transactions) · [`datadir`] (the data directory as a whole), `host` (the
//! process around), `persisted` (SET PERSIST), `schema` (questions to the catalog) · [`Instance`] (`instance`:
//! everything behind the sockets) · `query_tests` (tests that need every floor), `testing` (sessions for tests).

pub mod applier;
mod audit;
pub mod binlog;
pub mod capture;
mod counts;
pub mod datadir;
pub mod ddl;
pub mod dml;
mod host;
pub mod infoschema;
mod instance;
mod instruments;
mod loglines;
mod logtable;
mod persisted;
mod printer;
mod program;
#[cfg(test)]
mod query_tests;
mod querylog;
pub mod replica;
mod scheduler;
mod schema;
pub mod session;
mod show;
mod slowlog;
mod statements;
mod system_schemas;
#[cfg(test)]
mod testing;
mod textfile;
mod throttle;
mod xids;

pub use counts::Counter;
pub use esker_sql_catalog::result::{
    ColumnMeta, InfoText, Mode, OkInfo, Outcome, OutcomeKind, RowSink, Step, WaitFor, meta_flag,
};
pub use esker_sql_catalog::{accounts, variables};
pub use host::{Host, LogForm, LogLine, LogPriority};
pub use instance::{
    HashPassword, Instance, InstanceConfig, PasswordHashing, SALT_BYTES, Starting, VerifyPassword,
    check_settings,
};
pub use loglines::{LineLimit, on_one_line};
pub use session::{Batch, ClientInfo, PlanStatistics, Prepared, Request, Session, StateChange};
pub use textfile::FileSource;
