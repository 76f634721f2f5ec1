//! Errors about definitions: names, columns, keys, tablespaces and views.
//!
//! Neighbours: the DDL of the SQL crate, the binder's types. **Invariant**: as in the parent, in the order of the
//! numbers.

use std::fmt::Display;

use crate::error::SqlError;

/// 1059
pub fn name_too_long(name: impl Display) -> SqlError {
    SqlError::new(
        1059,
        "42000",
        format!("Identifier name '{name}' is too long"),
    )
}

/// 1068
pub fn multiple_primary_keys() -> SqlError {
    SqlError::new(1068, "42000", "Multiple primary key defined")
}

/// 1061
pub fn duplicate_key_name(name: impl Display) -> SqlError {
    SqlError::new(1061, "42000", format!("Duplicate key name '{name}'"))
}

/// 1060
pub fn duplicate_column(name: impl Display) -> SqlError {
    SqlError::new(1060, "42S21", format!("Duplicate column name '{name}'"))
}

/// 1063
pub fn wrong_column_specifier(column: impl Display) -> SqlError {
    let text = format!("Incorrect column specifier for column '{column}'");
    SqlError::new(1063, "42000", text)
}

/// 1067
pub fn invalid_default(column: impl Display) -> SqlError {
    SqlError::new(
        1067,
        "42000",
        format!("Invalid default value for '{column}'"),
    )
}

/// 1102
pub fn wrong_schema_name(name: &str) -> SqlError {
    let text = format!("Incorrect database name '{name}'");
    SqlError::new(1102, "42000", text)
}

/// 1103
pub fn wrong_table_name(name: &str) -> SqlError {
    SqlError::new(1103, "42000", format!("Incorrect table name '{name}'"))
}

/// 1166
pub fn wrong_column_name(name: &str) -> SqlError {
    /// How much of the name the error repeats, bytes.
    const SHOWN: usize = 100;
    let name = &name[..name.floor_char_boundary(SHOWN)];
    SqlError::new(1166, "42000", format!("Incorrect column name '{name}'"))
}

/// 3061
pub fn illegal_user_variable(name: &str) -> SqlError {
    let text = format!("User variable name '{name}' is illegal");
    SqlError::new(3061, "42000", text)
}

/// 3939: a CHECK constraint, a foreign key and a unique index may share a name.
pub fn several_constraints(name: impl Display, clause: &str) -> SqlError {
    let text = format!(
        "Table has multiple constraints with the name '{name}'. Please use constraint specific '{clause}' clause."
    );
    SqlError::new(3939, "HY000", text)
}

/// 1117
pub fn too_many_columns() -> SqlError {
    SqlError::new(1117, "HY000", "Too many columns")
}

/// 1070
pub fn too_many_key_parts(most: usize) -> SqlError {
    let text = format!("Too many key parts specified; max {most} parts allowed");
    SqlError::new(1070, "42000", text)
}

/// 1350: `clause` of a view's query.
pub fn view_with_clause(clause: impl Display) -> SqlError {
    let text = format!("View's SELECT contains a '{clause}' clause");
    SqlError::new(1350, "HY000", text)
}

/// 1351
pub fn view_with_variable() -> SqlError {
    let text = "View's SELECT contains a variable or parameter";
    SqlError::new(1351, "HY000", text)
}

/// 1280
pub fn wrong_index_name(name: impl Display) -> SqlError {
    SqlError::new(1280, "42000", format!("Incorrect index name '{name}'"))
}

/// 1353
pub fn view_columns_differ() -> SqlError {
    let text = "In definition of view, derived table or common table expression, SELECT list and \
                column names list have different column counts";
    SqlError::new(1353, "HY000", text)
}

/// 1425
pub fn scale_too_big(scale: impl Display, column: impl Display, max: impl Display) -> SqlError {
    let text = format!("Too big scale {scale} specified for column '{column}'. Maximum is {max}.");
    SqlError::new(1425, "42000", text)
}

/// 1426
pub fn precision_too_big(
    precision: impl Display,
    column: impl Display,
    max: impl Display,
) -> SqlError {
    let text = format!("Too-big precision {precision} specified for '{column}'. Maximum is {max}.");
    SqlError::new(1426, "42000", text)
}

/// 1427
pub fn scale_above_precision(column: impl Display) -> SqlError {
    let text =
        format!("For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}').");
    SqlError::new(1427, "42000", text)
}

/// 1439
pub fn width_out_of_range(column: impl Display, max: impl Display) -> SqlError {
    let text = format!("Display width out of range for column '{column}' (max = {max})");
    SqlError::new(1439, "42000", text)
}

/// 3510
pub fn no_such_tablespace(name: &str) -> SqlError {
    SqlError::new(3510, "HY000", format!("Tablespace {name} doesn't exist."))
}

/// 3522
pub fn invisible_primary_key() -> SqlError {
    SqlError::new(3522, "HY000", "A primary key index cannot be invisible")
}

/// 3821
pub fn unknown_check(name: impl Display) -> SqlError {
    let text = format!("Check constraint '{name}' is not found in the table.");
    SqlError::new(3821, "HY000", text)
}

/// 3940
pub fn unknown_constraint(name: impl Display) -> SqlError {
    SqlError::new(
        3940,
        "HY000",
        format!("Constraint '{name}' does not exist."),
    )
}

/// 4028
pub fn no_visible_column() -> SqlError {
    let text = "A table must have at least one visible column.";
    SqlError::new(4028, "HY000", text)
}

/// 1148 for `DISCARD TABLESPACE` and `IMPORT TABLESPACE` of a table whose rows are in no file of its own.
pub fn not_file_per_table(verb: &str, schema: &str, table: &str) -> SqlError {
    let text = format!(
        "InnoDB: Cannot {verb} table `{schema}/{table}` because it is in a general tablespace. It must be file-per-table."
    );
    SqlError::new(1148, "42000", text)
}

/// 3007
pub fn tablespace_of_temporary() -> SqlError {
    let text = "Cannot DISCARD/IMPORT tablespace associated with temporary table";
    SqlError::new(3007, "HY000", text)
}

/// 3751
pub fn key_part_truncated(index: &str, row: u64) -> SqlError {
    let text = format!("Data truncated for functional index '{index}' at row {row}");
    SqlError::new(3751, "01000", text)
}

/// 3752
pub fn key_part_out_of_range(index: &str, row: u64) -> SqlError {
    let text = format!("Value is out of range for functional index '{index}' at row {row}");
    SqlError::new(3752, "22003", text)
}
