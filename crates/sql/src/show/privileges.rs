//! SHOW PRIVILEGES: each privilege, what it is about, and what it is for.
//!
//! Neighbours: `server` shows it; the catalog's accounts have the privileges themselves.
//! **Invariants**: names, contexts and texts of the static privileges are MySQL's, which no GRANT reads.

use esker_sql_catalog::accounts::Privileges;

use super::{Table, t};

/// The static privileges in MySQL's order.
const STATIC: [[&str; 3]; 33] = [
    ["Alter", "Tables", "To alter the table"],
    [
        "Alter routine",
        "Functions,Procedures",
        "To alter or drop stored functions/procedures",
    ],
    [
        "Create",
        "Databases,Tables,Indexes",
        "To create new databases and tables",
    ],
    [
        "Create routine",
        "Databases",
        "To use CREATE FUNCTION/PROCEDURE",
    ],
    ["Create role", "Server Admin", "To create new roles"],
    [
        "Create temporary tables",
        "Databases",
        "To use CREATE TEMPORARY TABLE",
    ],
    ["Create view", "Tables", "To create new views"],
    ["Create user", "Server Admin", "To create new users"],
    ["Delete", "Tables", "To delete existing rows"],
    [
        "Drop",
        "Databases,Tables",
        "To drop databases, tables, and views",
    ],
    ["Drop role", "Server Admin", "To drop roles"],
    [
        "Event",
        "Server Admin",
        "To create, alter, drop and execute events",
    ],
    [
        "Execute",
        "Functions,Procedures",
        "To execute stored routines",
    ],
    [
        "File",
        "File access on server",
        "To read and write files on the server",
    ],
    [
        "Grant option",
        "Databases,Tables,Functions,Procedures",
        "To give to other users those privileges you possess",
    ],
    ["Index", "Tables", "To create or drop indexes"],
    ["Insert", "Tables", "To insert data into tables"],
    [
        "Lock tables",
        "Databases",
        "To use LOCK TABLES (together with SELECT privilege)",
    ],
    [
        "Process",
        "Server Admin",
        "To view the plain text of currently executing queries",
    ],
    ["Proxy", "Server Admin", "To make proxy user possible"],
    [
        "References",
        "Databases,Tables",
        "To have references on tables",
    ],
    [
        "Reload",
        "Server Admin",
        "To reload or refresh tables, logs and privileges",
    ],
    [
        "Replication client",
        "Server Admin",
        "To ask where the slave or master servers are",
    ],
    [
        "Replication slave",
        "Server Admin",
        "To read binary log events from the master",
    ],
    ["Select", "Tables", "To retrieve rows from table"],
    [
        "Show databases",
        "Server Admin",
        "To see all databases with SHOW DATABASES",
    ],
    ["Show view", "Tables", "To see views with SHOW CREATE VIEW"],
    ["Shutdown", "Server Admin", "To shut down the server"],
    [
        "Super",
        "Server Admin",
        "To use KILL thread, SET GLOBAL, CHANGE REPLICATION SOURCE, etc.",
    ],
    ["Trigger", "Tables", "To use triggers"],
    [
        "Create tablespace",
        "Server Admin",
        "To create/alter/drop tablespaces",
    ],
    ["Update", "Tables", "To update existing rows"],
    [
        "Usage",
        "Server Admin",
        "No privileges - allow connect only",
    ],
];

/// The rows.
pub(super) fn privileges() -> Table {
    let fixed = STATIC.iter().map(|row| row.map(t).into());
    let dynamic = Privileges::DYNAMIC
        .names()
        .map(|name| vec![t(name), t("Server Admin"), t("")]);
    Table::texts(
        &["Privilege", "Context", "Comment"],
        fixed.chain(dynamic).collect(),
    )
}
