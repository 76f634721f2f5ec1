//! What a channel may apply: `REQUIRE_ROW_FORMAT` and `PRIVILEGE_CHECKS_USER`.
//!
//! Neighbours: `run` asks before it applies, `feed` at a start, CHANGE REPLICATION SOURCE when it names an account; the
//! session acts as the account. **Invariant**: an account whose rights are gone applies nothing more.

use esker_sql_catalog::accounts::{Account, Privileges};
use esker_sql_syntax::ast::Statement;
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::{SqlError, SqlResult};

use crate::instance::Instance;

/// The account of a channel may not apply; with this number in MySQL's Last_SQL_Errno.
const NEEDS_PRIVILEGE: u16 = 13496;

/// 3944: `REQUIRE_ROW_FORMAT` is set.
pub(super) fn not_in_row_format() -> SqlError {
    let text = "The query does not comply with variable require_row_format restrictions.";
    SqlError::new(3944, "HY000", text)
}

/// Does a statement change rows, or temporary tables, whose rows are in no log?
pub(super) fn changes_rows(text: &[u8]) -> bool {
    let Ok(parsed) = parse::parse(text, ParseOptions::default()) else {
        return false;
    };
    match &parsed.stmt {
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::LoadData(_) => true,
        Statement::CreateTable(create) => create.temporary,
        Statement::DropTable(drop) => drop.temporary,
        _ => false,
    }
}

/// The account of PRIVILEGE_CHECKS_USER.
///
/// # Errors
/// 3925, 3926.
pub(crate) fn checks_account(
    instance: &Instance,
    channel: &str,
    (user, host): &(String, String),
) -> SqlResult<Account> {
    let refused = |code, why| {
        Err(SqlError::new(
            code,
            "HY000",
            said(channel, (user, host), why),
        ))
    };
    if user.is_empty() {
        return refused(
            3925,
            "anonymous users are disallowed for PRIVILEGE_CHECKS_USER.",
        );
    }
    match instance.accounts().exact(user, host) {
        Some(account) => Ok(account),
        None => refused(3926, "this is not an existing user."),
    }
}

/// May a channel apply with the rights of the account?
///
/// # Errors
/// 3925, 3926, 13496.
pub(super) fn admit_account(
    instance: &Instance,
    channel: &str,
    account: &(String, String),
) -> SqlResult<()> {
    let found = checks_account(instance, channel, account)?;
    let roles = found.default_roles.clone();
    let access = instance.accounts().access(&found, &roles);
    if access
        .global()
        .meets(Privileges::of(&["REPLICATION_APPLIER"]))
    {
        return Ok(());
    }
    let why = "this user does not have REPLICATION_APPLIER privilege. Correct this before starting the replication \
               threads.";
    let text = said(channel, (&account.0, &account.1), why);
    Err(SqlError::new(NEEDS_PRIVILEGE, "HY000", text))
}

fn said(channel: &str, (user, host): (&str, &str), why: &str) -> String {
    format!(
        "PRIVILEGE_CHECKS_USER for replication channel '{channel}' was set to `{user}`@`{host}`, but {why}"
    )
}

#[cfg(test)]
mod tests {
    use super::changes_rows;

    #[test]
    fn statements_that_change_rows_are_known() {
        for (text, expected) in [
            ("INSERT INTO t VALUES (1)", true),
            ("DELETE FROM t", true),
            ("CREATE TEMPORARY TABLE t (a INT)", true),
            ("DROP TEMPORARY TABLE t", true),
            ("CREATE TABLE t (a INT)", false),
            ("SAVEPOINT s", false),
            ("no statement", false),
        ] {
            assert_eq!(changes_rows(text.as_bytes()), expected, "{text}");
        }
    }
}
