//! Rows that are changed through views: which table a statement means that names a view, and WITH CHECK OPTION.
//!
//! Neighbours: `bind::merged` makes the tables of a view those of the statement; `insert`, `update` and `delete` ask
//! here what is theirs; `run` and `change` check the rows that they store.
//! **Invariants**: one statement changes one table of a view; who changes a view needs the privilege on the view, its
//! owner the same privilege on the table.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexDef, IndexPart, TableDef, ViewDef};
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_exec::{ExecEnv, TargetScope};
use esker_sql_plan::bind::{
    BindEnv, ColumnAt, MergedView, Need, Restricted, Scope, TableSource, TargetName, errors,
    merged_view,
};
use esker_sql_plan::expr::Expr;
use esker_sql_syntax::ast::{ColumnRef, Ident, Limit, ObjectName};
use esker_types::{SqlError, SqlResult, Value};

use super::target::{not_updatable, unknown_column};

fn view_error(code: u16, before: &str, view: &ViewDef, behind: &str) -> SqlError {
    let text = format!("{before} '{}.{}'{behind}", view.schema, view.name);
    SqlError::new(code, "HY000", text)
}

/// LOAD DATA, as errors call it.
pub(super) const LOAD: &str = "LOAD";

/// 1471.
fn not_insertable(view: &str) -> SqlError {
    let text = format!("The target table {view} of the INSERT is not insertable-into");
    SqlError::new(1471, "HY000", text)
}

/// 1393.
fn several_tables(view: &ViewDef) -> SqlError {
    let before = "Can not modify more than one base table through a join view";
    view_error(1393, before, view, "")
}

/// 1394.
fn without_columns(view: &ViewDef) -> SqlError {
    let before = "Can not insert into join view";
    view_error(1394, before, view, " without fields list")
}

/// 1395.
fn no_delete(view: &ViewDef) -> SqlError {
    view_error(1395, "Can not delete from join view", view, "")
}

/// What rows that are stored through a view have to meet.
#[derive(Debug)]
pub(super) struct ViewCheck {
    view: (Arc<str>, Arc<str>),
    conditions: Vec<Expr>,
    /// Where the conditions are over another row than the statement's: its width, and the slots of the table's columns.
    row: Option<(usize, Vec<(usize, usize)>)>,
}

impl ViewCheck {
    /// The check of the view at `place` of the statement's names; `None` if it lets everything in.
    fn of(scope: &Scope<'_>, place: usize) -> Option<Self> {
        let view = scope.tables[place].merged.as_ref()?;
        Self::new(view, view.checked())
    }

    fn new(view: &MergedView, conditions: Vec<Expr>) -> Option<Self> {
        (!conditions.is_empty()).then(|| Self {
            view: (view.def.schema.clone(), view.def.name.clone()),
            conditions,
            row: None,
        })
    }

    /// The same for rows of table `at` of the only view of a block, not for those of the block.
    fn over_table(self, scope: &Scope<'_>, at: usize) -> Arc<Self> {
        let slots = scope.tables[at].slots.borrow();
        let slots = slots.iter().enumerate();
        let slots = slots.filter_map(|(column, slot)| Some((column, (*slot)? as usize)));
        let row = Some((scope.width() as usize, slots.collect()));
        Arc::new(Self { row, ..self })
    }

    /// 1369 for a row that the view does not show.
    pub(super) fn check(&self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<()> {
        if self.holds(row, env)? {
            return Ok(());
        }
        let text = format!("CHECK OPTION failed '{}.{}'", self.view.0, self.view.1);
        Err(SqlError::new(1369, "HY000", text).into())
    }

    /// 3059 for a row that REPLACE deletes and the view does not show.
    pub(super) fn admit_delete(&self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<()> {
        if self.holds(row, env)? {
            return Ok(());
        }
        let text =
            "REPLACE cannot be executed as it requires deleting rows that are not in the view";
        Err(SqlError::new(3059, "HY000", text).into())
    }

    fn holds(&self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<bool> {
        let row = match &self.row {
            None => Cow::Borrowed(row),
            Some((width, slots)) => {
                let mut own = vec![Value::Null; *width];
                for (column, slot) in slots {
                    own[*slot].clone_from(&row[*column]);
                }
                Cow::Owned(own)
            }
        };
        for condition in &self.conditions {
            if condition.eval_bool(&row, env)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Was a row refused by a CHECK, of its table or of a view?
pub(super) fn is_failed_check(e: &SqlError) -> bool {
    matches!(e.code, 3819 | 1369 | 1526 | 1748)
}

/// The view that a statement stores rows in.
#[derive(Debug)]
pub(super) struct InsertedView {
    view: (Arc<str>, Arc<str>),
    /// Columns of the table, in the order in which the view shows them.
    shown: Vec<usize>,
    pub(super) check: Option<Arc<ViewCheck>>,
    /// What rows meet that the view shows.
    pub(super) shows_rows: Option<Arc<ViewCheck>>,
}

impl InsertedView {
    /// 1423, for a column that gets no value and has no default.
    pub(super) fn no_default(&self) -> SqlError {
        let text = format!(
            "Field of view '{}.{}' underlying table doesn't have a default value",
            self.view.0, self.view.1
        );
        SqlError::new(1423, "HY000", text)
    }

    /// Does the view show the column?
    pub(super) fn shows(&self, column: usize) -> bool {
        self.shown.contains(&column)
    }
}

/// The table that an INSERT, REPLACE or LOAD DATA stores rows in.
pub(super) struct InsertTarget {
    /// The table.
    pub(super) table: Arc<TableDef>,
    /// The same, with the names that the statement may use.
    pub(super) named: Arc<TableDef>,
    /// The view that the statement names.
    pub(super) view: Option<InsertedView>,
    /// What is inside of that view, and the place of the table there.
    inside: Option<(Scope<'static>, usize)>,
}

impl InsertTarget {
    /// Finds the table; `columns` are the names of those that are listed, `None` without a list.
    pub(super) fn bind(
        env: &BindEnv<'_>,
        need: Need,
        name: &ObjectName,
        statement: &'static str,
        columns: Option<&[&Ident]>,
    ) -> SqlResult<Self> {
        let schema = name.schema.as_ref().map(|s| &*s.text);
        match env.names.table(need, schema, &name.name.text)? {
            TableSource::Base(table) => Ok(Self {
                named: table.clone(),
                table,
                view: None,
                inside: None,
            }),
            TableSource::Virtual(table) => Err(not_updatable(table.name(), statement)),
            TableSource::View(view) => Self::through(env, need, &view, statement, columns),
        }
    }

    fn through(
        env: &BindEnv<'_>,
        need: Need,
        view: &Arc<ViewDef>,
        statement: &'static str,
        columns: Option<&[&Ident]>,
    ) -> SqlResult<Self> {
        let refused = || match statement {
            LOAD => not_updatable(&view.name, LOAD),
            _ => not_insertable(&view.name),
        };
        if !view.updatable {
            return Err(refused());
        }
        let scope = merged_view(env, need, view)?;
        let mut inside = scope.inside_view(0).map(|nth| &scope.tables[nth]);
        if !inside.all(|t| t.merged.is_some() || t.base_def().is_some()) {
            return Err(refused());
        }
        if scope.joined_tables() > 1 {
            if statement == LOAD {
                return Err(refused());
            }
            if need == Need::Replace {
                return Err(no_delete(view));
            }
            if columns.is_none() {
                return Err(without_columns(view));
            }
        }
        let at = table_of_columns(&scope, view, columns.unwrap_or_default())?;
        if columns.is_none() {
            let mut shown = 0..scope.tables[0].columns.len();
            shown.try_for_each(|column| scope.assigned(ColumnAt { table: 0, column }).map(drop))?;
        }
        let table = scope.tables[at].base_def().ok_or_else(refused)?.clone();
        let through = scope.tables[0].merged.as_ref();
        if through.is_some_and(|view| view.rereads(table.id)) {
            return Err(refused());
        }
        let shown = shown_columns(&scope, at).ok_or_else(refused)?;
        let named = scope.seen_through(0, at).ok_or_else(refused)?;
        let over_table = |check: ViewCheck| check.over_table(&scope, at);
        let check = ViewCheck::of(&scope, 0).map(over_table);
        let shown_rows = scope.tables[0].merged.as_ref();
        let shown_rows = shown_rows.and_then(|view| ViewCheck::new(view, view.shown()));
        let shows_rows = shown_rows.map(over_table);
        Ok(Self {
            table,
            named,
            view: Some(InsertedView {
                view: (view.schema.clone(), view.name.clone()),
                shown,
                check,
                shows_rows,
            }),
            inside: Some((scope, at)),
        })
    }

    /// The partitions that rows have to be in: those that the statement names, or the view.
    pub(super) fn partitions<'a>(&'a self, named: &'a [Ident]) -> &'a [Ident] {
        match &self.inside {
            Some((scope, at)) if named.is_empty() => &scope.tables[*at].partitions,
            _ => named,
        }
    }

    /// May the statement do `need` with these columns?
    pub(super) fn admit(
        &self,
        env: &BindEnv<'_>,
        need: Need,
        (columns, are_listed): (&[usize], bool),
    ) -> SqlResult<()> {
        env.names
            .check_columns(need, &self.named, columns, are_listed)?;
        match &self.inside {
            Some((scope, at)) => scope.admit_inside(env, need, *at, columns),
            None => Ok(()),
        }
    }

    /// What the statement may not do with the row that it stores, or meets.
    pub(super) fn restricted(&self, env: &BindEnv<'_>) -> Option<Rc<Restricted>> {
        match &self.inside {
            Some((scope, _)) => scope.tables[0].restricted.clone(),
            None => env.names.restricted(&self.named.schema, &self.named.name),
        }
    }

    /// The columns that get values where none are listed.
    pub(super) fn all_columns(&self) -> Vec<usize> {
        match &self.view {
            Some(view) => view.shown.clone(),
            None => (0..self.table.columns.len())
                .filter(|&c| !self.table.columns[c].invisible)
                .collect(),
        }
    }

    /// The statement's subqueries may not read the table from here on.
    pub(super) fn note(&self, env: &BindEnv<'_>) {
        let (alias, view) = match &self.view {
            Some(view) => (&self.named.name, Some(view.view.clone())),
            None => (&self.table.name, None),
        };
        env.note_target(
            &self.table,
            TargetName {
                alias: alias.clone(),
                verb: "INSERT",
                view,
            },
        );
    }
}

/// The table of a view, the only one of a block, that has the listed columns.
///
/// # Errors
/// 1054, 1348, and 1393 for columns of several tables.
fn table_of_columns(scope: &Scope<'_>, view: &ViewDef, columns: &[&Ident]) -> SqlResult<usize> {
    let mut table = None;
    for name in columns {
        let named = &scope.tables[0].columns;
        let column = named.iter().position(|c| name.is(&c.name));
        let column = column.ok_or_else(|| errors::unknown_column(&name.text, "field list"))?;
        let at = scope.assigned(ColumnAt { table: 0, column })?;
        if *table.get_or_insert(at.table) != at.table {
            return Err(several_tables(view));
        }
    }
    let is_table = |nth: &usize| scope.tables[*nth].merged.is_none();
    let first = || scope.inside_view(0).find(is_table);
    table
        .or_else(first)
        .ok_or_else(|| not_insertable(&view.name))
}

/// The columns of table `at` in the order in which the view, the only one of a block, shows them; `None` if rows cannot
/// be inserted through it: it computes a column, or shows one twice.
fn shown_columns(scope: &Scope<'_>, at: usize) -> Option<Vec<usize>> {
    let mut shown = Vec::new();
    for column in 0..scope.tables[0].columns.len() {
        let stands_for = scope.assigned(ColumnAt { table: 0, column }).ok()?;
        if stands_for.table != at {
            continue;
        }
        if shown.contains(&stands_for.column) {
            return None;
        }
        shown.push(stands_for.column);
    }
    Some(shown)
}

/// A column that an UPDATE assigns to.
pub(super) struct Assigned {
    /// Column of a stored table.
    pub(super) at: ColumnAt,
    /// Place of the view by which the statement names it.
    pub(super) view: Option<usize>,
}

/// What the statement's assignments change: columns of tables, one table of each view.
///
/// # Errors
/// 1054, 1348, 1393.
pub(super) fn assigned<'c>(
    scope: &Scope<'_>,
    columns: impl Iterator<Item = &'c ColumnRef>,
) -> SqlResult<Vec<Assigned>> {
    let mut all: Vec<Assigned> = Vec::new();
    for column in columns {
        let named = scope
            .find_here(column)?
            .ok_or_else(|| unknown_column(column))?;
        let at = scope.assigned(named)?;
        let view = scope.tables[named.table].merged.as_ref();
        if let Some(view) = view
            && let Some(other) = all.iter().find(|a| a.view == Some(named.table))
            && other.at.table != at.table
        {
            return Err(several_tables(&view.def));
        }
        all.push(Assigned {
            at,
            view: view.map(|_| named.table),
        });
    }
    Ok(all)
}

/// The check on rows of table `table`, which an UPDATE changes through a view.
pub(super) fn check_of(scope: &Scope<'_>, table: usize) -> Option<ViewCheck> {
    let is_around = |place: &usize| scope.inside_view(*place).contains(&table);
    let mut outermost = (0..table).filter(|nth| scope.tables[*nth].views.is_empty());
    let place = outermost.rfind(is_around)?;
    ViewCheck::of(scope, place)
}

/// Why a LIMIT may be refused: the statement changes a view that shows neither a whole unique key of its table nor all
/// columns, so what it shows does not tell rows apart (1288).
pub(super) fn refused_limit(
    scope: &Scope<'_>,
    limit: Option<&Limit>,
    verb: &str,
) -> Option<SqlError> {
    limit?;
    scope.tables[0].merged.as_ref()?;
    let mut inside = scope.inside_view(0);
    let table = inside.find(|nth| scope.tables[*nth].merged.is_none())?;
    let seen = scope.seen_through(0, table)?;
    let is_shown = |column: usize| !seen.columns[column].name.is_empty();
    let tells_apart = |index: &IndexDef| {
        let is_whole = |part: &IndexPart| {
            is_shown(part.col) && part.prefix_len.is_none() && !seen.columns[part.col].ty.nullable
        };
        index.unique && !index.hidden && index.parts.iter().all(is_whole)
    };
    let shows_all = || {
        let mut columns = seen.columns.iter().enumerate();
        columns.all(|(nth, column)| is_shown(nth) || column.is_hidden())
    };
    let is_fit = seen.indexes.iter().any(tells_apart) || shows_all();
    (!is_fit).then(|| not_updatable(&scope.tables[0].alias, verb))
}

/// The table that loses rows where a DELETE names the one at `place`.
///
/// # Errors
/// 1395 for a view that joins tables.
pub(super) fn deleted_table(
    env: &BindEnv<'_>,
    target: &TargetScope<'_>,
    place: usize,
) -> SqlResult<usize> {
    let scope = &target.scope;
    let Some(view) = &scope.tables[place].merged else {
        return Ok(place);
    };
    let tables = scope.inside_view(place);
    let mut tables = tables.filter(|nth| scope.tables[*nth].merged.is_none());
    match (tables.next(), tables.next()) {
        (Some(table), None) => {
            scope.admit_inside(env, Need::Delete, table, &[])?;
            Ok(table)
        }
        _ => Err(no_delete(&view.def)),
    }
}
