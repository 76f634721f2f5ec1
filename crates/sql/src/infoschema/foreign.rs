//! Rows about foreign keys.
//!
//! Neighbours: `objects` asks for each table that the account may see; `catalog::foreign` has the definitions.
//! **Invariant**: a key gives its rows whether its parent exists or not; only then the name of the parent's index is
//! known.

use esker_sql_catalog::catalog::{ForeignKeyDef, ReferentialAction, TableDef};
use esker_types::Value;

use super::{Viewer, optional, text};

type Rows = Vec<Vec<Value>>;

/// KEY_COLUMN_USAGE, of columns that `shows` lets through.
pub(super) fn column_usage(table: &TableDef, shows: &dyn Fn(&str) -> bool, out: &mut Rows) {
    for key in table.sorted_foreign_keys() {
        let all = columns(table, key).enumerate();
        for (nth, (child, parent)) in all.filter(|(_, (child, _))| shows(child)) {
            let place = || Value::UInt(nth as u64 + 1);
            out.push(vec![
                text("def"),
                text(&table.schema),
                text(&key.name),
                text("def"),
                text(&table.schema),
                text(&table.name),
                text(child),
                place(),
                place(),
                text(&key.parent.0),
                text(&key.parent.1),
                text(parent),
            ]);
        }
    }
}

/// REFERENTIAL_CONSTRAINTS.
pub(super) fn constraints(viewer: &Viewer, table: &TableDef, out: &mut Rows) {
    for key in table.sorted_foreign_keys() {
        let parent = viewer
            .instance
            .catalog
            .resolve(&key.parent.0, &key.parent.1);
        let unique = parent.as_ref().and_then(|parent| {
            let index = parent.key_index(&key.parent_ordinals(parent)?)?;
            let index = &parent.indexes[index.at];
            index.unique.then_some(&*index.name)
        });
        out.push(vec![
            text("def"),
            text(&table.schema),
            text(&key.name),
            text("def"),
            text(&key.parent.0),
            optional(unique),
            text("NONE"),
            text(key.on_update.word()),
            text(key.on_delete.word()),
            text(&table.name),
            text(&key.parent.1),
        ]);
    }
}

fn id_of(table: &TableDef, key: &ForeignKeyDef) -> Value {
    text(format!("{}/{}", table.schema, key.name))
}

/// INNODB_FOREIGN.
pub(super) fn keys(_: &Viewer, table: &TableDef, out: &mut Rows) {
    for key in table.sorted_foreign_keys() {
        out.push(vec![
            id_of(table, key),
            text(format!("{}/{}", table.schema, table.name)),
            text(format!("{}/{}", key.parent.0, key.parent.1)),
            Value::Int(key.columns.len() as i64),
            Value::UInt(bits(key)),
        ]);
    }
}

/// InnoDB's bits for the actions.
fn bits(key: &ForeignKeyDef) -> u64 {
    let bits = |action, [cascade, set_null, no_action]: [u64; 3]| match action {
        ReferentialAction::Cascade => cascade,
        ReferentialAction::SetNull => set_null,
        ReferentialAction::NoAction => no_action,
        ReferentialAction::Restrict | ReferentialAction::SetDefault => 0,
    };
    bits(key.on_delete, [1, 2, 16]) | bits(key.on_update, [4, 8, 32])
}

/// INNODB_FOREIGN_COLS.
pub(super) fn key_columns(_: &Viewer, table: &TableDef, out: &mut Rows) {
    for key in table.sorted_foreign_keys() {
        for (nth, (child, parent)) in columns(table, key).enumerate() {
            out.push(vec![
                id_of(table, key),
                text(child),
                text(parent),
                Value::UInt(nth as u64 + 1),
            ]);
        }
    }
}

fn columns<'t>(
    table: &'t TableDef,
    key: &'t ForeignKeyDef,
) -> impl Iterator<Item = (&'t str, &'t str)> {
    let children = key.child_columns(table).into_iter();
    let children = children.map(|c| &*table.columns[c].name);
    children.zip(key.parent_columns.iter().map(|c| &**c))
}
