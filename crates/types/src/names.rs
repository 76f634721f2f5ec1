//! Names of schema objects: which of them may be a database's, a table's or a column's.
//!
//! Neighbours: the parser and the statements that define objects ask here; [`crate::errors`] has the texts.
//! **Invariant**: a name that passes here can be written back in backticks and read again.

use crate::errors;
use crate::{SqlError, SqlResult};

/// Longest name of a user, in characters.
const MAX_USER_CHARS: usize = 32;
/// Longest name of a host, in characters.
const MAX_HOST_CHARS: usize = 255;

/// Longest name of a schema object, in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// 1059.
pub fn check_length(name: &str) -> SqlResult<()> {
    // Most names are short in bytes, too.
    if name.len() > MAX_NAME_CHARS && name.chars().count() > MAX_NAME_CHARS {
        return Err(errors::name_too_long(name));
    }
    Ok(())
}

fn check(name: &str, bad: fn(&str) -> SqlError) -> SqlResult<()> {
    if is_bad(name) {
        return Err(bad(name));
    }
    check_length(name)
}

/// Can no object have this name, however short it is?
pub fn is_bad(name: &str) -> bool {
    name.is_empty() || name.ends_with(' ') || name.contains('\0')
}

/// 1102, 1059.
pub fn check_schema(name: &str) -> SqlResult<()> {
    check(name, errors::wrong_schema_name)
}

/// 1103, 1059.
pub fn check_table(name: &str) -> SqlResult<()> {
    check(name, errors::wrong_table_name)
}

/// 1166, 1059.
pub fn check_column(name: &str) -> SqlResult<()> {
    check(name, errors::wrong_column_name)
}

/// 1470, of an account.
pub fn check_account(user: &str, host: &str) -> SqlResult<()> {
    let check = |what, name: &str, most| match name.chars().count() <= most {
        true => Ok(()),
        false => Err(errors::account_name_too_long(what, name, most)),
    };
    check("user", user, MAX_USER_CHARS)?;
    check("host", host, MAX_HOST_CHARS)
}

/// 3061, of a user variable that is set.
pub fn check_user_variable(name: &str) -> SqlResult<()> {
    match is_bad(name) || name.chars().count() > MAX_NAME_CHARS {
        true => Err(errors::illegal_user_variable(name)),
        false => Ok(()),
    }
}
