//! Errors of stored programs and of the statements about conditions.
//!
//! Neighbours: the parser of bodies finds most of them, the interpreter the rest.
//! **Invariant**: in the order of the numbers; texts are those of MySQL 8.4.

use std::fmt::Display;

use crate::error::SqlError;

/// 1303
pub fn no_recursive_create(kind: impl Display) -> SqlError {
    let text = format!("Can't create a {kind} from within another stored routine");
    SqlError::new(1303, "2F003", text)
}

/// 1304
pub fn already_exists(kind: impl Display, name: impl Display) -> SqlError {
    SqlError::new(1304, "42000", format!("{kind} {name} already exists"))
}

/// 1308
pub fn no_matching_label(statement: impl Display, label: impl Display) -> SqlError {
    let text = format!("{statement} with no matching label: {label}");
    SqlError::new(1308, "42000", text)
}

/// 1309
pub fn label_redefined(label: impl Display) -> SqlError {
    SqlError::new(1309, "42000", format!("Redefining label {label}"))
}

/// 1310
pub fn label_without_match(label: impl Display) -> SqlError {
    SqlError::new(1310, "42000", format!("End-label {label} without match"))
}

/// 1312
pub fn no_result_set_here(routine: impl Display) -> SqlError {
    let text = format!("PROCEDURE {routine} can't return a result set in the given context");
    SqlError::new(1312, "0A000", text)
}

/// 1313
pub fn return_outside_function() -> SqlError {
    SqlError::new(1313, "42000", "RETURN is only allowed in a FUNCTION")
}

/// 1314
pub fn not_in_procedure(what: impl Display) -> SqlError {
    let text = format!("{what} is not allowed in stored procedures");
    SqlError::new(1314, "0A000", text)
}

/// 1318
pub fn wrong_argument_count(
    kind: impl Display,
    name: impl Display,
    wanted: usize,
    given: usize,
) -> SqlError {
    let text =
        format!("Incorrect number of arguments for {kind} {name}; expected {wanted}, got {given}");
    SqlError::new(1318, "42000", text)
}

/// 1319
pub fn undefined_condition(name: impl Display) -> SqlError {
    SqlError::new(1319, "42000", format!("Undefined CONDITION: {name}"))
}

/// 1320
pub fn no_return(function: impl Display) -> SqlError {
    let text = format!("No RETURN found in FUNCTION {function}");
    SqlError::new(1320, "42000", text)
}

/// 1321
pub fn ended_without_return(function: impl Display) -> SqlError {
    let text = format!("FUNCTION {function} ended without RETURN");
    SqlError::new(1321, "2F005", text)
}

/// 1323
pub fn cursor_with_into() -> SqlError {
    SqlError::new(1323, "42000", "Cursor SELECT must not have INTO")
}

/// 1324
pub fn undefined_cursor(name: impl Display) -> SqlError {
    SqlError::new(1324, "42000", format!("Undefined CURSOR: {name}"))
}

/// 1325
pub fn cursor_is_open() -> SqlError {
    SqlError::new(1325, "24000", "Cursor is already open")
}

/// 1326
pub fn cursor_is_not_open() -> SqlError {
    SqlError::new(1326, "24000", "Cursor is not open")
}

/// 1328
pub fn wrong_fetch_count() -> SqlError {
    SqlError::new(1328, "HY000", "Incorrect number of FETCH variables")
}

/// 1329
pub fn no_data() -> SqlError {
    let text = "No data - zero rows fetched, selected, or processed";
    SqlError::new(1329, "02000", text)
}

/// 1289: as MySQL answers if it was not built for debugging.
pub fn no_routine_code() -> SqlError {
    let text = "The 'SHOW PROCEDURE|FUNCTION CODE' feature is disabled; you need MySQL built with '--with-debug' to \
                have it working";
    SqlError::new(1289, "HY000", text)
}

/// 1064: a variable of a program stands where an integer is wanted.
pub fn no_integer_variable(name: impl Display, near: impl Display, line: usize) -> SqlError {
    super::not_parsed(format!(
        "The variable \"{name}\" has a non-integer based type near '{near}' at line {line}"
    ))
}

/// 1330
pub fn duplicate_parameter(name: impl Display) -> SqlError {
    SqlError::new(1330, "42000", format!("Duplicate parameter: {name}"))
}

/// 1331
pub fn duplicate_variable(name: impl Display) -> SqlError {
    SqlError::new(1331, "42000", format!("Duplicate variable: {name}"))
}

/// 1332
pub fn duplicate_condition(name: impl Display) -> SqlError {
    SqlError::new(1332, "42000", format!("Duplicate condition: {name}"))
}

/// 1333
pub fn duplicate_cursor(name: impl Display) -> SqlError {
    SqlError::new(1333, "42000", format!("Duplicate cursor: {name}"))
}

/// 1336
pub fn not_in_function(what: impl Display) -> SqlError {
    let text = format!("{what} is not allowed in stored function or trigger");
    SqlError::new(1336, "0A000", text)
}

/// 1337
pub fn variable_after_cursor() -> SqlError {
    let text = "Variable or condition declaration after cursor or handler declaration";
    SqlError::new(1337, "42000", text)
}

/// 1338
pub fn cursor_after_handler() -> SqlError {
    SqlError::new(
        1338,
        "42000",
        "Cursor declaration after handler declaration",
    )
}

/// 1339
pub fn case_not_found() -> SqlError {
    SqlError::new(1339, "20000", "Case not found for CASE statement")
}

/// 1357
pub fn no_drop_in_routine(kind: impl Display) -> SqlError {
    let text = format!("Can't drop or alter a {kind} from within another stored routine");
    SqlError::new(1357, "HY000", text)
}

/// 1362: `when` is `after ` or nothing.
pub fn row_not_updatable(row: impl Display, when: impl Display) -> SqlError {
    let text = format!("Updating of {row} row is not allowed in {when}trigger");
    SqlError::new(1362, "HY000", text)
}

/// 1363
pub fn no_such_row(row: impl Display, event: impl Display) -> SqlError {
    let text = format!("There is no {row} row in on {event} trigger");
    SqlError::new(1363, "HY000", text)
}

/// 1370: `command` is in lower case.
pub fn routine_denied(
    command: impl Display,
    (user, host): (impl Display, impl Display),
    routine: impl Display,
) -> SqlError {
    let text =
        format!("{command} command denied to user '{user}'@'{host}' for routine '{routine}'");
    SqlError::new(1370, "42000", text)
}

/// 1407
pub fn bad_sqlstate(state: impl Display) -> SqlError {
    SqlError::new(1407, "42000", format!("Bad SQLSTATE: '{state}'"))
}

/// 1413
pub fn duplicate_handler() -> SqlError {
    let text = "Duplicate handler declared in the same block";
    SqlError::new(1413, "42000", text)
}

/// 1403
pub fn no_such_routine_grant(
    user: impl Display,
    host: impl Display,
    routine: impl Display,
) -> SqlError {
    let text = format!(
        "There is no such grant defined for user '{user}' on host '{host}' on routine '{routine}'"
    );
    SqlError::new(1403, "42000", text)
}

/// 1414
pub fn argument_is_no_variable(nth: usize, routine: impl Display) -> SqlError {
    let text = format!(
        "OUT or INOUT argument {nth} for routine {routine} is not a variable or NEW pseudo-variable in BEFORE trigger"
    );
    SqlError::new(1414, "42000", text)
}

/// 1415
pub fn no_result_set(kind: impl Display) -> SqlError {
    let text = format!("Not allowed to return a result set from a {kind}");
    SqlError::new(1415, "0A000", text)
}

/// 1418
pub fn unsafe_function() -> SqlError {
    let text = "This function has none of DETERMINISTIC, NO SQL, or READS SQL DATA in its declaration and binary \
                logging is enabled (you *might* want to use the less safe log_bin_trust_function_creators variable)";
    SqlError::new(1418, "HY000", text)
}

/// 1419
pub fn function_needs_super() -> SqlError {
    let text = "You do not have the SUPER privilege and binary logging is enabled (you *might* want to use the less \
                safe log_bin_trust_function_creators variable)";
    SqlError::new(1419, "HY000", text)
}

/// 1422
pub fn commit_in_function() -> SqlError {
    let text = "Explicit or implicit commit is not allowed in stored function or trigger.";
    SqlError::new(1422, "HY000", text)
}

/// 1424
pub fn recursive_function() -> SqlError {
    let text = "Recursive stored functions and triggers are not allowed.";
    SqlError::new(1424, "HY000", text)
}

/// 1436: something nests deeper than what is allowed.
pub fn too_deep(what: impl Display) -> SqlError {
    SqlError::new(1436, "HY000", format!("Thread stack overrun:  {what}"))
}

/// 1473
pub fn selects_nest_too_deep() -> SqlError {
    SqlError::new(1473, "HY000", "Too high level of nesting for select")
}

/// 1445
pub fn no_autocommit_in_function() -> SqlError {
    let text = "Not allowed to set autocommit from a stored function or trigger";
    SqlError::new(1445, "HY000", text)
}

/// 1449
pub fn no_such_definer(user: impl Display, host: impl Display) -> SqlError {
    let text = format!("The user specified as a definer ('{user}'@'{host}') does not exist");
    SqlError::new(1449, "HY000", text)
}

/// 1453
pub fn shadowed_variable(name: impl Display) -> SqlError {
    let text = format!("Variable '{name}' must be quoted with `...`, or renamed");
    SqlError::new(1453, "42000", text)
}

/// 1456
pub fn recursion_limit(limit: u64, routine: impl Display) -> SqlError {
    let text = format!(
        "Recursive limit {limit} (as set by the max_sp_recursion_depth variable) was exceeded for routine {routine}"
    );
    SqlError::new(1456, "HY000", text)
}

/// 1458
pub fn wrong_routine_name(name: impl Display) -> SqlError {
    SqlError::new(1458, "42000", format!("Incorrect routine name '{name}'"))
}

/// 1641
pub fn duplicate_condition_item(item: impl Display) -> SqlError {
    let text = format!("Duplicate condition information item '{item}'");
    SqlError::new(1641, "42000", text)
}

/// 1645
pub fn resignal_without_handler() -> SqlError {
    SqlError::new(1645, "0K000", "RESIGNAL when handler not active")
}

/// 1646
pub fn signal_needs_sqlstate() -> SqlError {
    let text = "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE";
    SqlError::new(1646, "HY000", text)
}

/// 1648
pub fn condition_item_too_long(item: impl Display) -> SqlError {
    let text = format!("Data too long for condition item '{item}'");
    SqlError::new(1648, "HY000", text)
}

/// 1758
pub fn wrong_condition_number() -> SqlError {
    SqlError::new(1758, "35000", "Invalid condition number")
}

/// 3004
pub fn no_stacked_diagnostics() -> SqlError {
    let text = "GET STACKED DIAGNOSTICS when handler not active";
    SqlError::new(3004, "0Z002", text)
}

/// 6000: there is no language of this name.
pub fn unsupported_language(language: impl Display) -> SqlError {
    SqlError::new(
        6000,
        "HY000",
        format!("Language '{language}' is not supported"),
    )
}
