//! Optimizer hints about the statement as a whole: SET_VAR, MAX_EXECUTION_TIME and RESOURCE_GROUP.
//!
//! Neighbours: `run` asks before a statement runs, `step` says when it has ended; hints about query blocks are the
//! binder's. **Invariants**: variables that a hint has set have their old values again when the statement ends, however
//! it ends; what is wrong with a hint is a warning.

use std::time::Duration;

use esker_sql_catalog::variables::VarId;
use esker_sql_syntax::ast::{BlockHints, Ident, Literal, Query, Statement, StatementHints};
use esker_types::ctx::Raised;
use esker_types::{Level, Value};

use super::Session;

/// Variables that SET_VAR may set, in order; MySQL's list.
#[rustfmt::skip] // several in a line
const SETTABLE: &[&str] = &[
    "auto_increment_increment", "auto_increment_offset", "big_tables", "bulk_insert_buffer_size",
    "cte_max_recursion_depth", "default_table_encryption", "default_tmp_storage_engine", "div_precision_increment",
    "end_markers_in_json", "eq_range_index_dive_limit", "foreign_key_checks", "group_concat_max_len", "insert_id",
    "internal_tmp_mem_storage_engine", "join_buffer_size", "lock_wait_timeout", "max_error_count",
    "max_execution_time", "max_heap_table_size", "max_join_size", "max_length_for_sort_data",
    "max_points_in_geometry", "max_seeks_for_key", "max_sort_length", "optimizer_max_subgraph_pairs",
    "optimizer_prune_level", "optimizer_search_depth", "optimizer_switch", "range_alloc_block_size",
    "range_optimizer_max_mem_size", "read_buffer_size", "read_rnd_buffer_size", "secondary_engine_cost_threshold",
    "select_into_buffer_size", "select_into_disk_sync", "select_into_disk_sync_delay", "set_operations_buffer_size",
    "sort_buffer_size", "sql_auto_is_null", "sql_big_selects", "sql_buffer_result", "sql_mode",
    "sql_require_primary_key", "sql_safe_updates", "sql_select_limit", "time_zone", "timestamp", "tmp_table_size",
    "unique_checks", "updatable_views_with_limit", "use_secondary_engine", "windowing_use_high_precision",
    "xa_detach_on_prepare",
];

/// Resource groups there are.
const GROUPS: [&str; 2] = ["USR_default", "SYS_default"];

/// The hints of a statement, if it has any.
pub(super) fn of(statement: &Statement) -> Option<&StatementHints> {
    block_hints(statement).and_then(BlockHints::statement)
}

fn block_hints(statement: &Statement) -> Option<&BlockHints> {
    match statement {
        Statement::Query(query) => query.hints(),
        Statement::Insert(insert) => insert.hints.as_deref().or_else(|| insert.query()?.hints()),
        Statement::Update(update) => update.hints.as_deref(),
        Statement::Delete(delete) => delete.hints.as_deref(),
        Statement::Explain(explain) => explain.analyzed_query()?.hints(),
        _ => None,
    }
}

fn value_of(literal: &Literal) -> Value {
    match literal {
        Literal::Int(v) => Value::Int(i64::try_from(*v).unwrap_or(i64::MAX)),
        Literal::Str { bytes, .. } => Value::Str(bytes.clone()),
        _ => Value::Null,
    }
}

/// Numbers of the warnings about hints, but for those about variables.
const WARNINGS: [u16; 6] = [1064, 3125, 3126, 3127, 3128, 3614];

/// Leaves only warnings about hints.
pub(super) fn only_about_hints(raised: &mut Raised) {
    raised
        .kept
        .retain(|warning| WARNINGS.contains(&warning.code));
    raised.count = raised.kept.len() as u64;
}

/// MAX_EXECUTION_TIME of a query.
pub(super) fn time_limit(query: &Query) -> Option<Duration> {
    let millis = query.hints()?.statement()?.max_execution_millis;
    let millis = millis.filter(|millis| *millis > 0)?;
    Some(Duration::from_millis(millis.into()))
}

impl Session {
    /// Gives variables their values for this statement, and warns of those that cannot be set.
    pub(super) fn obey_hints(&mut self, hints: &StatementHints) {
        // A statement that has waited begins again.
        self.end_hints();
        if !hints.variables.is_empty() {
            let before = self.values.clone();
            for (name, value) in &hints.variables {
                self.set_by_hint(name, value);
            }
            self.values_before_hints = Some(Box::new(before));
            self.refresh_or_keep();
        }
        if let Some(group) = &hints.resource_group
            && !GROUPS.iter().any(|known| group.is(known))
        {
            let text = format!("Resource Group '{}' does not exist.", group.text);
            self.warn(Level::Warning, 3651, text);
        }
    }

    fn set_by_hint(&mut self, name: &Ident, value: &Literal) {
        let Ok(id) = VarId::find(&name.text) else {
            let text = format!("Unresolved name '{}' for SET_VAR hint", name.text);
            return self.warn(Level::Warning, 3128, text);
        };
        if !SETTABLE.contains(&id.def().name) {
            let text = format!(
                "Variable '{}' cannot be set using SET_VAR hint.",
                id.def().name
            );
            return self.warn(Level::Warning, 3637, text);
        }
        let given = value_of(value);
        let taken = self.context.check_special(id, Some(&given));
        let globals = &self.context.instance.globals;
        match taken.and_then(|()| self.values.set(globals, id, Some(&given))) {
            Ok(taken) if taken.clamped => {
                let shown = match &given {
                    Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
                    Value::Int(v) => v.to_string(),
                    _ => String::new(),
                };
                let text = format!("Truncated incorrect {} value: '{shown}'", id.def().name);
                self.warn(Level::Warning, 1292, text);
            }
            Ok(_) => {}
            Err(e) => self.warn(Level::Warning, e.code, e.message),
        }
    }

    /// Derives the hot variables; values that do not go together are not taken.
    fn refresh_or_keep(&mut self) {
        if let Err(e) = self.refresh_vars() {
            self.warn(Level::Warning, e.code, e.message);
            self.end_hints();
        }
    }

    /// The statement has ended: variables have their own values again.
    pub(super) fn end_hints(&mut self) {
        if let Some(before) = self.values_before_hints.take() {
            self.values = *before;
            self.refresh_vars()
                .expect("values that were in force before the statement");
        }
    }
}
