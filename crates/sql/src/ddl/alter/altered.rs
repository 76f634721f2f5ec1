//! A changed definition with its trees: made from the rows of the old one, and followed until nothing is left.
//!
//! Neighbours: `alter` has checked the change and holds the locks; `plan` says how it is done; `fill` and `catch_up` do
//! it, `online` ends it; `alter` publishes what comes out.
//!
//! **Invariants**
//! - Nothing here touches the catalog: an error leaves trees that nobody knows.
//! - What is filled beside others pauses for them (`throttle`), and so does what follows their changes, as long as it
//!   gets nearer to them.

use std::sync::Arc;
use std::time::Instant;

use esker_engine::{Isolation, View};
use esker_sql_catalog::catalog::{
    AutoStep, ColumnDef, IndexDef, NewTrees, TableDef, TableRuntime, VisibleFrom, largest_stored,
};
use esker_sql_catalog::codec::{ElementCodec, KeyCodec, LayoutVersion, RowLayout};
use esker_types::SqlResult;
use esker_types::collation::Collation;

use super::super::DdlCtx;
use super::super::catch_up::{CatchUp, Derived};
use super::super::convert::Conversion;
use super::super::create;
use super::super::draft_finish::Built;
use super::super::fill::{self, Building, Checks, Rows};
use super::super::names::TableName;
use super::super::options::Options;
use super::Others;
use super::edit::AlterContext;
use super::online;
use super::plan::{self, Plan};
use crate::dml::foreign::NewKeys;

/// How rows get the numbers of a new AUTO_INCREMENT column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// As if they were inserted, which is what MySQL's copy does.
    Drawn,
    /// As InnoDB does in place.
    InPlace,
}

/// A table after its draft was finished.
pub(super) struct Altered<'a> {
    pub(super) old: &'a Arc<TableDef>,
    pub(super) built: Built,
    pub(super) collation: Collation,
    pub(super) next_column_id: u32,
    pub(super) options: &'a Options,
    pub(super) numbers: (Numbers, AutoStep),
    /// AUTO_INCREMENT begins anew.
    pub(super) begins_anew: bool,
}

/// A definition with its trees filled, ready to be published.
pub(super) struct Made {
    pub(super) def: TableDef,
    pub(super) trees: NewTrees,
    /// Rows copied.
    pub(super) rows: u64,
    /// The counter to persist with the change.
    pub(super) counter: Option<u64>,
}

/// Has the table alone, behind what others have written to it meanwhile.
fn close(
    ctx: &mut DdlCtx<'_>,
    tables: &[TableName],
    others: Others,
    mut follows: Option<CatchUp<'_>>,
) -> SqlResult<()> {
    match others {
        Others::StayOut => Ok(()),
        Others::Read | Others::Write => online::close(ctx, tables, follows.as_mut()),
    }
}

impl Altered<'_> {
    /// Makes the definition and its trees; `tables` are those whose definitions change, `others` what others may do
    /// meanwhile.
    pub(super) fn make(
        self,
        ctx: &mut DdlCtx<'_>,
        plan: Plan,
        context: &AlterContext,
        (tables, others): (&[TableName], Others),
    ) -> SqlResult<Made> {
        let building = Building::of(ctx);
        let engine = ctx.catalog.engine();
        let throttle = (others != Others::StayOut).then_some(ctx.throttle);
        let go_on = || {
            if let Some(throttle) = throttle {
                throttle.look(|| engine.holds_writers());
            }
            (building.check_killed)()
        };
        let filling = Building {
            check_killed: &go_on,
            ..building
        };
        let mut trees = NewTrees::new(ctx.catalog.engine());
        let copy = plan == Plan::Copy;
        let mut def = match copy {
            true => self.copied(&mut trees)?,
            false => self.edited(ctx, &mut trees, context)?,
        };
        let (reader, since) = (engine.begin(Isolation::RepeatableRead), Instant::now());
        let rows = Rows {
            building: filling,
            table: self.old,
            reader: &reader,
            view: others.view(),
        };
        let added = self.built.columns.iter();
        let added: Vec<&ColumnDef> = added.filter(|c| context.added.contains(&c.id)).collect();
        fill::refuse_implicit_values(&rows, &added)?;
        let strict = copy && ctx.eval.sql_mode.is_strict();
        let strict = ctx.eval.diagnostics.strict_write.replace(strict);
        let keys = self.new_keys(ctx, &def);
        let followed_keys = keys.as_ref().filter(|_| others == Others::Write);
        let filled = self.fill(building, &rows, &def, (plan, context));
        let filled = filled.and_then(|(derived, count)| {
            let checked = followed_keys.map(|keys| fill::check_foreign_keys(&rows, keys));
            Ok((derived, count.max(checked.transpose()?.unwrap_or(0))))
        });
        let followed = filled.and_then(|(derived, count)| {
            let follows = (others == Others::Write).then(|| {
                let (follows, base) = ((derived, followed_keys), (reader, since));
                CatchUp::new(building, self.old, follows, base, ctx.throttle)
            });
            close(ctx, tables, others, follows)?;
            Ok(count)
        });
        ctx.eval.diagnostics.strict_write.set(strict);
        let count = followed?;
        // From here on the table's rows stay as they are.
        let unchecked_keys = keys.as_ref().filter(|_| followed_keys.is_none());
        let rest = (&*added, unchecked_keys);
        let checked = self.check_at_rest(ctx, building, &def, rest, others)?;
        if others != Others::StayOut {
            self.take_histograms(ctx, &mut def);
        }
        let counter = self.counter(ctx, &mut def, copy)?;
        Ok(Made {
            def,
            trees,
            rows: count.max(checked),
            counter,
        })
    }

    /// Looks at the rows when they stay as they are: for columns that others have filled meanwhile, and for foreign
    /// keys that were not followed. The number of rows whose keys it has checked.
    fn check_at_rest(
        &self,
        ctx: &DdlCtx<'_>,
        building: Building<'_>,
        def: &TableDef,
        (added, keys): (&[&ColumnDef], Option<&NewKeys<'_>>),
        others: Others,
    ) -> SqlResult<u64> {
        let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
        let latest = |table| Rows {
            building,
            table,
            reader: &reader,
            view: View::Latest,
        };
        if others == Others::Write {
            fill::refuse_implicit_values(&latest(self.old), added)?;
        }
        match keys {
            Some(keys) => fill::check_foreign_keys(&latest(def), keys),
            None => Ok(0),
        }
    }

    /// Gives the table the histograms that it has now: ANALYZE may have come meanwhile.
    fn take_histograms(&self, ctx: &DdlCtx<'_>, def: &mut TableDef) {
        if let Some(now) = ctx.catalog.resolve(&self.old.schema, &self.old.name) {
            def.histograms.clone_from(&now.histograms);
        }
    }

    /// The foreign keys that rows have to keep from now on.
    fn new_keys(&self, ctx: &DdlCtx<'_>, def: &TableDef) -> Option<NewKeys<'_>> {
        let names = &self.built.new_keys;
        let lookup = |schema: &str, name: &str| ctx.catalog.resolve(schema, name);
        let is_checked = ctx.foreign_key_checks && !names.is_empty();
        is_checked.then(|| NewKeys::new(&lookup, Arc::new(def.clone()), names))
    }

    /// Fills the new trees of `def` from the rows; how to make what they hold of a row, and the number of rows copied.
    fn fill<'a>(
        &'a self,
        building: Building<'a>,
        rows: &Rows<'_>,
        def: &'a TableDef,
        (plan, context): (Plan, &AlterContext),
    ) -> SqlResult<(Derived<'a>, u64)> {
        if plan == Plan::Copy {
            let (step, _) = self.new_numbers();
            let conversion = Conversion::new(building, self.old, def, context, step)?;
            let count = fill::copy_table(rows, &conversion)?;
            return Ok((Derived::Copies(conversion), count));
        }
        let is_fresh = |at: &usize| def.indexes[*at].visible_from.is_fresh();
        let which: Vec<usize> = (1..def.indexes.len()).filter(is_fresh).collect();
        let checks = Checks::new(building, def, &context.new_checks)?;
        if let Some(checks) = &checks {
            checks.check_all(rows)?;
        }
        fill::fill_indexes(rows, def, &which)?;
        let derived = Derived::Entries {
            new: def,
            which,
            checks,
        };
        Ok((derived, 0))
    }

    /// What every way of altering has in common.
    fn common(
        &self,
        columns: Vec<ColumnDef>,
        indexes: Vec<IndexDef>,
        layout: RowLayout,
    ) -> TableDef {
        let options = self.options;
        TableDef {
            auto_column: columns.iter().position(|c| c.auto_increment),
            columns,
            indexes,
            layout,
            checks: self.built.checks.clone(),
            foreign_keys: self.built.foreign_keys.clone(),
            partitioning: self.built.partitioning.clone(),
            collation: self.collation,
            engine: options.engine.unwrap_or(self.old.engine),
            comment: options
                .comment
                .clone()
                .unwrap_or_else(|| self.old.comment.clone()),
            row_format: options
                .row_format
                .clone()
                .unwrap_or_else(|| self.old.row_format.clone()),
            shown_options: options.shown_over(&self.old.shown_options),
            next_column_id: self.next_column_id,
            ..TableDef::clone(self.old)
        }
    }

    /// The table with new trees for everything.
    fn copied(&self, trees: &mut NewTrees) -> SqlResult<TableDef> {
        let mut columns = self.built.columns.clone();
        columns.iter_mut().for_each(|c| c.instant_default = None);
        let indexes = create::new_indexes(trees, &columns, &self.built.indexes)?;
        let layout = RowLayout::new(&columns, vec![LayoutVersion::of(&columns)]);
        let mut def = self.common(columns, indexes, layout);
        def.visible_from = VisibleFrom::fresh();
        let last = match self.keeps_auto_column(&def) {
            true => self.kept_counter(&def),
            false => self.new_numbers().1,
        };
        def.runtime = Arc::new(TableRuntime::new(last));
        Ok(def)
    }

    /// The table with its rows where they are, and new trees for new indexes only.
    fn edited(
        &self,
        ctx: &DdlCtx<'_>,
        trees: &mut NewTrees,
        context: &AlterContext,
    ) -> SqlResult<TableDef> {
        let mut columns = self.built.columns.clone();
        for column in columns.iter_mut().filter(|c| context.added.contains(&c.id)) {
            column.instant_default = Some(fill::instant_default(ctx, column)?);
        }
        let mut indexes = Vec::with_capacity(self.built.indexes.len() + 1);
        if !self.old.has_primary_key() {
            indexes.push(self.old.indexes[0].clone());
        }
        for built in &self.built.indexes {
            let existing = built
                .existing
                .and_then(|id| self.old.indexes.iter().find(|i| i.id == id));
            let index = match existing {
                Some(old) if plan::same_key(self.old, old, &columns, built) => IndexDef {
                    name: built.name.clone(),
                    invisible: built.invisible,
                    generated: built.generated,
                    comment: built.comment.clone(),
                    using: built.using.clone(),
                    codec: KeyCodec::new(&columns, &built.parts, built.unique, built.primary),
                    words: create::word_codec(&columns, built),
                    elements: ElementCodec::new(&columns, &built.parts, built.unique),
                    parts: built.parts.clone(),
                    ..old.clone()
                },
                _ => {
                    let mut index = create::new_index(trees, &columns, built)?;
                    index.visible_from = VisibleFrom::fresh();
                    index
                }
            };
            indexes.push(index);
        }
        let mut versions = self.old.layout.versions().to_vec();
        versions.extend(plan::new_layout(self.old, &columns));
        let layout = RowLayout::new(&columns, versions);
        Ok(self.common(columns, indexes, layout))
    }

    /// The steps of numbers that rows get, and the counter before the first one.
    fn new_numbers(&self) -> (AutoStep, u64) {
        let asked = self.options.auto_increment.unwrap_or(0);
        match self.numbers {
            (Numbers::InPlace, step) => step.added_in_place(asked),
            (Numbers::Drawn, step) => (step, asked.saturating_sub(1)),
        }
    }

    /// Has the table the AUTO_INCREMENT column that it had?
    fn keeps_auto_column(&self, def: &TableDef) -> bool {
        let was_auto = self.old.auto_column.map(|c| self.old.columns[c].id);
        !self.begins_anew && was_auto == def.auto_column.map(|c| def.columns[c].id)
    }

    /// The counter before the change; a column that becomes AUTO_INCREMENT begins anew.
    fn kept_counter(&self, def: &TableDef) -> u64 {
        match self.keeps_auto_column(def) {
            true => self.old.runtime.last_auto(),
            false => 0,
        }
    }

    /// AUTO_INCREMENT after the change: as asked for, but behind the largest value stored.
    fn counter(&self, ctx: &DdlCtx<'_>, def: &mut TableDef, copy: bool) -> SqlResult<Option<u64>> {
        if copy {
            let before = self.kept_counter(def);
            def.runtime = Arc::new(TableRuntime::new(def.runtime.last_auto().max(before)));
        }
        if def.auto_column.is_none() {
            return Ok(None);
        }
        let asked = self.options.auto_increment.map(|v| v.saturating_sub(1));
        if asked.is_none() && self.keeps_auto_column(def) {
            return Ok(copy.then(|| self.old.runtime.last_auto()));
        }
        let largest = largest_stored(ctx.catalog.engine(), def)?;
        let drawn = match self.keeps_auto_column(def) {
            true => 0,
            false => def.runtime.last_auto(),
        };
        let last = asked.unwrap_or(0).max(largest).max(drawn);
        def.runtime = Arc::new(TableRuntime::new(last));
        Ok(Some(last))
    }
}
