//! A child row as a cascade makes it of its parent's change.
//!
//! Neighbours: [`super::enforce`] finds the rows and writes them.
//! **Invariants**: a value that its column cannot have is not stored: the change is refused; generated columns are
//! computed anew.

use esker_sql_catalog::catalog::{ColumnDef, IndexDef, ReferentialAction, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC, patch_row};
use esker_sql_plan::expr::{CallStates, EvalEnv, NoVars};
use esker_types::{EvalCtx, SqlError, SqlResult, TypeKind, Value, ValueRef};

use super::duplicate_in_child;
use super::plan::ChildLink;
use crate::dml::exprs::TableExprs;

/// What a change of one parent row does by one foreign key.
pub(super) struct ChildChange<'c> {
    pub(super) link: &'c ChildLink,
    pub(super) parent: &'c TableDef,
    pub(super) old: &'c RowReader<'c>,
    /// `None`: the parent goes.
    pub(super) new: Option<&'c RowReader<'c>>,
}

impl ChildChange<'_> {
    /// What the child's columns become; `None` if they cannot have it.
    pub(super) fn values(&self, action: ReferentialAction, child: &TableDef) -> Option<Vec<Value>> {
        let value = |(&of_parent, &of_child): (&usize, &usize)| {
            let column = &child.columns[of_child];
            let value = match (action, self.new) {
                (ReferentialAction::Cascade, Some(new)) => new.field(of_parent),
                _ => ValueRef::Null,
            };
            let value = without_padding(value, column);
            fits(value, column).then(|| value.to_owned())
        };
        let columns = self.link.parent_columns.iter().zip(&self.link.columns);
        columns.map(value).collect()
    }

    pub(super) fn duplicate(&self, child: &TableDef, index: &IndexDef) -> SqlError {
        let row = self.new.unwrap_or(self.old);
        let mut record = String::new();
        for (nth, &col) in self.link.parent_columns.iter().enumerate() {
            if nth > 0 {
                record.push('-');
            }
            let mut text = Vec::new();
            let ty = &self.parent.columns[col].ty;
            esker_types::cast::write_text(row.field(col), ty, &mut text);
            record.push_str(&String::from_utf8_lossy(&text));
        }
        duplicate_in_child(self.parent, &record, child, index)
    }
}

/// A parent's value as a child's column has it: no CHAR ends with spaces.
fn without_padding<'v>(value: ValueRef<'v>, column: &ColumnDef) -> ValueRef<'v> {
    match value {
        ValueRef::Str(bytes)
            if column.ty.kind == TypeKind::Char && !column.ty.collation.is_binary() =>
        {
            let end = bytes
                .iter()
                .rposition(|b| *b != b' ')
                .map_or(0, |at| at + 1);
            ValueRef::Str(&bytes[..end])
        }
        value => value,
    }
}

/// Can a child's column have its parent's value? As in InnoDB, no zeros are appended for a BINARY.
fn fits(value: ValueRef<'_>, column: &ColumnDef) -> bool {
    let length = column.ty.length as usize;
    match (value, &column.ty.kind) {
        (ValueRef::Null, _) => column.ty.nullable,
        (ValueRef::Str(bytes), TypeKind::Char) if column.ty.collation.is_binary() => {
            bytes.len() == length
        }
        (ValueRef::Str(bytes), _) if column.ty.collation.is_binary() => bytes.len() <= length,
        (ValueRef::Str(bytes), TypeKind::Char | TypeKind::VarChar) => {
            String::from_utf8_lossy(bytes).chars().count() <= length
        }
        (ValueRef::Label(number, _), TypeKind::Enum(labels)) => number <= labels.len() as u64,
        (ValueRef::Label(bits, _), TypeKind::Set(labels)) => {
            let rest = bits.checked_shr(labels.len() as u32);
            rest.unwrap_or(0) == 0
        }
        _ => true,
    }
}

/// The row with other values in these columns.
pub(super) fn patched(
    table: &TableDef,
    stored: &[u8],
    columns: &[usize],
    values: &[Value],
) -> SqlResult<Vec<u8>> {
    let old = RowReader::new(&table.layout, &UTC, stored)?;
    let value = |col: usize| {
        let at = columns.iter().position(|c| *c == col)?;
        Some(&values[at])
    };
    let mut out = Vec::with_capacity(stored.len());
    patch_row(&table.layout, &UTC, &old, value, &mut out)?;
    Ok(out)
}

/// The row with its generated columns computed anew; they see TIMESTAMPs in the session's zone.
pub(super) fn generated(
    exprs: &TableExprs,
    table: &TableDef,
    ctx: &EvalCtx<'_>,
    stored: Vec<u8>,
) -> SqlResult<Vec<u8>> {
    if !exprs.generates() {
        return Ok(stored);
    }
    let zone = &ctx.time_zone;
    let row = RowReader::new(&table.layout, zone, &stored)?;
    let fields = (0..table.columns.len()).map(|col| row.field(col).to_owned());
    let mut values: Vec<Value> = fields.collect();
    let calls = CallStates::default();
    let env = EvalEnv::scalar(ctx, &NoVars, &calls);
    exprs.generate(&table.columns, &mut values, (1, false), &env)?;
    let mut out = Vec::with_capacity(stored.len());
    let value = |col: usize| exprs.generated().any(|g| g == col).then(|| &values[col]);
    patch_row(&table.layout, zone, &row, value, &mut out)?;
    Ok(out)
}
