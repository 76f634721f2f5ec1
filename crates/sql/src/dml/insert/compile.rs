//! From the syntax tree of an INSERT to [`CompiledInsert`].
//!
//! Neighbours: `bind` for names and expressions, `plan` for INSERT … SELECT.
//! **Invariant**: every error about names and counts is raised here, so running a compiled statement
//! again repeats none of this work.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{DefaultDef, TableDef, same_name};
use esker_sql_plan::bind::{
    BindEnv, BoundQuery, Need, Scope, bind_expr, bind_query, check_hints, errors, number_literal,
};
use esker_sql_plan::plan::{QueryPlan, plan_bound};
use esker_sql_syntax::ast::{self, Insert, InsertSource};
use esker_types::{EvalCtx, SqlError, SqlResult, SqlType};

use super::{Cell, CompiledInsert, OnConflict, Rows, relaxed, source};
use crate::dml::Beside;
use crate::dml::change::{Assignment, RowChanger};
use crate::dml::exprs::{TableExprs, generated_value};
use crate::dml::foreign::{ForeignKeyPlan, RowEffects};
use crate::dml::target::assigned_column;
use crate::dml::through_view::InsertTarget;

impl CompiledInsert {
    /// Compiles.
    pub(in crate::dml) fn compile(env: &BindEnv<'_>, insert: &Insert) -> SqlResult<Self> {
        if !insert.returning.is_empty() {
            return Err(SqlError::not_supported("RETURNING"));
        }
        let need = match insert {
            Insert { replace: true, .. } => Need::Replace,
            Insert { on_duplicate, .. } if !on_duplicate.is_empty() => Need::InsertOrUpdate,
            _ => Need::Insert,
        };
        let listed: Vec<&ast::Ident> = insert.columns.iter().map(|c| &c.name).collect();
        let listed = (insert.columns_given || has_no_values(insert)).then_some(&*listed);
        let target = InsertTarget::bind(env, need, &insert.table, "INSERT", listed)?;
        let table = target.table.clone();
        let columns = target_columns(&target, insert)?;
        check_columns(env, need, &target, &columns, insert)?;
        let unassigned = (0..table.columns.len())
            .filter(|c| !columns.contains(c))
            .collect();
        let source = match &insert.source {
            InsertSource::Values(rows) => {
                target.note(env);
                check_hints(env, &table, insert.hints.as_deref());
                let (rows, reads_row) = compile_rows(env, &target, &columns, insert, rows)?;
                Source {
                    rows,
                    reads_row,
                    changer: compile_changer(env, &target, insert, None)?,
                    slots: Vec::new(),
                }
            }
            InsertSource::Query(query) => compile_query(env, &target, &columns, insert, query)?,
        };
        let on_conflict = match insert {
            Insert { replace: true, .. } => OnConflict::Replace,
            Insert { on_duplicate, .. } if !on_duplicate.is_empty() => OnConflict::Update,
            Insert { ignore: true, .. } => OnConflict::Skip,
            _ => OnConflict::Fail,
        };
        let changed = source.changer.as_ref().map(RowChanger::touched_columns);
        Ok(Self {
            exprs: TableExprs::compile(env.ctx, &table)?.within(
                env.ctx,
                &table,
                target.partitions(&insert.partitions),
            )?,
            foreign: foreign_keys(env, &table, on_conflict, changed.unwrap_or_default()),
            relaxed: relaxed(&table),
            beside: Beside::of(env, std::slice::from_ref(&table)),
            table: [table],
            view: target.view,
            on_conflict,
            ignore: insert.ignore,
            delayed: insert.priority == Some(ast::Priority::Delayed),
            columns,
            unassigned,
            rows: source.rows,
            reads_row: source.reads_row,
            changer: source.changer,
            source_slots: source.slots,
        })
    }
}

/// Where the rows of an INSERT come from, and what becomes of those that are there already.
struct Source {
    rows: Rows,
    /// Values read other columns of their row.
    reads_row: bool,
    /// ON DUPLICATE KEY UPDATE.
    changer: Option<RowChanger>,
    /// What that reads of a query: the place in its row, and the slot behind the new row.
    slots: Vec<(usize, usize)>,
}

/// INSERT … SELECT.
fn compile_query(
    env: &BindEnv<'_>,
    target: &InsertTarget,
    columns: &[usize],
    insert: &Insert,
    query: &ast::Query,
) -> SqlResult<Source> {
    let table = &target.table;
    let mut bound = bind_query(env, query, None, None)?;
    if bound.columns.len() != columns.len() {
        return Err(errors::value_count(1));
    }
    let is_generated = |&&col: &&usize| table.columns[col].generated.is_some();
    if let Some(&col) = columns.iter().find(is_generated) {
        return Err(generated_value(&table.columns[col].name, &table.name));
    }
    let reads_target = env.reads(table);
    // A query has been read to its end when the first row is written; the assignments have not.
    target.note(env);
    let changer = compile_changer(env, target, insert, Some(&bound))?;
    let slots = match &changer {
        Some(changer) => source::select_read(&mut bound, table, changer),
        None => Vec::new(),
    };
    let plan = plan_bound(env, &Rc::new(bound))?;
    Ok(Source {
        rows: Rows::Query(plan, reads_target),
        reads_row: false,
        changer,
        slots,
    })
}

impl CompiledInsert {
    /// The rows of a query for a table that is being made, whose `columns` they fill.
    pub(crate) fn into_new_table(
        ctx: &EvalCtx<'_>,
        table: Arc<TableDef>,
        columns: Vec<usize>,
        query: Arc<QueryPlan>,
        on_duplicate: ast::OnDuplicate,
    ) -> SqlResult<Self> {
        let beside = Beside {
            reads: query.calls.as_deref().unwrap_or_default().to_vec(),
            calls: query.calls.is_some(),
        };
        Ok(Self {
            exprs: TableExprs::compile(ctx, &table)?,
            unassigned: (0..table.columns.len())
                .filter(|c| !columns.contains(c))
                .collect(),
            table: [table],
            view: None,
            on_conflict: match on_duplicate {
                ast::OnDuplicate::Error => OnConflict::Fail,
                ast::OnDuplicate::Ignore => OnConflict::Skip,
                ast::OnDuplicate::Replace => OnConflict::Replace,
            },
            ignore: on_duplicate == ast::OnDuplicate::Ignore,
            delayed: false,
            columns,
            // Nothing that exists is what the table has.
            rows: Rows::Query(query, false),
            reads_row: false,
            changer: None,
            source_slots: Vec::new(),
            // The table is not there yet, so it has no relatives.
            foreign: ForeignKeyPlan::default(),
            // Nor has it triggers.
            relaxed: None,
            beside,
        })
    }
}

/// The foreign keys that rows of a table have to keep which come, and replace others or change `changed` columns of
/// them.
pub(super) fn foreign_keys(
    env: &BindEnv<'_>,
    table: &Arc<TableDef>,
    on_conflict: OnConflict,
    changed: BTreeSet<usize>,
) -> ForeignKeyPlan {
    let effects = RowEffects {
        inserts: true,
        deletes: on_conflict == OnConflict::Replace,
        updates: changed,
    };
    let lookup = |schema: &str, name: &str| env.names.related(schema, name);
    ForeignKeyPlan::new(&lookup, vec![(table.clone(), effects)])
}

/// Ordinals of the columns that get values: as listed (1054, 1110), or all that are visible.
fn target_columns(target: &InsertTarget, insert: &Insert) -> SqlResult<Vec<usize>> {
    if !insert.columns_given {
        return Ok(match has_no_values(insert) {
            true => Vec::new(),
            false => target.all_columns(),
        });
    }
    let table = &target.named;
    let mut columns = Vec::with_capacity(insert.columns.len());
    for column in &insert.columns {
        let is_rowid = column.table.is_none() && column.name.is("_rowid");
        let rowid = table.rowid_column().filter(|_| is_rowid);
        let col = assigned_column(table, column, &table.name).or_else(|e| rowid.ok_or(e))?;
        if columns.contains(&col) {
            let text = format!("Column '{}' specified twice", table.columns[col].name);
            return Err(SqlError::new(1110, "42000", text));
        }
        columns.push(col);
    }
    Ok(columns)
}

/// Is it `VALUES ()` without a list of columns?
fn has_no_values(insert: &Insert) -> bool {
    let has_none = matches!(&insert.source,
        InsertSource::Values(rows) if rows.iter().all(Vec::is_empty));
    has_none && !insert.columns_given
}

/// May the row be made? Where no columns are listed, or none, it has them all.
fn check_columns(
    env: &BindEnv<'_>,
    need: Need,
    target: &InsertTarget,
    columns: &[usize],
    insert: &Insert,
) -> SqlResult<()> {
    let listed = !insert.columns.is_empty();
    let every: Vec<usize>;
    let columns = match listed {
        true => columns,
        false => {
            every = match target.view {
                Some(_) => target.all_columns(),
                None => (0..target.table.columns.len()).collect(),
            };
            &every
        }
    };
    target.admit(env, need, (columns, listed))
}

/// A scope over the row that is being made or changed.
pub(super) fn row_scope<'p>(env: &BindEnv<'_>, target: &InsertTarget) -> Scope<'p> {
    let table = &target.named;
    let mut scope = Scope::new();
    scope.add_row(table, &table.name, 0);
    scope.tables[0].restricted = target.restricted(env);
    scope
}

/// The rows, and whether any value reads a column of its own row.
fn compile_rows(
    env: &BindEnv<'_>,
    target: &InsertTarget,
    columns: &[usize],
    insert: &Insert,
    rows: &[Vec<ast::Expr>],
) -> SqlResult<(Rows, bool)> {
    let (table, scope) = (&target.named, row_scope(env, target));
    let mut reads_row = false;
    // VALUES () takes every default; the first row says whether all do.
    let takes_defaults = !insert.columns_given && rows.first().is_some_and(Vec::is_empty);
    let width = match takes_defaults {
        true => 0,
        false => columns.len(),
    };
    let mut compiled = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        if row.len() != width {
            return Err(errors::value_count(at + 1));
        }
        let mut cells = Vec::with_capacity(columns.len());
        for (&col, value) in columns.iter().zip(row) {
            let cell = compile_cell(env, &scope, table, col, value)?;
            match &cell {
                Cell::Expr(e) => e.slots(&mut |_| reads_row = true),
                // The default may read columns that come later in the list.
                Cell::Default => {
                    reads_row |= matches!(table.columns[col].default, DefaultDef::Expr(_));
                }
            }
            cells.push(cell);
        }
        if row.is_empty() {
            cells.extend(columns.iter().map(|_| Cell::Default));
        }
        compiled.push(cells);
    }
    Ok((Rows::Values(compiled), reads_row))
}

/// A value for column `col`.
pub(in crate::dml) fn compile_cell(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    table: &TableDef,
    col: usize,
    value: &ast::Expr,
) -> SqlResult<Cell> {
    match value {
        ast::Expr::Default(None) => Ok(Cell::Default),
        value if table.columns[col].generated.is_some() => {
            // Of DEFAULT(column) it is told first that there is none.
            if let ast::Expr::Default(_) = value {
                bind_expr(env, scope, value)?;
            }
            Err(generated_value(&table.columns[col].name, &table.name))
        }
        // A hexadecimal or bit literal is a number to a numeric column.
        value => match number_literal(value) {
            Some(number) if table.columns[col].ty.is_numeric() => Ok(Cell::Expr(number)),
            _ => {
                let bound = bind_expr(env, scope, value)?;
                env.meets(&bound, &table.columns[col].ty);
                Ok(Cell::Expr(bound))
            }
        },
    }
}

/// Names and types of the columns of the new row, under the name that it has: `AS new(a, b)` renames the listed columns
/// in their order. Those that are not listed have no name.
///
/// # Errors
/// 1066: it is the table's own name. 1353, 1060: wrong columns.
fn new_row(
    target: &InsertTarget,
    insert: &Insert,
    alias: &ast::RowAlias,
) -> SqlResult<Vec<(Arc<str>, SqlType)>> {
    let table = &target.named;
    if *alias.name.text == *table.name {
        return Err(errors::not_unique_table(&alias.name.text));
    }
    let listed = target_columns(target, insert)?;
    if !alias.columns.is_empty() && alias.columns.len() != listed.len() {
        return Err(errors::view_columns_differ());
    }
    for (nth, name) in alias.columns.iter().enumerate() {
        let mut before = alias.columns[..nth].iter();
        if before.any(|other| same_name(&other.text, &name.text)) {
            return Err(errors::duplicate_column(&name.text));
        }
    }
    let column = |(at, c): (usize, &esker_sql_catalog::catalog::ColumnDef)| {
        let name = match listed.iter().position(|&l| l == at) {
            Some(place) => match alias.columns.get(place) {
                Some(name) => (&*name.text).into(),
                None => c.name.clone(),
            },
            None => Arc::from(""),
        };
        (name, c.ty.clone())
    };
    Ok(table.columns.iter().enumerate().map(column).collect())
}

fn compile_changer(
    env: &BindEnv<'_>,
    target: &InsertTarget,
    insert: &Insert,
    source: Option<&BoundQuery>,
) -> SqlResult<Option<RowChanger>> {
    let new_row = match &insert.row_alias {
        Some(alias) => Some((alias, new_row(target, insert, alias)?)),
        None => None,
    };
    if insert.on_duplicate.is_empty() {
        return Ok(None);
    }
    let table = &target.named;
    let width = table.columns.len() as u32;
    let mut scope = row_scope(env, target);
    scope.values_base = Some(width);
    if let Some((alias, columns)) = new_row {
        scope.add_named_row(&alias.name.text, &columns, width);
        if alias.columns.is_empty() {
            // The new row's columns are the table's.
            scope.tables[1].restricted = scope.tables[0].restricted.clone();
        }
    }
    if let Some(source) = source {
        source::add_tables(&mut scope, source, 2 * width);
    }
    let mut assignments = Vec::with_capacity(insert.on_duplicate.len());
    for assignment in &insert.on_duplicate {
        let col = assigned_column(table, &assignment.column, &table.name)?;
        target.admit(env, Need::Update, (&[col], true))?;
        let cell = compile_cell(env, &scope, table, col, &assignment.value)?;
        assignments.push(Assignment { col, cell });
    }
    let exprs = TableExprs::compile(env.ctx, &target.table)?;
    let exprs = exprs.within(
        env.ctx,
        &target.table,
        target.partitions(&insert.partitions),
    )?;
    let check = target.view.as_ref().and_then(|view| view.check.clone());
    let changer = RowChanger::new(target.table.clone(), exprs, assignments, |col| col as u32);
    Ok(Some(changer.checked_by(check)))
}
