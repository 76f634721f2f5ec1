//! Errors that several rooms raise: one constructor per number of MySQL, so a text and its SQLSTATE exist once.
//!
//! Neighbours: everything above `engine`. A number that only one place raises is made there, by [`SqlError::new`]; the
//! architecture tests refuse a second place.
//! **Invariant**: in the order of the numbers; texts are those of MySQL 8.4, without a trailing period unless MySQL
//! has one. Parts: `account` (privileges), `definition` (names, columns, keys), `event`, `partition`, `program` (stored
//! programs), `replication` (binary log, GTIDs, channels), `spatial`.

mod account;
mod definition;
mod event;
mod partition;
mod program;
mod replication;
mod spatial;

use std::fmt::Display;

use crate::collation::Charset;
use crate::ctx::EvalCtx;
use crate::error::{SqlError, SqlResult};
use crate::hex::upper_hex;

pub use account::*;
pub use definition::*;
pub use event::*;
pub use partition::*;
pub use program::*;
pub use replication::*;
pub use spatial::*;

/// 1021: `place` is what is stored there, `advice` what to do.
pub fn disk_full(place: impl Display, advice: impl Display) -> SqlError {
    SqlError::new(1021, "HY000", format!("Disk full ({place}); {advice}"))
}

/// 1030: the file system refuses something; `what` names the file and why.
pub fn storage_failed(what: impl Display) -> SqlError {
    SqlError::new(1030, "HY000", what.to_string())
}

/// 1040
pub fn too_many_connections() -> SqlError {
    SqlError::new(1040, "08004", "Too many connections")
}

/// 1041: a limit of memory or of things held in memory; `what` says which.
pub fn out_of_memory(what: impl Display) -> SqlError {
    SqlError::new(1041, "HY000", format!("Out of memory; {what}"))
}

/// 3170: the tree of a text takes more than parser_max_mem_size.
pub fn parser_memory_exceeded(bytes: u64) -> SqlError {
    let text = format!(
        "Memory capacity of {bytes} bytes for 'parser_max_mem_size' exceeded. Parser bailed out for this query."
    );
    SqlError::new(3170, "HY000", text)
}

/// 1046
pub fn no_database() -> SqlError {
    SqlError::new(1046, "3D000", "No database selected")
}

/// 1049
pub fn unknown_database(name: impl Display) -> SqlError {
    SqlError::new(1049, "42000", format!("Unknown database '{name}'"))
}

/// 1050
pub fn table_exists(name: impl Display) -> SqlError {
    SqlError::new(1050, "42S01", format!("Table '{name}' already exists"))
}

/// 1051: one name, or several as a list.
pub fn unknown_table(names: impl Display) -> SqlError {
    SqlError::new(1051, "42S02", format!("Unknown table '{names}'"))
}

/// 1053
pub fn shutdown_in_progress() -> SqlError {
    SqlError::new(1053, "08S01", "Server shutdown in progress")
}

/// 1054: `place` is a clause or a table.
pub fn unknown_column(name: impl Display, place: impl Display) -> SqlError {
    let text = format!("Unknown column '{name}' in '{place}'");
    SqlError::new(1054, "42S22", text)
}

/// 1064: the statement's text from where it cannot be understood.
pub fn syntax(near: impl Display, line: impl Display) -> SqlError {
    let text = format!(
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
         server version for the right syntax to use near '{near}' at line {line}"
    );
    not_parsed(text)
}

/// 1064 in the words of whatever could not read a text.
pub fn not_parsed(text: String) -> SqlError {
    SqlError::new(1064, "42000", text)
}

/// 1214
pub fn no_fulltext() -> SqlError {
    let text = "The used table type doesn't support FULLTEXT indexes";
    SqlError::new(1214, "HY000", text)
}

/// 1066
pub fn not_unique_table(name: impl Display) -> SqlError {
    SqlError::new(1066, "42000", format!("Not unique table/alias: '{name}'"))
}

/// 1177
pub fn cannot_open_table() -> SqlError {
    SqlError::new(1177, "42000", "Can't open table")
}

/// 1100
pub fn table_not_locked(table: impl Display) -> SqlError {
    let text = format!("Table '{table}' was not locked with LOCK TABLES");
    SqlError::new(1100, "HY000", text)
}

/// 1105: what MySQL has no number for.
pub fn unknown_error(text: impl Display) -> SqlError {
    SqlError::new(1105, "HY000", text.to_string())
}

/// 1085
pub fn text_file_not_readable(name: impl Display) -> SqlError {
    let text = format!("The file '{name}' must be in the database directory or be readable by all");
    SqlError::new(1085, "HY000", text)
}

/// 1099
pub fn table_read_locked(table: impl Display) -> SqlError {
    let text = format!("Table '{table}' was locked with a READ lock and can't be updated");
    SqlError::new(1099, "HY000", text)
}

/// 1109
pub fn unknown_table_in(table: impl Display, place: impl Display) -> SqlError {
    SqlError::new(1109, "42S02", format!("Unknown table '{table}' in {place}"))
}

/// 1111
pub fn invalid_group_function() -> SqlError {
    SqlError::new(1111, "HY000", "Invalid use of group function")
}

/// 1115
pub fn unknown_charset(name: impl Display) -> SqlError {
    SqlError::new(1115, "42000", format!("Unknown character set: '{name}'"))
}

/// 1300: `bytes` begin with some that are no character.
pub fn invalid_characters(charset: Charset, bytes: &[u8]) -> SqlError {
    let shown = upper_hex(&bytes[..bytes.len().min(3)]);
    invalid_text(charset.name(), &shown)
}

/// 1300, with the bytes as they are to be shown.
pub fn invalid_text(charset: &str, shown: &str) -> SqlError {
    let text = format!("Invalid {charset} character string: '{shown}'");
    SqlError::new(1300, "HY000", text)
}

/// 1135
pub fn no_thread(why: impl Display) -> SqlError {
    SqlError::new(1135, "HY000", format!("Can't create a new thread: {why}"))
}

/// 1136: rows count from 1.
pub fn value_count(row: impl Display) -> SqlError {
    let text = format!("Column count doesn't match value count at row {row}");
    SqlError::new(1136, "21S01", text)
}

/// 1146
pub fn no_such_table(schema: impl Display, name: impl Display) -> SqlError {
    let text = format!("Table '{schema}.{name}' doesn't exist");
    SqlError::new(1146, "42S02", text)
}

/// 1153
pub fn packet_too_large() -> SqlError {
    let text = "Got a packet bigger than 'max_allowed_packet' bytes";
    SqlError::new(1153, "08S01", text)
}

/// 1172
pub fn too_many_rows() -> SqlError {
    SqlError::new(1172, "42000", "Result consisted of more than one row")
}

/// 1176
pub fn unknown_key(key: impl Display, table: impl Display) -> SqlError {
    let text = format!("Key '{key}' doesn't exist in table '{table}'");
    SqlError::new(1176, "42000", text)
}

/// 1192
pub fn has_locked_tables() -> SqlError {
    let text = "Can't execute the given command because you have active locked tables or an active transaction";
    SqlError::new(1192, "HY000", text)
}

/// 1197: `limit` in bytes, or the variable that has it; `raise` is the variable to increase.
pub fn transaction_too_large(limit: impl Display, raise: impl Display) -> SqlError {
    let text = format!(
        "Multi-statement transaction required more than {limit} bytes of storage; increase {raise} and try again"
    );
    SqlError::new(1197, "HY000", text)
}

/// 1205
pub fn lock_wait_timeout() -> SqlError {
    let text = "Lock wait timeout exceeded; try restarting transaction";
    SqlError::new(1205, "HY000", text)
}

/// 1382
pub fn reserved_name_const() -> SqlError {
    let text = "The 'NAME_CONST' syntax is reserved for purposes internal to the MySQL server";
    SqlError::new(1382, "HY000", text)
}

/// 1210
pub fn wrong_arguments(function: impl Display) -> SqlError {
    SqlError::new(1210, "HY000", format!("Incorrect arguments to {function}"))
}

/// 1213
pub fn deadlock() -> SqlError {
    let text = "Deadlock found when trying to get lock; try restarting transaction";
    SqlError::new(1213, "40001", text)
}

/// 1234: the option of a SELECT that stands where it means nothing.
pub fn misplaced_option(option: impl Display) -> SqlError {
    let text = format!("Incorrect usage/placement of '{option}'");
    SqlError::new(1234, "42000", text)
}

/// 1221: `what` is two things that do not go together, joined by "and".
pub fn wrong_usage(what: impl Display) -> SqlError {
    SqlError::new(1221, "HY000", format!("Incorrect usage of {what}"))
}

/// 1222
pub fn select_columns_differ() -> SqlError {
    let text = "The used SELECT statements have a different number of columns";
    SqlError::new(1222, "21000", text)
}

/// 1223
pub fn conflicting_read_lock() -> SqlError {
    let text = "Can't execute the query because you have a conflicting read lock";
    SqlError::new(1223, "HY000", text)
}

/// 1360
pub fn no_such_trigger() -> SqlError {
    SqlError::new(1360, "HY000", "Trigger does not exist")
}

/// 1228
pub fn session_variable(name: impl Display) -> SqlError {
    let text = format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL");
    SqlError::new(1228, "HY000", text)
}

/// 1231: MySQL's text for a variable is [`wrong_value`]; settings at start say more.
pub fn wrong_setting(why: impl Display) -> SqlError {
    SqlError::new(1231, "42000", why.to_string())
}

/// 1230
pub fn variable_without_default(variable: impl Display) -> SqlError {
    let text = format!("Variable '{variable}' doesn't have a default value");
    SqlError::new(1230, "42000", text)
}

/// 1231
pub fn wrong_value(variable: impl Display, value: impl Display) -> SqlError {
    wrong_setting(format!(
        "Variable '{variable}' can't be set to the value of '{value}'"
    ))
}

/// 1232
pub fn wrong_type(variable: impl Display) -> SqlError {
    let text = format!("Incorrect argument type to variable '{variable}'");
    SqlError::new(1232, "42000", text)
}

/// 1238
pub fn read_only_variable(name: impl Display, kind: impl Display) -> SqlError {
    SqlError::new(
        1238,
        "HY000",
        format!("Variable '{name}' is a {kind} variable"),
    )
}

/// 1253
pub fn collation_mismatch(collation: impl Display, charset: impl Display) -> SqlError {
    let text = format!("COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'");
    SqlError::new(1253, "42000", text)
}

/// 1271
pub fn illegal_mix(operation: impl Display) -> SqlError {
    let text = format!("Illegal mix of collations for operation '{operation}'");
    SqlError::new(1271, "HY000", text)
}

/// 1273
pub fn unknown_collation(name: impl Display) -> SqlError {
    SqlError::new(1273, "HY000", format!("Unknown collation: '{name}'"))
}

/// 1286
pub fn unknown_engine(name: impl Display) -> SqlError {
    SqlError::new(1286, "42000", format!("Unknown storage engine '{name}'"))
}

/// 1290: `option` without its dashes.
pub fn option_prevents(option: impl Display) -> SqlError {
    let text = format!(
        "The MySQL server is running with the --{option} option so it cannot execute this statement"
    );
    SqlError::new(1290, "HY000", text)
}

/// 1305: `kind` is FUNCTION, PROCEDURE, SAVEPOINT, …
pub fn does_not_exist(kind: impl Display, name: impl Display) -> SqlError {
    SqlError::new(1305, "42000", format!("{kind} {name} does not exist"))
}

/// 1327
pub fn undeclared_variable(name: impl Display) -> SqlError {
    SqlError::new(1327, "42000", format!("Undeclared variable: {name}"))
}

/// 1347
pub fn wrong_object(schema: impl Display, name: impl Display, wanted: impl Display) -> SqlError {
    SqlError::new(1347, "HY000", format!("'{schema}.{name}' is not {wanted}"))
}

/// 1031
pub fn no_such_option(table: impl Display) -> SqlError {
    let text = format!("Table storage engine for '{table}' doesn't have this option");
    SqlError::new(1031, "HY000", text)
}

/// 1348
pub fn column_not_updatable(column: impl Display) -> SqlError {
    SqlError::new(1348, "HY000", format!("Column '{column}' is not updatable"))
}

/// 1706
pub fn key_updated_twice(one: impl Display, other: impl Display) -> SqlError {
    let text = format!(
        "Primary key/partition key update is not allowed since the table is updated both as '{one}' and '{other}'."
    );
    SqlError::new(1706, "HY000", text)
}

/// 1443
pub fn view_prevents(view: impl Display, verb: impl Display, table: impl Display) -> SqlError {
    let text =
        format!("The definition of table '{view}' prevents operation {verb} on table '{table}'.");
    SqlError::new(1443, "HY000", text)
}

/// 1138
pub fn invalid_null() -> SqlError {
    unfit_null("22004", "Invalid use of NULL value")
}

/// 1138 for an argument of a function of `sys`.
pub fn null_argument(function: &str, argument: &str) -> SqlError {
    let text = format!("Function sys.{function}: {argument} input variable should not be NULL");
    unfit_null("02200", text)
}

fn unfit_null(state: &'static str, text: impl Into<String>) -> SqlError {
    SqlError::new(1138, state, text)
}

/// 1583
pub fn wrong_parameters(function: impl Display) -> SqlError {
    let text = format!("Incorrect parameters in the call to native function '{function}'");
    SqlError::new(1583, "42000", text)
}

/// 1364
pub fn no_default(column: impl Display) -> SqlError {
    let text = format!("Field '{column}' doesn't have a default value");
    SqlError::new(1364, "HY000", text)
}

/// 1367: `kind` is double, set, …
pub fn illegal_value(kind: impl Display, value: impl Display) -> SqlError {
    let text = format!("Illegal {kind} '{value}' value found during parsing");
    SqlError::new(1367, "22007", text)
}

/// 1396: `names` are accounts, separated by commas.
pub fn operation_failed(operation: impl Display, names: impl Display) -> SqlError {
    let text = format!("Operation {operation} failed for {names}");
    SqlError::new(1396, "HY000", text)
}

/// 1412
pub fn definition_changed() -> SqlError {
    let text = "Table definition has changed, please retry transaction";
    SqlError::new(1412, "HY000", text)
}

/// 1292; `text` says what kind of value was read wrongly.
pub fn misread_value(text: impl Into<String>) -> SqlError {
    SqlError::new(1292, "22007", text.into())
}

/// 1467
pub fn no_auto_increment_value() -> SqlError {
    let text = "Failed to read auto-increment value from storage engine";
    SqlError::new(1467, "HY000", text)
}

/// 1869
pub fn auto_increment_conflict() -> SqlError {
    let text = "Auto-increment value in UPDATE conflicts with internally generated values";
    SqlError::new(1869, "HY000", text)
}

/// 1525: `kind` is DATE, TIMESTAMP, AT, INTERVAL, …
pub fn incorrect_value(kind: impl Display, value: impl Display) -> SqlError {
    SqlError::new(1525, "HY000", format!("Incorrect {kind} value: '{value}'"))
}

/// 1525: an option of a replication channel has a line feed.
pub fn line_feed(value: impl Display) -> SqlError {
    incorrect_value("argument contains not-allowed LF", value)
}

/// 1582
pub fn wrong_parameter_count(function: impl Display) -> SqlError {
    let text = format!("Incorrect parameter count in the call to native function '{function}'");
    SqlError::new(1582, "42000", text)
}

/// 1690: `what` is a type or a parameter, `place` the expression.
pub fn out_of_range(what: impl Display, place: impl Display) -> SqlError {
    let text = format!("{what} value is out of range in '{place}'");
    SqlError::new(1690, "22003", text)
}

/// 6527: a date beyond the calendar.
pub fn date_out_of_range(place: impl Display) -> SqlError {
    let text = format!("DATE value is out of range in '{place}'");
    SqlError::new(6527, "22008", text)
}

/// 1123: the arguments of a loadable function do not fit.
pub fn function_cannot_begin(name: impl Display, why: impl Display) -> SqlError {
    let text = format!("Can't initialize function '{name}'; {why}");
    SqlError::new(1123, "HY000", text)
}

/// 3200: a loadable function has failed.
pub fn function_failed(name: impl Display, why: impl Display) -> SqlError {
    SqlError::new(3200, "HY000", format!("{name} UDF failed; {why}"))
}

/// 1264: an error where the mode is strict, else a warning.
pub fn out_of_range_for_column(ctx: &EvalCtx<'_>, column: &str, row: u64) -> SqlResult<()> {
    let text = format!("Out of range value for column '{column}' at row {row}");
    ctx.raise(1264, "22003", text)
}

/// 1621
pub fn read_only_in_session(variable: impl Display) -> SqlError {
    let text =
        format!("SESSION variable '{variable}' is read-only. Use SET GLOBAL to assign the value");
    SqlError::new(1621, "HY000", text)
}

/// 1649
pub fn unknown_locale(name: impl Display) -> SqlError {
    SqlError::new(1649, "HY000", format!("Unknown locale: '{name}'"))
}

/// 1815
pub fn internal(what: impl Display) -> SqlError {
    SqlError::new(1815, "HY000", format!("Internal error: {what}"))
}

/// 1835
pub fn malformed_packet() -> SqlError {
    SqlError::new(1835, "HY000", "Malformed communication packet.")
}

/// 2014
pub fn out_of_sync() -> SqlError {
    SqlError::new(2014, "HY000", "Commands out of sync")
}

/// 3058
pub fn user_lock_deadlock() -> SqlError {
    let text = "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and \
                restarting lock acquisition.";
    SqlError::new(3058, "HY000", text)
}

/// 3024
pub fn statement_timeout() -> SqlError {
    let text = "Query execution was interrupted, maximum statement execution time exceeded";
    SqlError::new(3024, "HY000", text)
}

/// 3144
pub fn json_from_binary() -> SqlError {
    let text = "Cannot create a JSON value from a string with CHARACTER SET 'binary'.";
    SqlError::new(3144, "22032", text)
}

/// 3146: arguments count from 1.
pub fn no_json(argument: impl Display, function: impl Display) -> SqlError {
    let text = format!(
        "Invalid data type for JSON data in argument {argument} to function {function}; a JSON string or JSON type is \
         required."
    );
    SqlError::new(3146, "22032", text)
}

/// 3184
pub fn invalid_encryption() -> SqlError {
    SqlError::new(3184, "HY000", "Invalid encryption option.")
}

/// 3185
pub fn no_master_key() -> SqlError {
    let text = "Can't find master key from keyring, please check in the server log if a keyring is loaded and \
                initialized successfully.";
    SqlError::new(3185, "HY000", text)
}

/// 1478 for what InnoDB cannot do with a table or tablespace.
pub fn option_not_supported(text: impl Into<String>) -> SqlError {
    SqlError::new(1478, "HY000", text.into())
}

/// 1149
pub fn syntax_of_old() -> SqlError {
    let text = "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version \
                for the right syntax to use";
    SqlError::new(1149, "42000", text)
}

/// 1301: what a function gives has more bytes than `limit`.
pub fn larger_than_packet(function: &str, limit: u64) -> SqlError {
    let text =
        format!("Result of {function}() was larger than max_allowed_packet ({limit}) - truncated");
    SqlError::new(1301, "HY000", text)
}

/// 3833
pub fn encrypted_temporary() -> SqlError {
    let text = "ENCRYPTION clause is not valid for temporary tablespace.";
    SqlError::new(3833, "HY000", text)
}

/// 4035
pub fn no_keyring_reload() -> SqlError {
    let text = "Keyring reload failed. Please check error log for more details.";
    SqlError::new(4035, "HY000", text)
}

/// 3503
pub fn no_such_database(name: &str) -> SqlError {
    SqlError::new(3503, "42Y07", format!("Database '{name}' doesn't exist"))
}

/// 1778.
pub fn commits_implicitly() -> SqlError {
    SqlError::new(
        1778,
        "HY000",
        "Cannot execute statements with implicit commit inside a transaction when @@SESSION.GTID_NEXT == 'UUID:NUMBER'.",
    )
}

/// 3953
pub fn second_into() -> SqlError {
    let text = "Multiple INTO clauses in one query block.";
    SqlError::new(3953, "HY000", text)
}

/// 3954
pub fn misplaced_into() -> SqlError {
    let text = "Misplaced INTO clause, INTO is not allowed inside subqueries, and must be placed at end of UNION clauses.";
    SqlError::new(3954, "HY000", text)
}

/// 1265
pub fn data_truncated(column: &str, row: u64) -> SqlError {
    let text = format!("Data truncated for column '{column}' at row {row}");
    SqlError::new(1265, "01000", text)
}

/// 1048
pub fn null_column(column: impl Display) -> SqlError {
    let text = format!("Column '{column}' cannot be null");
    SqlError::new(1048, "23000", text)
}

/// 1114: something that is kept has no room.
pub fn no_room_in(text: impl Display) -> SqlError {
    SqlError::new(1114, "HY000", text.to_string())
}

/// 1406: `place` is the column and the row.
pub fn data_too_long(place: impl Display) -> SqlError {
    SqlError::new(1406, "22001", format!("Data too long {place}"))
}

/// 1683
pub fn invalid_performance_schema_usage() -> SqlError {
    SqlError::new(1683, "HY000", "Invalid performance_schema usage.")
}

/// 3989
pub fn schema_is_read_only(name: impl Display) -> SqlError {
    let text = format!("Schema '{name}' is in read only mode.");
    SqlError::new(3989, "HY000", text)
}

/// 3527
pub fn no_urn_schema(urn: &str) -> SqlError {
    let text = format!("Cannot find schema in specified URN: '{urn}'.");
    SqlError::new(3527, "HY000", text)
}

/// 3528
pub fn unknown_urn_schema(schema: &str, urn: &str) -> SqlError {
    let text = format!(
        "Cannot acquire scheme load service implementation for schema '{schema}' in specified URN: '{urn}'."
    );
    SqlError::new(3528, "HY000", text)
}

/// 3529
pub fn cannot_load_component(urn: &str) -> SqlError {
    let text = format!("Cannot load component from specified URN: '{urn}'.");
    SqlError::new(3529, "HY000", text)
}

/// 3537
pub fn component_not_loaded(urn: &str) -> SqlError {
    let text = format!("Component specified by URN '{urn}' to unload has not been loaded before.");
    SqlError::new(3537, "HY000", text)
}

/// 1477
pub fn no_foreign_server(name: &str) -> SqlError {
    let text = format!(
        "The foreign server name you are trying to reference does not exist. Data source error:  {name}"
    );
    SqlError::new(1477, "HY000", text)
}
