//! What an ALTER TABLE costs.
//!
//! Neighbours: `edit` gives the finished draft and its context; `algorithm` holds it against what is asked for; `alter`
//! does what is decided here.
//! **Invariant**: pure; a change is done without a copy only when every stored row and key means the
//! same under the new definition.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, IndexDef, TableDef};
use esker_sql_catalog::codec::{LayoutVersion, MAX_LAYOUT_VERSIONS, Phys};
use esker_types::{SqlType, TypeKind};

use super::edit::AlterContext;
use crate::ddl::draft_finish::{Built, BuiltIndex};

/// How to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Only the definition changes.
    DefinitionOnly,
    /// Rows stay; new indexes are filled, or rows are held against new CHECK constraints.
    NewIndexes,
    /// Every row is read, converted and written to new trees.
    Copy,
}

pub(super) fn plan(old: &TableDef, built: &Built, context: &AlterContext) -> Plan {
    let must_copy = context.force_copy || changes_rows(old, built, context);
    if must_copy || lacks_versions(old, built) {
        return Plan::Copy;
    }
    let kept = |b: &BuiltIndex| {
        let index = b
            .existing
            .and_then(|id| old.indexes.iter().find(|i| i.id == id));
        index.is_some_and(|i| same_key(old, i, &built.columns, b))
    };
    if built.indexes.iter().all(kept) && context.new_checks.is_empty() {
        Plan::DefinitionOnly
    } else {
        Plan::NewIndexes
    }
}

/// Can it be done beside writers? What becomes of a row must then depend on the row alone, for it is made again when
/// the row changes: not on its place among the others, nor on when it is made.
pub(super) fn is_online(old: &TableDef, built: &Built, plan: Plan) -> bool {
    if plan != Plan::Copy {
        return !refers_to_itself(old, built);
    }
    let is_new = |c: &&ColumnDef| old.columns.iter().all(|o| o.id != c.id);
    let auto = |columns: &[ColumnDef]| columns.iter().find(|c| c.auto_increment).map(|c| c.id);
    let loses_key = old.has_primary_key() && !built.has_primary();
    let draws_numbers =
        auto(&built.columns).is_some() && auto(&built.columns) != auto(&old.columns);
    let mut added = built.columns.iter().filter(is_new);
    let is_computed_once = added.any(|c| matches!(c.default, DefaultDef::Expr(_)));
    built.new_keys.is_empty() && !loses_key && !draws_numbers && !is_computed_once
}

/// Does it get a foreign key of which it is the parent, too?
fn refers_to_itself(old: &TableDef, built: &Built) -> bool {
    let mut keys = built.foreign_keys.iter();
    keys.any(|k| built.new_keys.contains(&k.name) && k.is_parent(&old.schema, &old.name))
}

/// Is the table copied because a column gets another type?
pub(super) fn changes_type(old: &TableDef, built: &Built) -> bool {
    built.columns.iter().any(|new| {
        let before = old.columns.iter().find(|c| c.id == new.id);
        before.is_some_and(|before| {
            !before.ty.eq_but_null(&new.ty) && !same_storage(old, built, before, new)
        })
    })
}

/// The layout of rows that are written after the change, if it is another one than before and the rows stay.
pub(super) fn new_layout(old: &TableDef, columns: &[ColumnDef]) -> Option<LayoutVersion> {
    let sorted = |layout: &LayoutVersion| {
        let mut fields = layout.fields.clone();
        fields.sort_by_key(|f| f.0);
        fields
    };
    let now = LayoutVersion::of(columns);
    let is_same = |last: &LayoutVersion| sorted(last) == sorted(&now);
    let stays = old.layout.versions().last().is_some_and(is_same);
    (!stays).then_some(now)
}

/// Has the table had so many layouts that the change copies it rather than give it one more?
pub(super) fn lacks_versions(old: &TableDef, built: &Built) -> bool {
    let is_full = old.layout.versions().len() >= MAX_LAYOUT_VERSIONS;
    is_full && new_layout(old, &built.columns).is_some()
}

/// Do stored rows mean something else, or would they?
pub(super) fn changes_rows(old: &TableDef, built: &Built, context: &AlterContext) -> bool {
    let primary = built.indexes.first().filter(|i| i.primary);
    let same_clustered = match (primary, old.has_primary_key()) {
        (None, false) => true,
        (Some(new), true) => {
            new.existing == Some(old.indexes[0].id)
                && same_key(old, &old.indexes[0], &built.columns, new)
        }
        _ => false,
    };
    if !same_clustered {
        return true;
    }
    built
        .columns
        .iter()
        .any(|new| match old.columns.iter().find(|c| c.id == new.id) {
            Some(before) => !same_storage(old, built, before, new),
            None => {
                debug_assert!(context.added.contains(&new.id));
                new.auto_increment
                    || new.generated.is_some()
                    || matches!(new.default, DefaultDef::Expr(_))
            }
        })
}

/// Can rows written for `old` be read as `new`?
fn same_storage(table: &TableDef, built: &Built, old: &ColumnDef, new: &ColumnDef) -> bool {
    let is_wider = is_wider_integer(&old.ty, &new.ty) && !is_indexed(table, built, old);
    if !is_wider && Phys::of(&old.ty) != Phys::of(&new.ty) || old.ty.collation != new.ty.collation {
        return false;
    }
    if old.auto_increment != new.auto_increment && new.auto_increment {
        return false;
    }
    let becomes_nullable = new.ty.nullable && !is_indexed(table, built, old);
    if old.ty.nullable != new.ty.nullable && !becomes_nullable {
        return false;
    }
    is_wider
        || same_values(&old.ty, &new.ty)
            && (!kind_changes(old, new) || !is_indexed(table, built, old))
}

/// Has every value of `old` the same bytes in `new`, but for more of them? Rows say how wide theirs are; keys do not.
fn is_wider_integer(old: &SqlType, new: &SqlType) -> bool {
    let bytes = |ty: &SqlType| match Phys::of(ty) {
        Phys::Int { bytes, .. } if ty.kind != TypeKind::Year => Some(bytes),
        _ => None,
    };
    let is_wider = bytes(old).zip(bytes(new)).is_some_and(|(a, b)| a < b);
    is_wider && old.unsigned == new.unsigned
}

fn kind_changes(old: &ColumnDef, new: &ColumnDef) -> bool {
    std::mem::discriminant(&old.ty.kind) != std::mem::discriminant(&new.ty.kind)
}

fn is_indexed(table: &TableDef, built: &Built, column: &ColumnDef) -> bool {
    let before = table
        .indexes
        .iter()
        .any(|i| i.parts.iter().any(|p| table.columns[p.col].id == column.id));
    let after = built
        .indexes
        .iter()
        .any(|i| i.parts.iter().any(|p| built.columns[p.col].id == column.id));
    before && after
}

/// Is every value of `old` the same value of `new`? Storage is known to be equal.
fn same_values(old: &SqlType, new: &SqlType) -> bool {
    match (&old.kind, &new.kind) {
        (TypeKind::VarChar, TypeKind::VarChar) => new.length >= old.length,
        (TypeKind::Char, TypeKind::Char) => {
            // BINARY(n) is padded to its length.
            new.length == old.length || (new.length > old.length && !old.collation.is_binary())
        }
        (TypeKind::VarChar, new_kind) => text_bytes(new_kind)
            .is_some_and(|max| u64::from(old.length) * width(old) <= u64::from(max)),
        (TypeKind::Enum(before), TypeKind::Enum(after))
        | (TypeKind::Set(before), TypeKind::Set(after)) => after.starts_with(before),
        (a, b) if text_bytes(a).is_some() && text_bytes(b).is_some() => {
            text_bytes(b) >= text_bytes(a)
        }
        (TypeKind::Float | TypeKind::Double, _) | (TypeKind::Bit, _) => old.eq_but_null(new),
        (a, b) if a == b => {
            old.unsigned == new.unsigned && (old.is_integer() || old.eq_but_null(new))
        }
        _ => false,
    }
}

fn width(ty: &SqlType) -> u64 {
    u64::from(ty.collation.charset().max_len())
}

fn text_bytes(kind: &TypeKind) -> Option<u32> {
    Some(match kind {
        TypeKind::TinyText => 255,
        TypeKind::Text => 65_535,
        TypeKind::MediumText => 16_777_215,
        TypeKind::LongText => u32::MAX,
        _ => return None,
    })
}

/// Equality apart from NULL.
trait EqButNull {
    fn eq_but_null(&self, other: &Self) -> bool;
}

impl EqButNull for SqlType {
    fn eq_but_null(&self, other: &Self) -> bool {
        self.clone().with_nullable(true) == other.clone().with_nullable(true)
    }
}

/// Has an index the same keys under the new definition?
pub(super) fn same_key(
    table: &TableDef,
    old: &IndexDef,
    columns: &[ColumnDef],
    new: &BuiltIndex,
) -> bool {
    old.unique == new.unique
        && old.is_fulltext() == new.fulltext.is_some()
        && old.parts.len() == new.parts.len()
        && old.parts.iter().zip(&new.parts).all(|(a, b)| {
            let (before, after) = (&table.columns[a.col], &columns[b.col]);
            before.id == after.id
                && a.prefix_len == b.prefix_len
                && a.desc == b.desc
                && before.ty.nullable == after.ty.nullable
        })
}
