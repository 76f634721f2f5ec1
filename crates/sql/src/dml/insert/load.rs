//! LOAD DATA and LOAD XML, compiled.
//!
//! Neighbours: `load_rows` makes rows of the file; `session::load` brings it.
//!
//! **Invariants**
//! - Columns without a default begin with zero or the empty string. Fields and SET may name generated columns: such
//!   fields have to be values of the column, and are computed anew.
//! - IGNORE, and LOCAL without REPLACE, make errors of values and duplicate keys warnings: the sender of a file cannot
//!   be stopped in the middle.

use std::collections::BTreeSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_plan::bind::{BindEnv, Need, bind_expr, errors};
use esker_sql_plan::expr::UserVars;
use esker_sql_syntax::ast::{Expr, Ident, LoadData, LoadTarget};
use esker_types::collation::Charset;
use esker_types::{Level, SqlError, SqlResult, SqlType, Value};

use super::compile::{compile_cell, foreign_keys, row_scope};
use super::steps::InsertSteps;
use super::{CompiledInsert, OnConflict, Rows, relaxed};
use crate::dml::change::Assignment;
use crate::dml::exprs::TableExprs;
use crate::dml::foreign::ForeignKeyPlan;
use crate::dml::target::assigned_column;
use crate::dml::through_view::{InsertTarget, LOAD};
use crate::dml::{Beside, DmlEnv};
use crate::textfile::{Dialect, FOREIGN_BYTES, charset_named, separable, width_of};

/// Longest text of a user variable, characters, as its type has it.
pub(super) const VARIABLE_LENGTH: u32 = 65_535;

/// Where a field goes.
#[derive(Debug)]
pub(super) enum Target {
    Column(usize),
    Variable(Box<str>),
}

/// What of XML is a row, and what its values are called.
#[derive(Debug)]
pub(super) struct XmlNames {
    /// The element of a row.
    pub(super) row: Vec<u8>,
    /// Names of the values, target by target.
    pub(super) names: Vec<Box<str>>,
}

impl XmlNames {
    fn new(tag: &[u8], load: &LoadData, table: &TableDef, targets: &[Target]) -> Self {
        let name = |at: usize, target: &Target| match (target, load.columns.get(at)) {
            (_, Some(LoadTarget::Column(name))) => name.text.clone(),
            (Target::Variable(name), _) => name.clone(),
            (Target::Column(col), _) => Box::from(&*table.columns[*col].name),
        };
        Self {
            // Without the brackets around it.
            row: tag
                .get(1..tag.len().max(2) - 1)
                .unwrap_or_default()
                .to_vec(),
            names: targets
                .iter()
                .enumerate()
                .map(|(at, t)| name(at, t))
                .collect(),
        }
    }
}

/// A compiled LOAD DATA or LOAD XML.
#[derive(Debug)]
pub struct CompiledLoad {
    pub(super) insert: CompiledInsert,
    pub(super) targets: Vec<Target>,
    pub(super) sets: Vec<Assignment>,
    pub(super) charset: Charset,
    pub(super) dialect: Dialect,
    /// Of LOAD XML.
    pub(super) xml: Option<XmlNames>,
    pub(super) skip_lines: u64,
    /// Bytes of a row, where fields have neither separators nor quotes.
    pub(super) row_width: Option<usize>,
    /// Largest field, or values of a row of XML, bytes.
    pub(super) field_limit: usize,
}

/// User variables in which those that a file fills have text.
struct FileVars<'a> {
    vars: &'a dyn UserVars,
    filled: &'a [LoadTarget],
    ty: SqlType,
}

impl UserVars for FileVars<'_> {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        let is_it = |t: &LoadTarget| matches!(t, LoadTarget::Var(var) if **var == *name);
        match self.filled.iter().any(is_it) {
            true => Some((Value::Null, self.ty.clone())),
            false => self.vars.get(name),
        }
    }

    fn set(&self, name: &str, value: Value, ty: SqlType) {
        self.vars.set(name, value, ty);
    }
}

/// The type of text in a character set.
pub(super) fn text_type(charset: Charset) -> SqlType {
    SqlType::varchar(VARIABLE_LENGTH, charset.default_collation())
}

/// The columns that fields and SET fill, each once.
fn filled_columns(targets: &[Target], sets: &[Assignment]) -> Vec<usize> {
    let listed = targets.iter().filter_map(|t| match t {
        Target::Column(col) => Some(*col),
        Target::Variable(_) => None,
    });
    let mut columns: Vec<usize> = Vec::new();
    for col in listed.chain(sets.iter().map(|s| s.col)) {
        if !columns.contains(&col) {
            columns.push(col);
        }
    }
    columns
}

fn conflict_rule(replace: bool, ignore: bool) -> OnConflict {
    match (replace, ignore) {
        (true, _) => OnConflict::Replace,
        (false, true) => OnConflict::Skip,
        (false, false) => OnConflict::Fail,
    }
}

impl CompiledLoad {
    /// Compiles; `default_charset` is for a statement without CHARACTER SET.
    ///
    /// # Errors
    /// Unknown names, clauses that do not fit together.
    pub(crate) fn compile(
        env: &BindEnv<'_>,
        load: &LoadData,
        default_charset: Charset,
    ) -> SqlResult<Self> {
        env.changes_rows.set(true);
        let dialect = Dialect::new(&load.format, env.ctx.sql_mode)?;
        if dialect.has_foreign_bytes() {
            env.ctx.warn(Level::Warning, 1638, FOREIGN_BYTES);
        }
        let charset = match &load.charset {
            Some(name) => charset_named(name)?,
            None => separable(default_charset)?,
        };
        let need = match load.replace {
            true => Need::Replace,
            false => Need::Insert,
        };
        let target = load_target(env, need, load)?;
        let table = target.table.clone();
        let targets = targets(&target, &load.columns)?;
        let row_width = match load.row_tag {
            None => row_width(&table, &targets, &dialect)?,
            Some(_) => None,
        };
        let xml = load.row_tag.as_ref();
        let xml = xml.map(|tag| XmlNames::new(tag, load, &target.named, &targets));
        target.note(env);
        let sets = compile_sets(env, &target, load, charset)?;
        let columns = filled_columns(&targets, &sets);
        let listed = !load.columns.is_empty();
        target.admit(env, need, (&columns, listed))?;
        let ignore = load.ignore || (load.local && !load.replace);
        let on_conflict = conflict_rule(load.replace, ignore);
        let insert = CompiledInsert {
            exprs: TableExprs::compile(env.ctx, &table)?.within(
                env.ctx,
                &table,
                target.partitions(&load.partitions),
            )?,
            unassigned: (0..table.columns.len())
                .filter(|c| !columns.contains(c))
                .collect(),
            foreign: foreign_keys(env, &table, on_conflict, BTreeSet::new()),
            relaxed: relaxed(&table),
            beside: Beside::of(env, std::slice::from_ref(&table)),
            table: [table],
            view: target.view,
            on_conflict,
            ignore,
            delayed: false,
            columns,
            rows: Rows::File,
            // Every column begins with its default.
            reads_row: true,
            changer: None,
            source_slots: Vec::new(),
        };
        Ok(Self {
            insert,
            targets,
            sets,
            charset,
            dialect,
            xml,
            skip_lines: load.skip_lines,
            row_width,
            field_limit: usize::try_from(env.ctx.max_allowed_packet).unwrap_or(usize::MAX),
        })
    }

    /// The table it loads.
    pub(crate) fn targets(&self) -> &[Arc<TableDef>] {
        self.insert.targets()
    }

    /// The foreign keys it has to keep.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        self.insert.foreign_keys()
    }

    /// Do triggers run for the rows?
    pub(crate) fn fires(&self) -> bool {
        self.insert.fires()
    }

    /// The statement that stores the rows.
    pub(crate) fn insert(&self) -> &CompiledInsert {
        &self.insert
    }

    /// How the rows are stored, in steps.
    pub(crate) fn begin_insert(&self, env: &DmlEnv<'_>) -> InsertSteps {
        let lenient = self.insert.ignore || !env.ctx.sql_mode.is_strict();
        self.insert.begin_with(env, lenient)
    }
}

/// The table, by the columns that are listed and assigned to.
fn load_target(env: &BindEnv<'_>, need: Need, load: &LoadData) -> SqlResult<InsertTarget> {
    let named = load.columns.iter().filter_map(|t| match t {
        LoadTarget::Column(name) => Some(name),
        LoadTarget::Var(_) => None,
    });
    let set = load.assignments.iter().map(|set| &set.column.name);
    let listed: Vec<&Ident> = named.chain(set).collect();
    let listed = (!load.columns.is_empty()).then_some(&*listed);
    InsertTarget::bind(env, need, &load.table, LOAD, listed)
}

/// The list of columns and variables; without one, all visible columns.
fn targets(target: &InsertTarget, list: &[LoadTarget]) -> SqlResult<Vec<Target>> {
    let table = &target.named;
    if list.is_empty() {
        let all = target.all_columns().into_iter();
        return Ok(all.map(Target::Column).collect());
    }
    let target = |t: &LoadTarget| match t {
        LoadTarget::Var(name) => Ok(Target::Variable(name.clone())),
        LoadTarget::Column(name) => {
            let col = table.column_index(&name.text);
            col.map(Target::Column)
                .ok_or_else(|| errors::unknown_column(&name.text, "field list"))
        }
    };
    list.iter().map(target).collect()
}

/// Bytes of a row without separators; None if there are some.
fn row_width(table: &TableDef, targets: &[Target], dialect: &Dialect) -> SqlResult<Option<usize>> {
    let mut width = Some(0);
    let mut variables = false;
    for target in targets {
        match target {
            Target::Column(col) => {
                let column = width_of(&table.columns[*col].ty);
                width = width.zip(column).map(|(sum, column)| sum + column);
            }
            Target::Variable(_) => variables = true,
        }
    }
    if width.is_none() && dialect.field_end.is_empty() && dialect.line_end.is_empty() {
        let text = "You can't use fixed rowlength with BLOBs; please use 'fields terminated by'";
        return Err(SqlError::new(1084, "42000", text));
    }
    if !dialect.is_fixed() {
        return Ok(None);
    }
    if variables {
        let text = "Can't load value from file with fixed size rows to variable";
        return Err(SqlError::new(1409, "HY000", text));
    }
    // Of a BLOB the rest of the line is taken.
    Ok(Some(width.unwrap_or(usize::MAX)))
}

fn compile_sets(
    env: &BindEnv<'_>,
    target: &InsertTarget,
    load: &LoadData,
    charset: Charset,
) -> SqlResult<Vec<Assignment>> {
    let vars = FileVars {
        vars: env.vars,
        filled: &load.columns,
        ty: text_type(charset),
    };
    let env = env.with_vars(&vars);
    let (table, scope) = (&target.named, row_scope(&env, target));
    let mut sets = Vec::with_capacity(load.assignments.len());
    for set in &load.assignments {
        let col = assigned_column(table, &set.column, &table.name)?;
        match (&table.columns[col].generated, &set.value) {
            (None, value) => {
                let cell = compile_cell(&env, &scope, table, col, value)?;
                sets.push(Assignment { col, cell });
            }
            (Some(_), Expr::Default(None)) => {}
            (Some(_), value) => {
                bind_expr(&env, &scope, value)?;
            }
        }
    }
    Ok(sets)
}
