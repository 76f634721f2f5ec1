//! Errors of name resolution and typing, in MySQL's words.
//!
//! Neighbours: every part of `bind`. Errors that other rooms raise, too, are those of `esker_types::errors`.
//! **Invariant**: one constructor per error, so a text exists once.

use esker_types::SqlError;
pub use esker_types::errors::*;

/// 1052
pub fn ambiguous_column(name: &str, clause: &str) -> SqlError {
    SqlError::new(
        1052,
        "23000",
        format!("Column '{name}' in {clause} is ambiguous"),
    )
}

/// 1247
pub fn illegal_reference(name: &str, why: &str) -> SqlError {
    let text = format!("Reference '{name}' not supported ({why})");
    SqlError::new(1247, "42S22", text)
}

/// 3773
pub fn default_expression() -> SqlError {
    let text = "DEFAULT function cannot be used with default value expressions";
    SqlError::new(3773, "HY000", text)
}

/// 1235: CAST (… AS type ARRAY) is not a key part.
pub fn cast_to_array() -> SqlError {
    SqlError::not_supported(
        "Use of CAST( .. AS .. ARRAY) outside of functional index in CREATE(non-SELECT)/ALTER TABLE or in general \
         expressions",
    )
}

/// 1250: ORDER BY of a set operation sees the result alone.
pub fn table_of_operand(table: &str) -> SqlError {
    let text =
        format!("Table '{table}' from one of the SELECTs cannot be used in global ORDER clause");
    SqlError::new(1250, "42000", text)
}

/// 1096
pub fn no_tables_used() -> SqlError {
    SqlError::new(1096, "HY000", "No tables used")
}

/// 1056
pub fn wrong_group_field(name: &str) -> SqlError {
    SqlError::new(1056, "42000", format!("Can't group on '{name}'"))
}

/// 1241
pub fn operand_columns(n: usize) -> SqlError {
    SqlError::new(
        1241,
        "21000",
        format!("Operand should contain {n} column(s)"),
    )
}

/// 1242
pub fn subquery_rows() -> SqlError {
    SqlError::new(1242, "21000", "Subquery returns more than 1 row")
}

/// 1305
pub fn unknown_function(name: &str) -> SqlError {
    does_not_exist("FUNCTION", name)
}

/// 1064 for what the grammar of MySQL refuses but ours does not.
pub fn syntax(near: &str) -> SqlError {
    esker_types::errors::syntax(near, 1)
}

/// 3670
pub fn too_many_nested_paths(table: &str) -> SqlError {
    let message = format!("More than supported 16 NESTED PATHs were found in JSON_TABLE '{table}'");
    SqlError::new(3670, "42000", message)
}

/// 1093
pub fn target_table_used(table: &str) -> SqlError {
    let text = format!("You can't specify target table '{table}' for update in FROM clause");
    SqlError::new(1093, "HY000", text)
}

/// 1140
pub fn mixed_aggregate(nth: usize, clause: &str, column: &str) -> SqlError {
    let text = format!(
        "In aggregated query without GROUP BY, expression #{nth} of {clause} contains \
         nonaggregated column '{column}'; this is incompatible with sql_mode=only_full_group_by"
    );
    SqlError::new(1140, "42000", text)
}

/// 1055
pub fn not_in_group_by(nth: usize, clause: &str, column: &str) -> SqlError {
    let text = format!(
        "Expression #{nth} of {clause} is not in GROUP BY clause and contains nonaggregated column \
         '{column}' which is not functionally dependent on columns in GROUP BY clause; this is \
         incompatible with sql_mode=only_full_group_by"
    );
    SqlError::new(1055, "42000", text)
}

/// 3029
pub fn aggregate_order(nth: usize) -> SqlError {
    let text = format!(
        "Expression #{nth} of ORDER BY contains aggregate function and applies to the result of a non-aggregated query"
    );
    SqlError::new(3029, "HY000", text)
}

/// 3028
pub fn aggregate_order_of_union(nth: usize) -> SqlError {
    let text = format!(
        "Expression #{nth} of ORDER BY contains aggregate function and applies to a UNION, EXCEPT or INTERSECT"
    );
    SqlError::new(3028, "HY000", text)
}

/// 3602; `nth` from 1
pub fn not_grouped_argument(nth: usize) -> SqlError {
    let text = format!("Argument #{nth} of GROUPING function is not in GROUP BY");
    SqlError::new(3602, "HY000", text)
}

/// 3065
pub fn not_in_distinct(nth: usize, column: &str) -> SqlError {
    let text = format!(
        "Expression #{nth} of ORDER BY clause is not in SELECT list, references column '{column}' \
         which is not in SELECT list; this is incompatible with DISTINCT"
    );
    SqlError::new(3065, "HY000", text)
}

/// 3066
pub fn aggregate_not_in_distinct(nth: usize) -> SqlError {
    let text = format!(
        "Expression #{nth} of ORDER BY clause is not in SELECT list, contains aggregate function; \
         this is incompatible with DISTINCT"
    );
    SqlError::new(3066, "HY000", text)
}

/// 3578 to 3597: what is wrong with the windows of a query.
pub mod window {
    use esker_types::SqlError;

    fn error(code: u16, text: String) -> SqlError {
        SqlError::new(code, "HY000", text)
    }

    /// 3579
    pub fn no_such_window(name: &str) -> SqlError {
        error(3579, format!("Window name '{name}' is not defined."))
    }

    /// 3580
    pub fn circularity() -> SqlError {
        let text = "There is a circularity in the window dependency graph.";
        error(3580, text.to_owned())
    }

    /// 3581
    pub fn child_partitions() -> SqlError {
        let text = "A window which depends on another cannot define partitioning.";
        error(3581, text.to_owned())
    }

    /// 3582
    pub fn inherits_frame(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}' has a frame definition, so cannot be referenced by another window."
        );
        error(3582, text)
    }

    /// 3583
    pub fn redefines_order(name: &str, base: &str) -> SqlError {
        let text = format!(
            "Window '{name}' cannot inherit '{base}' since both contain an ORDER BY clause."
        );
        error(3583, text)
    }

    /// 3584
    pub fn start_illegal(name: &str) -> SqlError {
        let text = format!("Window '{name}': frame start cannot be UNBOUNDED FOLLOWING.");
        error(3584, text)
    }

    /// 3585
    pub fn end_illegal(name: &str) -> SqlError {
        let text = format!("Window '{name}': frame end cannot be UNBOUNDED PRECEDING.");
        error(3585, text)
    }

    /// 3586
    pub fn frame_illegal(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}': frame start or end is negative, NULL or of non-integral type"
        );
        error(3586, text)
    }

    /// 3587
    pub fn range_order_type(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}' with RANGE N PRECEDING/FOLLOWING frame requires exactly one \
             deterministic ORDER BY expression, of numeric or temporal type"
        );
        error(3587, text)
    }

    /// 3590
    pub fn frame_not_constant(name: &str) -> SqlError {
        error(
            3590,
            format!("Window '{name}' has a non-constant frame bound."),
        )
    }

    /// 3588
    pub fn range_temporal(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}' with RANGE frame has ORDER BY expression of datetime type. Only \
             INTERVAL bound value allowed."
        );
        error(3588, text)
    }

    /// 3589
    pub fn range_numeric(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}' with RANGE frame has ORDER BY expression of numeric type, INTERVAL \
             bound value not allowed."
        );
        error(3589, text)
    }

    /// 3591
    pub fn defined_twice(name: &str) -> SqlError {
        error(3591, format!("Window '{name}' is defined twice."))
    }

    /// 3592
    pub fn by_position(name: &str) -> SqlError {
        let text = format!(
            "Window '{name}': ORDER BY or PARTITION BY uses legacy position indication which is \
             not supported, use expression."
        );
        error(3592, text)
    }

    /// 3593
    pub fn misplaced(function: &str) -> SqlError {
        let text = format!("You cannot use the window function '{function}' in this context.'");
        error(3593, text)
    }

    /// 3594
    pub fn misplaced_alias(alias: &str) -> SqlError {
        let text = format!(
            "You cannot use the alias '{alias}' of an expression containing a window function in \
             this context.'"
        );
        error(3594, text)
    }

    /// 3595
    pub fn nested(name: &str) -> SqlError {
        let text =
            format!("You cannot nest a window function in the specification of window '{name}'.");
        error(3595, text)
    }

    /// 3596
    pub fn rows_interval(name: &str) -> SqlError {
        let text = format!("Window '{name}': INTERVAL can only be used with RANGE frames.");
        error(3596, text)
    }
}
