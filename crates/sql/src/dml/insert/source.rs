//! Names of a query's tables in ON DUPLICATE KEY UPDATE of INSERT … SELECT.
//!
//! Neighbours: `compile` binds the assignments, `run` keeps the values beside the row, `conflict` hands them over.
//! **Invariant**: a column of the query's tables has the same slot in the assignments whether it is read or not,
//! behind the existing and the new row; the query selects those that are read, behind the row's own values.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::{Block, Body, BoundQuery, ColumnAt, Scope, TableKind};
use esker_sql_plan::expr::Expr;

use crate::dml::change::RowChanger;

/// The block whose tables can be named: that of a query without grouping and set operations.
fn named(body: &Body) -> Option<&Block> {
    match body {
        Body::Block(block) if block.group.is_none() => Some(block),
        _ => None,
    }
}

/// Makes the query's tables known, their columns from slot `base` on.
pub(super) fn add_tables(scope: &mut Scope<'_>, query: &BoundQuery, mut base: u32) {
    let Some(block) = named(&query.body) else {
        return;
    };
    let (first, own_names) = (scope.tables.len(), scope.names.len());
    for table in &block.tables {
        let columns: Vec<_> = table
            .columns
            .iter()
            .map(|c| (c.name.clone(), c.ty.clone()))
            .collect();
        scope.add_named_row(&table.alias, &columns, base);
        if let Some(added) = scope.tables.last_mut() {
            added.schema = table.schema.clone();
            added.restricted = table.restricted.clone();
            // DEFAULT(column) asks it.
            if matches!(table.kind, TableKind::Base(_) | TableKind::Derived(_)) {
                added.kind = table.kind.clone();
            }
        }
        base += columns.len() as u32;
    }
    // A column that USING or NATURAL made one of two has one name without a table.
    scope.names.truncate(own_names);
    let names = block.names.iter().map(|at| ColumnAt {
        table: first + at.table,
        ..*at
    });
    scope.names.extend(names);
}

/// Lets the query select what the assignments read of its tables: the slots of that, counted from the first column
/// of the tables.
/// Equal rows of a DISTINCT query are one whatever is read beside them.
pub(super) fn select_read(
    query: &mut BoundQuery,
    target: &TableDef,
    changer: &RowChanger,
) -> Vec<(usize, usize)> {
    let base = 2 * target.columns.len() as u32;
    let mut read = Vec::new();
    changer.slots(&mut |slot| {
        if let Some(slot) = slot.checked_sub(base)
            && !read.contains(&slot)
        {
            read.push(slot);
        }
    });
    let Body::Block(block) = &mut query.body else {
        return Vec::new();
    };
    let (mut columns, mut places) = (query.columns.to_vec(), Vec::with_capacity(read.len()));
    for slot in read {
        let Some(at) = place_of(block, slot) else {
            continue;
        };
        let value = column(block, at);
        let selected = block
            .output
            .iter()
            .position(|o| o.as_column() == value.as_column());
        let place = match selected {
            Some(place) => place,
            None => {
                let name = block.tables[at.table].columns[at.column].name.clone();
                columns.push(ColumnMeta::computed(name, value.ty.clone()));
                block.output.push(value);
                block.beside += 1;
                block.output.len() - 1
            }
        };
        places.push((place, slot as usize));
    }
    query.columns = columns.into();
    places
}

/// Table and column by the number of the column among those of all tables.
fn place_of(block: &Block, slot: u32) -> Option<ColumnAt> {
    let mut column = slot as usize;
    for (table, t) in block.tables.iter().enumerate() {
        if column < t.columns.len() {
            return Some(ColumnAt { table, column });
        }
        column -= t.columns.len();
    }
    None
}

/// The column over the block's row.
fn column(block: &mut Block, at: ColumnAt) -> Expr {
    let table = &block.tables[at.table];
    let slot = *table.slots.borrow_mut()[at.column].get_or_insert_with(|| {
        block.width += 1;
        block.width - 1
    });
    Expr::column(slot, table.columns[at.column].ty.clone())
}
