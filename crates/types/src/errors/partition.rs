//! Errors about partitions.
//!
//! Neighbours: the parser, the binder and `ddl` raise them. **Invariant**: one constructor per MySQL error number.

use std::fmt::Display;

use crate::error::SqlError;

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident $code:literal $text:literal;)*) => {
        $($(#[$doc])* pub fn $name() -> SqlError {
            SqlError::new($code, "HY000", $text)
        })*
    };
}

fixed! {
    /// 1481
    maxvalue_not_last 1481 "MAXVALUE can only be used in last partition definition";
    /// 1486
    constant_partition_function 1486
        "Constant, random or timezone-dependent expressions in (sub)partitioning function are not allowed";
    /// 1488
    partition_field_missing 1488 "Field in list of fields for partition function not found in table";
    /// 1491
    partition_function_type 1491 "The PARTITION function returns the wrong type";
    /// 1493
    range_not_increasing 1493 "VALUES LESS THAN value must be strictly increasing for each partition";
    /// 1495
    repeated_list_constant 1495 "Multiple definition of same constant in list partitioning";
    /// 1497
    mixed_handlers 1497 "The mix of handlers in the partitions is not allowed in this version of MySQL";
    /// 1499
    too_many_partitions 1499 "Too many partitions (including subpartitions) were defined";
    /// 1500
    subpartitions_of_hash 1500
        "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for subpartitioning";
    /// 1502
    blob_in_partition_function 1502 "A BLOB field is not allowed in partition function";
    /// 1505
    management_without_partitions 1505 "Partition management on a not partitioned table is not possible";
    /// 1506
    partitioned_foreign_key 1506 "Foreign keys are not yet supported in conjunction with partitioning";
    /// 1508
    cannot_drop_all_partitions 1508 "Cannot remove all partitions, use DROP TABLE instead";
    /// 1509
    coalesce_only_hash 1509 "COALESCE PARTITION can only be used on HASH/KEY partitions";
    /// 1510
    reorganize_hash 1510 "REORGANIZE PARTITION can only be used to reorganize partitions not to change their numbers";
    /// 1511
    reorganize_without_parameters 1511
        "REORGANIZE PARTITION without parameters can only be used on auto-partitioned tables using HASH \
         PARTITIONs";
    /// 1513
    wrong_number_of_subpartitions 1513 "Trying to Add partition(s) with wrong number of subpartitions";
    /// 1514
    add_no_partition 1514 "At least one partition must be added";
    /// 1515
    coalesce_no_partition 1515 "At least one partition must be coalesced";
    /// 1516
    reorganize_into_more 1516 "More partitions to reorganize than there are partitions";
    /// 1519
    reorganize_not_adjacent 1519 "When reorganizing a set of partitions they must be in consecutive order";
    /// 1520
    reorganize_outside_range 1520
        "Reorganize of range partitions cannot change total ranges except for last partition where it can \
         extend the range";
    /// 1562
    partitioned_temporary 1562 "Cannot create temporary table with partitions";
    /// 1563
    constant_out_of_domain 1563 "Partition constant is out of partition function domain";
    /// 1564
    partition_function_not_allowed 1564 "This partition function is not allowed";
    /// 1566
    null_in_less_than 1566 "Not allowed to use NULL value in VALUES LESS THAN";
    /// 1567
    wrong_partition_name 1567 "Incorrect partition name";
    /// 1657
    several_range_values 1657 "Cannot have more than one value for this type of RANGE partitioning";
    /// 1485
    mismatched_subpartitions 1485 "Wrong number of subpartitions defined, mismatch with previous setting";
    /// 1653
    inconsistent_column_list 1653 "Inconsistency in usage of column lists for partitioning";
    /// 1654
    partition_value_type 1654 "Partition column values of incorrect type";
    /// 1660
    partition_fields_too_long 1660 "The total length of the partitioning fields is too large";
    /// 1748
    row_outside_partitions 1748 "Found a row not matching the given partition set";
    /// 1747
    not_partitioned 1747 "PARTITION () clause on non partitioned table";
    /// 1734
    exchange_needs_subpartition 1734 "Subpartitioned table, use subpartition instead of partition";
    /// 1736
    exchange_different_definitions 1736 "Tables have different definitions";
    /// 1737
    exchange_row_outside 1737 "Found a row that does not match the partition";
}

/// 1178
pub fn engine_without(what: &str) -> SqlError {
    let text = format!("The storage engine for the table doesn't support {what}");
    SqlError::new(1178, "42000", text)
}

/// 1480
pub fn wrong_partition_values(kind: &str, values: &str) -> SqlError {
    let text = format!("Only {kind} PARTITIONING can use VALUES {values} in partition definition");
    SqlError::new(1480, "HY000", text)
}

/// 1479
pub fn missing_partition_values(kind: &str, values: &str) -> SqlError {
    let text = format!(
        "Syntax error: {kind} PARTITIONING requires definition of VALUES {values} for each partition"
    );
    SqlError::new(1479, "HY000", text)
}

/// 1492
pub fn partitions_must_be_defined(kind: &str) -> SqlError {
    let text = format!("For {kind} partitions each partition must be defined");
    SqlError::new(1492, "HY000", text)
}

/// 1503
pub fn unique_without_partition_columns(kind: &str) -> SqlError {
    let text = format!(
        "A {kind} must include all columns in the table's partitioning function (prefixed columns are not considered)."
    );
    SqlError::new(1503, "HY000", text)
}

/// 1507
pub fn partitions_not_found(action: impl Display) -> SqlError {
    SqlError::new(
        1507,
        "HY000",
        format!("Error in list of partitions to {action}"),
    )
}

/// 1512
pub fn only_on_range_list(action: &str) -> SqlError {
    let text = format!("{action} PARTITION can only be used on RANGE/LIST partitions");
    SqlError::new(1512, "HY000", text)
}

/// 1517
pub fn duplicate_partition(name: &str) -> SqlError {
    SqlError::new(1517, "HY000", format!("Duplicate partition name {name}"))
}

/// 1526
pub fn no_partition_for(value: impl Display) -> SqlError {
    let text = format!("Table has no partition for value {value}");
    SqlError::new(1526, "HY000", text)
}

/// 1652
pub fn duplicate_partition_field(name: &str) -> SqlError {
    SqlError::new(
        1652,
        "HY000",
        format!("Duplicate partition field name '{name}'"),
    )
}

/// 1659
pub fn partition_field_type(name: &str) -> SqlError {
    let text = format!("Field '{name}' is of a not allowed type for this type of partitioning");
    SqlError::new(1659, "HY000", text)
}

/// 1697
pub fn partition_value_not_int(partition: &str) -> SqlError {
    let text = format!("VALUES value for partition '{partition}' must have type INT");
    SqlError::new(1697, "HY000", text)
}

/// 1731
pub fn exchange_different_options(what: &str) -> SqlError {
    let text = format!("Non matching attribute '{what}' between partition and table");
    SqlError::new(1731, "HY000", text)
}

/// 1732
pub fn exchange_with_partitioned(table: &str) -> SqlError {
    let text = format!("Table to exchange with partition is partitioned: '{table}'");
    SqlError::new(1732, "HY000", text)
}

/// 1733
pub fn exchange_with_temporary(table: &str) -> SqlError {
    let text = format!("Table to exchange with partition is temporary: '{table}'");
    SqlError::new(1733, "HY000", text)
}

/// 1504; `what`: partitions or subpartitions.
pub fn no_partitions(what: &str) -> SqlError {
    let text = format!("Number of {what} = 0 is not an allowed value");
    SqlError::new(1504, "HY000", text)
}

/// 1655; `place`: what has them.
pub fn too_many_partition_fields(place: &str) -> SqlError {
    SqlError::new(1655, "HY000", format!("Too many fields in '{place}'"))
}

/// 1740
pub fn exchange_with_foreign_keys(table: &str) -> SqlError {
    let text = format!("Table to exchange with partition has foreign key references: '{table}'");
    SqlError::new(1740, "HY000", text)
}

/// 1735
pub fn unknown_partition(name: &str, table: &str) -> SqlError {
    let text = format!("Unknown partition '{name}' in table '{table}'");
    SqlError::new(1735, "HY000", text)
}

/// 3855
pub fn partition_dependency(column: &str) -> SqlError {
    let text = format!(
        "Column '{column}' has a partitioning function dependency and cannot be dropped or renamed."
    );
    SqlError::new(3855, "HY000", text)
}
