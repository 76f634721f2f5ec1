//! JOIN_ORDER, JOIN_PREFIX and JOIN_SUFFIX: further dependencies between the units of a join.
//!
//! Neighbours: `bind::hint` has found the tables; `join_search` respects the dependencies of units.
//! **Invariant**: a hint that cannot be obeyed, because of a lateral table, an outer join or another hint, is left out
//! whole, so an order always exists.

use esker_sql_syntax::ast::JoinOrderKind;

use super::conds::TableSet;
use super::join_order::{Group, Joiner};
use crate::bind::JoinOrder;

impl Joiner<'_> {
    /// Makes the units of a group depend on each other as hints want it.
    pub(super) fn obey_hints(&self, group: &mut Group) {
        for hint in &self.block.orders {
            let Some(deps) = self.dependencies(group, hint) else {
                continue;
            };
            if can_be_ordered(group, &deps) {
                for (unit, deps) in group.units.iter_mut().zip(deps) {
                    unit.deps = deps;
                }
            }
        }
    }

    /// The unit that a table is in.
    fn unit_of(&self, group: &Group, alias: &str) -> Option<usize> {
        let table = self.block.tables.iter().position(|t| *t.alias == *alias)?;
        group
            .units
            .iter()
            .position(|unit| unit.tables >> table & 1 == 1)
    }

    /// Dependencies of all units with those of a hint; `None`: one of its tables is not among them.
    fn dependencies(&self, group: &Group, hint: &JoinOrder) -> Option<Vec<TableSet>> {
        let chain: Option<Vec<usize>> =
            hint.tables.iter().map(|t| self.unit_of(group, t)).collect();
        let chain = chain?;
        let tables = |unit: usize| group.units[unit].tables;
        let mut deps: Vec<TableSet> = group.units.iter().map(|unit| unit.deps).collect();
        for pair in chain.windows(2).filter(|pair| pair[0] != pair[1]) {
            deps[pair[1]] |= tables(pair[0]);
        }
        let others = (0..group.units.len()).filter(|unit| !chain.contains(unit));
        let named = chain.iter().fold(0, |all, unit| all | tables(*unit));
        match hint.kind {
            JoinOrderKind::Order => {}
            JoinOrderKind::Prefix => others.for_each(|unit| deps[unit] |= named),
            JoinOrderKind::Suffix => {
                let others = others.fold(0, |all, unit| all | tables(unit));
                chain.iter().for_each(|unit| deps[*unit] |= others);
            }
        }
        Some(deps)
    }
}

/// Is there an order in which every unit comes behind what it depends on?
fn can_be_ordered(group: &Group, deps: &[TableSet]) -> bool {
    let all = group.units.iter().fold(0, |all, unit| all | unit.tables);
    let mut placed = 0;
    let mut left: Vec<usize> = (0..group.units.len()).collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|unit| {
            let is_ready = deps[*unit] & all & !placed == 0;
            if is_ready {
                placed |= group.units[*unit].tables;
            }
            !is_ready
        });
        if left.len() == before {
            return false;
        }
    }
    true
}
