//! The rows that decide `<`, `<=`, `>` and `>=` with ANY and ALL of a subquery: an extreme value, and a NULL.
//!
//! Neighbours: `subquery` keeps them instead of all rows.
//! **Invariant**: a comparison with these rows has the result that one with all rows has.

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::eval::compare_values;
use esker_sql_plan::expr::{CmpOp, rowkey};
use esker_types::Value;
use esker_types::cmp::CmpKind;

use super::Test;
use crate::ExecEnv;

/// What is kept of the rows.
pub(super) struct Extreme {
    /// A value is kept instead of another if it compares so with it.
    better: CmpOp,
    kind: CmpKind,
    value: Option<Value>,
    has_null: bool,
}

impl Extreme {
    /// Of a comparison with one column in an order in which the subquery's values are as they are; `None` for others.
    pub fn of(test: &Test<'_>) -> Option<Self> {
        let ([kind], [column]) = (test.kinds, test.columns) else {
            return None;
        };
        // Greater than all is greater than the greatest, less than any is less than the greatest.
        let is_greatest = match test.op {
            CmpOp::Gt | CmpOp::Ge => test.all,
            CmpOp::Lt | CmpOp::Le => !test.all,
            CmpOp::Eq | CmpOp::Ne | CmpOp::NullSafeEq => return None,
        };
        rowkey::same_representation(&column.ty, &column.ty, *kind).then_some(Self {
            better: match is_greatest {
                true => CmpOp::Gt,
                false => CmpOp::Lt,
            },
            kind: *kind,
            value: None,
            has_null: false,
        })
    }

    pub fn add(&mut self, value: &Value, test: &Test<'_>, env: &ExecEnv<'_>) -> ExecResult<()> {
        debug_assert_eq!(test.columns.len(), 1, "rows are compared by one column");
        if value.is_null() {
            self.has_null = true;
            return Ok(());
        }
        let ty = &test.columns[0].ty;
        let is_better = match &self.value {
            None => true,
            Some(kept) => {
                let better = compare_values(self.better, value, kept, self.kind, (ty, ty), env)?;
                better == Some(true)
            }
        };
        if is_better {
            self.value = Some(value.clone());
        }
        Ok(())
    }

    /// The rows that are kept.
    pub fn into_rows(self) -> Vec<Vec<Value>> {
        let null = self.has_null.then_some(Value::Null);
        self.value
            .into_iter()
            .chain(null)
            .map(|value| vec![value])
            .collect()
    }
}
