//! Errors about accounts, roles and privileges.
//!
//! Neighbours: the session's checks of privileges, the server's login. **Invariant**: as in the parent, in the order of
//! the numbers.

use std::fmt::Display;

use crate::error::SqlError;

/// 1044: `account` is `'user'@'host'`.
pub fn database_denied(account: impl Display, schema: impl Display) -> SqlError {
    let text = format!("Access denied for user {account} to database '{schema}'");
    SqlError::new(1044, "42000", text)
}

/// 1045: `account` is `'user'@'host'`.
pub fn access_denied(account: impl Display, with_password: bool) -> SqlError {
    let using = if with_password { "YES" } else { "NO" };
    let text = format!("Access denied for user {account} (using password: {using})");
    SqlError::new(1045, "28000", text)
}

/// 3162
pub fn no_such_authorization(name: impl Display) -> SqlError {
    let text = format!("Authorization ID {name} does not exist.");
    SqlError::new(3162, "HY000", text)
}

/// 1141
pub fn no_such_grant(user: impl Display, host: impl Display) -> SqlError {
    let text = format!("There is no such grant defined for user '{user}' on host '{host}'");
    SqlError::new(1141, "42000", text)
}

/// 1142
pub fn table_denied(
    command: impl Display,
    user: impl Display,
    host: impl Display,
    table: impl Display,
) -> SqlError {
    let text = format!("{command} command denied to user '{user}'@'{host}' for table '{table}'");
    SqlError::new(1142, "42000", text)
}

/// 1227: `privileges` is what would do.
pub fn privilege_needed(privileges: impl Display) -> SqlError {
    let text = format!(
        "Access denied; you need (at least one of) the {privileges} privilege(s) for this operation"
    );
    SqlError::new(1227, "42000", text)
}

/// 3552
pub fn schema_rejected(name: &str) -> SqlError {
    let text = format!("Access to system schema '{name}' is rejected.");
    SqlError::new(3552, "HY000", text)
}

/// 3554: `kind` is `data dictionary` or `system`.
pub fn table_rejected(kind: &str, name: &str) -> SqlError {
    let text = format!("Access to {kind} table 'mysql.{name}' is rejected.");
    SqlError::new(3554, "HY000", text)
}

/// 3530: `'role'@'host'` and `'user'@'host'`.
pub fn role_not_granted(role: impl Display, to: impl Display) -> SqlError {
    SqlError::new(3530, "HY000", format!("{role} is not granted to {to}"))
}

/// 1470; `what`: user or host.
pub fn account_name_too_long(what: &str, name: &str, most: usize) -> SqlError {
    /// How much of the name the error repeats, characters.
    const SHOWN: usize = 70;
    let name: String = name.chars().take(SHOWN).collect();
    let text =
        format!("String '{name}' is too long for {what} name (should be no longer than {most})");
    SqlError::new(1470, "HY000", text)
}
