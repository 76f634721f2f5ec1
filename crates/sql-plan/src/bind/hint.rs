//! Optimizer hints of a query block, told to its tables.
//!
//! Neighbours: the parser has sorted the hints out (`ast::hint`); `select` and the search for changed rows ask when
//! their tables are bound; `access`, `merge` and `join_order` obey what is noted here.
//! **Invariants**: a hint changes how rows are found, never which; a name that no table or index has is a warning. What
//! the planner has no choice about (batched key access, semi-joins, …) is accepted and changes nothing.

use std::sync::Arc;

use esker_sql_catalog::catalog::{TableDef, same_name};
use esker_sql_syntax::ast::{
    BlockHints, HintKind, HintSwitch, HintsOfBlock, Ident, IndexHint, IndexHintKind,
    IndexHintScope, JoinOrderKind,
};
use esker_types::Level;

use super::BindEnv;
use super::scope::{Scope, ScopeTable};

/// How a table is to be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinHint {
    /// By a hash join where an equality allows one.
    Hashed,
    /// Not read into memory as a whole.
    Nested,
}

/// What hints say of a table, but for its indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableHints {
    /// A derived table is filled first.
    pub unmerged: bool,
    /// How it is joined.
    pub join: Option<JoinHint>,
    /// A disjunction does not read several of its indexes.
    pub without_union: bool,
    /// Entries of its indexes decide no conditions before rows are read.
    pub without_entry_conds: bool,
    /// No index is read behind every value of its first part.
    pub without_skips: bool,
}

/// Tables of a block that come in this order, by alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinOrder {
    /// Where they come.
    pub kind: JoinOrderKind,
    /// The tables.
    pub tables: Vec<Arc<str>>,
}

/// What hints say of the order of a block's tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockOrder {
    /// As written.
    pub is_fixed: bool,
    /// Some of them in some order.
    pub orders: Vec<JoinOrder>,
}

fn warn(env: &BindEnv<'_>, code: u16, text: String) {
    env.ctx.warn(Level::Warning, code, text);
}

fn unresolved(env: &BindEnv<'_>, what: &str, hint: &str) {
    warn(env, 3128, format!("Unresolved name {what} for {hint} hint"));
}

/// Tells the tables of a block what its hints say, and warns of what is wrong with them.
pub fn apply_hints(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    hints: Option<&BlockHints>,
) -> BlockOrder {
    let Some(own) = hints.and_then(BlockHints::own) else {
        return BlockOrder::default();
    };
    for (code, text) in &own.notes {
        warn(env, *code, text.clone());
    }
    for switch in &own.switches {
        apply_switch(env, &mut scope.tables, own, switch);
    }
    for table in &mut scope.tables {
        let used = own.switches.iter().filter(|s| s.kind.is_index_use());
        let used: Vec<_> = used.filter(|s| is_about(s, table)).collect();
        if !used.is_empty() {
            // Hints of this kind replace USE INDEX and its kin.
            table.hints = used
                .into_iter()
                .filter_map(|s| index_hint(s, table))
                .collect();
        }
    }
    BlockOrder {
        is_fixed: own.fixed_order,
        orders: orders(env, &scope.tables, own),
    }
}

/// Warns of what is wrong with the hints of a statement that writes into a table and reads none.
pub fn check_hints(env: &BindEnv<'_>, table: &Arc<TableDef>, hints: Option<&BlockHints>) {
    let mut scope = Scope::inside(None, None);
    scope.add_table(ScopeTable::base(table.clone(), None));
    apply_hints(env, &mut scope, hints);
}

fn find<'t>(tables: &'t [ScopeTable], name: &Ident) -> Option<&'t ScopeTable> {
    tables
        .iter()
        .find(|table| same_name(&table.alias, &name.text))
}

fn is_about(switch: &HintSwitch, table: &ScopeTable) -> bool {
    let named = switch.table.as_ref();
    named.is_some_and(|name| same_name(&table.alias, &name.text)) && has_indexes(switch, table)
}

/// Has the table all the indexes that the hint names?
fn has_indexes(switch: &HintSwitch, table: &ScopeTable) -> bool {
    let def = table.base_def();
    let mut indexes = switch.indexes.iter();
    indexes.all(|i| def.is_some_and(|def| def.index_position(&i.text).is_some()))
}

fn apply_switch(
    env: &BindEnv<'_>,
    tables: &mut [ScopeTable],
    own: &HintsOfBlock,
    switch: &HintSwitch,
) {
    if let Some(name) = &switch.table {
        let shown = format!("`{}`@`{}`", name.text, own.name);
        match find(tables, name) {
            None => return unresolved(env, &shown, switch.name),
            Some(table) => {
                for index in &switch.indexes {
                    let def = table.base_def();
                    if def.is_none_or(|def| def.index_position(&index.text).is_none()) {
                        unresolved(env, &format!("{shown} `{}`", index.text), switch.name);
                    }
                }
            }
        }
    }
    let named = switch.table.as_ref();
    for table in tables {
        if named.is_some_and(|name| !same_name(&table.alias, &name.text)) {
            continue;
        }
        match (switch.kind, switch.on) {
            (HintKind::Merge, on) => table.told.unmerged = !on,
            (HintKind::IndexMerge, on) if switch.indexes.is_empty() => {
                table.told.without_union = !on
            }
            (HintKind::ConditionInIndex, on) if switch.indexes.is_empty() => {
                table.told.without_entry_conds = !on
            }
            (HintKind::SkipScan, on) if switch.indexes.is_empty() => table.told.without_skips = !on,
            (HintKind::Bnl | HintKind::HashJoin, false) => table.told.join = Some(JoinHint::Nested),
            (HintKind::Bnl | HintKind::HashJoin, true) if named.is_some() => {
                table.told.join = Some(JoinHint::Hashed)
            }
            _ => {}
        }
    }
}

/// The same as USE INDEX and its kin say it; `None`: nothing is asked for.
fn index_hint(switch: &HintSwitch, table: &ScopeTable) -> Option<IndexHint> {
    let scope = match switch.kind {
        HintKind::JoinIndex => Some(IndexHintScope::Join),
        HintKind::GroupIndex => Some(IndexHintScope::GroupBy),
        HintKind::OrderIndex => Some(IndexHintScope::OrderBy),
        _ => None,
    };
    let all = || {
        let def = table.base_def()?;
        let named = def.indexes.iter().filter(|i| !i.hidden);
        Some(named.map(|i| Ident::new(&*i.name)).collect())
    };
    let (kind, indexes) = match (switch.on, switch.indexes.as_slice()) {
        (true, []) => return None,
        (true, indexes) => (IndexHintKind::Force, indexes.to_vec()),
        (false, []) => (IndexHintKind::Ignore, all()?),
        (false, indexes) => (IndexHintKind::Ignore, indexes.to_vec()),
    };
    Some(IndexHint {
        kind,
        scope,
        indexes,
    })
}

fn orders(env: &BindEnv<'_>, tables: &[ScopeTable], own: &HintsOfBlock) -> Vec<JoinOrder> {
    let mut orders = Vec::new();
    for hint in &own.orders {
        let missing = hint.tables.iter().find(|name| find(tables, name).is_none());
        if let Some(name) = missing {
            unresolved(env, &format!("`{}`", name.text), hint.name);
            continue;
        }
        let found = hint.tables.iter().filter_map(|name| find(tables, name));
        orders.push(JoinOrder {
            kind: hint.kind,
            tables: found.map(|table| table.alias.clone()).collect(),
        });
    }
    orders
}
