//! EXCHANGE PARTITION: the rows of a partition and those of a table change places.
//!
//! In flow order: what is locked and looked up · what the two must have in common (`Pair`) · new trees for both,
//! filled from the rows of both · one catalog change that gives them to their tables. Neighbours: `alter` hands the
//! statement over; `convert` and `fill` move rows as they do for any copy.
//!
//! **Invariants**
//! - Both tables get their new rows by one change of the catalog: a crash leaves both as they were, or both exchanged.
//! - Every row that comes meets the CHECK constraints of where it comes to, and has a partition there.

use std::sync::Arc;

use esker_engine::{Isolation, View};
use esker_sql_catalog::catalog::{
    Chosen, ColumnDef, IndexDef, NewTrees, ShownOption, TableDef, TableRuntime, same_name,
};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_syntax::ast::{Ident, ObjectName};
use esker_types::{SqlResult, errors};

use super::convert::Conversion;
use super::draft::not_for_generated;
use super::fill::{self, Building, Rows};
use super::names::{self, TableName, resolve};
use super::{DdlCtx, DdlDone, table};

/// ALTER TABLE `name` EXCHANGE PARTITION `partition` WITH TABLE `with`.
pub(super) fn exchange(
    ctx: &mut DdlCtx<'_>,
    name: &ObjectName,
    (partition, with): (&Ident, &ObjectName),
    validates: bool,
) -> Result<DdlDone, ExecError> {
    let both = [resolve(name, ctx.database)?, resolve(with, ctx.database)?];
    if both[0] == both[1] {
        return Err(errors::not_unique_table(&both[0].name).into());
    }
    for name in &both {
        names::check_table(name, ctx.user)?;
        find(ctx, name)?;
    }
    let mut stored = both.to_vec();
    stored.retain(|name| ctx.temporary(name).is_none());
    ctx.lock_exclusive(&stored)?;
    let (partitioned, plain) = (find(ctx, &both[0])?, find(ctx, &both[1])?);
    let pair = Pair::check(&partitioned, &plain, partition)?;
    pair.exchange(ctx, validates)
}

/// The table of a name: 1177 for a view.
fn find(ctx: &DdlCtx<'_>, name: &TableName) -> Result<Arc<TableDef>, ExecError> {
    if ctx.temporary(name).is_none() && ctx.catalog.view(&name.schema, &name.name).is_some() {
        return Err(errors::cannot_open_table().into());
    }
    ctx.existing(name)
}

/// A partitioned table, and one that fits in the place of a partition.
struct Pair<'a> {
    partitioned: &'a TableDef,
    plain: &'a TableDef,
    /// That a row is in the partition: SQL over the columns of either.
    belongs: String,
}

impl<'a> Pair<'a> {
    /// 1505, 1732, 1733, 1497, 1740, 1735, 1734, 1736, 3106, 1731.
    fn check(partitioned: &'a TableDef, plain: &'a TableDef, partition: &Ident) -> SqlResult<Self> {
        let partitioning = partitioned.partitioning.as_ref();
        let partitioning = partitioning.ok_or_else(errors::management_without_partitions)?;
        if plain.partitioning.is_some() {
            return Err(errors::exchange_with_partitioned(&plain.name));
        }
        if plain.temporary {
            return Err(errors::exchange_with_temporary(&plain.name));
        }
        if plain.engine != partitioned.engine {
            return Err(errors::mixed_handlers());
        }
        if !plain.foreign_keys.is_empty() || !plain.referenced_by.is_empty() {
            return Err(errors::exchange_with_foreign_keys(&plain.name));
        }
        let unknown = || errors::unknown_partition(&partition.text, &partitioned.name);
        let chosen = partitioning.find(&partition.text).ok_or_else(unknown)?;
        if partitioning.sub.is_some() && chosen.subpartition.is_none() {
            return Err(errors::exchange_needs_subpartition());
        }
        check_definitions(partitioned, plain)?;
        check_options(partitioned, plain, chosen)?;
        Ok(Self {
            partitioned,
            plain,
            belongs: partitioning.belongs(chosen),
        })
    }

    /// Makes the new trees of both tables, and publishes them.
    fn exchange(&self, ctx: &mut DdlCtx<'_>, validates: bool) -> Result<DdlDone, ExecError> {
        let mut trees = NewTrees::new(ctx.catalog.engine());
        let (last, own) = (self.last_auto(), self.plain.runtime.last_auto());
        let partitioned = emptied(&mut trees, self.partitioned, last)?;
        let plain = emptied(&mut trees, self.plain, own)?;
        self.fill(ctx, (&partitioned, &plain), validates)?;
        let mut change = ctx.change()?;
        change.adopt(trees);
        for table in [self.partitioned, self.plain] {
            table.indexes.iter().for_each(|i| change.abandon_tree(i.id));
        }
        for (def, last) in [(partitioned, last), (plain, own)] {
            if def.auto_column.is_some() {
                let set = ctx.catalog.engine().set_counter(def.counter_tree(), last);
                set.map_err(|e| engine_error(&e))?;
            }
            change.put_table(def)?;
        }
        Ok(DdlDone {
            seq: change.commit()?,
            ..DdlDone::default()
        })
    }

    /// The partitioned table counts on from the larger number of the two; the other one keeps its own.
    fn last_auto(&self) -> u64 {
        let tables = [self.partitioned, self.plain];
        let last = tables.map(|t| t.runtime.last_auto());
        last[0].max(last[1])
    }

    /// Fills the new trees from the rows of both. 1737, where rows are `validated`.
    fn fill(
        &self,
        ctx: &DdlCtx<'_>,
        (partitioned, plain): (&TableDef, &TableDef),
        validates: bool,
    ) -> SqlResult<()> {
        let building = Building::of(ctx);
        let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
        let rows = |table| Rows {
            building,
            table,
            reader: &reader,
            view: View::Latest,
        };
        let (of_partitioned, of_plain) = (rows(self.partitioned), rows(self.plain));
        let step = ctx.auto_step;
        let others = format!("({}) IS NOT TRUE", self.belongs);
        let moved = |from, to, first, discards| {
            Conversion::moved(building, (from, to), (step, first), discards)
        };
        if validates {
            let comes = moved(self.plain, partitioned, 0, Some(&*others))?;
            fill::check_none_dropped(&of_plain, &comes, errors::exchange_row_outside)?;
        }
        // Without a key of their own, rows that come are numbered behind those that stay.
        let first = match self.partitioned.primary().hidden {
            true => {
                let (engine, runtime) = (ctx.catalog.engine(), &self.partitioned.runtime);
                runtime.next_row_id(engine, &self.partitioned.primary().tree)?
            }
            false => 0,
        };
        let stays = moved(self.partitioned, partitioned, 0, Some(&*self.belongs))?;
        let comes = moved(self.plain, partitioned, first, None)?;
        let goes = moved(self.partitioned, plain, 0, Some(&*others))?;
        fill::copy_tables(&[(&of_partitioned, &stays), (&of_plain, &comes)])?;
        fill::copy_tables(&[(&of_partitioned, &goes)])?;
        Ok(())
    }
}

/// A table with new trees, counting on from `last`.
fn emptied(trees: &mut NewTrees, old: &TableDef, last: u64) -> SqlResult<TableDef> {
    Ok(TableDef {
        runtime: Arc::new(TableRuntime::new(last)),
        ..table::emptied(trees, old)?
    })
}

/// Columns and keys are the same: 1736; 3106 where only one of two columns is STORED. What no row knows of (defaults,
/// comments, visibility, CHECK constraints) may differ.
fn check_definitions(one: &TableDef, other: &TableDef) -> SqlResult<()> {
    let different = errors::exchange_different_definitions;
    if one.columns.len() != other.columns.len() || one.indexes.len() != other.indexes.len() {
        return Err(different());
    }
    let mut pairs = one.columns.iter().zip(&other.columns);
    if !pairs.all(|(a, b)| same_column(a, b)) {
        return Err(different());
    }
    let stored = |c: &ColumnDef| c.generated.as_ref().is_some_and(|g| g.stored);
    let mut pairs = one.columns.iter().zip(&other.columns);
    if pairs.any(|(a, b)| stored(a) != stored(b)) {
        return Err(not_for_generated(
            "Exchanging partitions for non-generated columns",
        ));
    }
    let has = |index: &IndexDef| other.indexes.iter().any(|it| same_index(index, it));
    match one.indexes.iter().all(has) {
        true => Ok(()),
        false => Err(different()),
    }
}

fn same_column(one: &ColumnDef, other: &ColumnDef) -> bool {
    let text = |c: &ColumnDef| c.generated.as_ref().map(|g| (g.text.clone(), g.hidden));
    let is_hidden = one.is_hidden() && other.is_hidden();
    (is_hidden || same_name(&one.name, &other.name))
        && one.ty == other.ty
        && one.auto_increment == other.auto_increment
        && text(one) == text(other)
}

fn same_index(one: &IndexDef, other: &IndexDef) -> bool {
    same_name(&one.name, &other.name)
        && (one.unique, one.primary, one.hidden) == (other.unique, other.primary, other.hidden)
        && one.is_fulltext() == other.is_fulltext()
        && one.parts == other.parts
}

/// 1731.
fn check_options(partitioned: &TableDef, plain: &TableDef, chosen: Chosen) -> SqlResult<()> {
    use ShownOption::*;
    let differs = |what| Err(errors::exchange_different_options(what));
    if partitioned.collation != plain.collation {
        return differs("CHARACTER SET");
    }
    let same = |option| partitioned.shown_options.get(option) == plain.shown_options.get(option);
    if ![Checksum, PackKeys, DelayKeyWrite, StatsPersistent]
        .into_iter()
        .all(same)
    {
        return differs("TABLE OPTION");
    }
    let format = |table: &TableDef| {
        let is_compressed = table.shown_options.get(KeyBlockSize).is_some();
        match &*table.row_format {
            "" | "DEFAULT" if is_compressed => "COMPRESSED".into(),
            "" | "DEFAULT" => "DYNAMIC".into(),
            _ => table.row_format.clone(),
        }
    };
    let item = partitioned.partitioning.as_ref().map(|p| p.item(chosen));
    let given = |option| {
        plain
            .shown_options
            .get(option)
            .and_then(|v| v.parse().ok())
            .unwrap_or(0)
    };
    let asked = item.map_or((0, 0), |item| (item.max_rows, item.min_rows));
    match () {
        () if !same(AvgRowLength) => differs("AVG_ROW_LENGTH"),
        () if asked.0 != given(MaxRows) => differs("MAX_ROWS"),
        () if asked.1 != given(MinRows) => differs("MIN_ROWS"),
        () if format(partitioned) != format(plain) => differs("ROW_FORMAT"),
        () => Ok(()),
    }
}
