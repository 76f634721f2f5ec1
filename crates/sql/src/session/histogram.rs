//! ANALYZE TABLE … UPDATE HISTOGRAM and DROP HISTOGRAM, and what plain ANALYZE TABLE does with histograms.
//!
//! Neighbours: `maintain` hands the statements over; `catalog::histogram` makes buckets of values.
//! **Invariants**
//! - What cannot be done for a column is a line of the answer, not an error of the statement; the lines are in order of
//!   the columns' names.
//! - Rows are read at one snapshot, at most [`SAMPLED_ROWS`] of them, in places spread over the whole table.
//! - The table's metadata lock is held until the new statistics are published.

use std::collections::BTreeMap;

use esker_engine::scan::KeySpan;
use esker_engine::{EngineError, Isolation};
use esker_sql_catalog::catalog::{
    Collector, Histogram, IndexDef, MAX_BUCKETS, TableDef, USUAL_BUCKETS, Wanted,
};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_plan::plan::table_rows;
use esker_sql_syntax::ast::{self, Maintain, ObjectName};
use esker_types::{SqlResult, TypeKind, errors};

use super::maintain::whole_table;
use super::{Session, SessionContext};
use crate::ddl::lock_tables::announce_change;
use crate::show;

/// Rows that are read of a table that has more; of others, all.
const SAMPLED_ROWS: u64 = 256 << 10;
/// Places of a large table where rows are read.
const PLACES: usize = 1024;

/// Why a view has no histograms.
pub(super) const VIEW_HISTOGRAM: &str = "Cannot create histogram statistics for a view.";

/// Why a temporary table has no histograms.
const TEMPORARY_HISTOGRAM: &str = "Cannot create histogram statistics for a temporary table.";

/// What became of a column.
enum Outcome {
    Created,
    Removed,
    Failed(String),
}

/// A histogram that is to be made.
struct Order {
    col: usize,
    buckets: u32,
    auto_update: bool,
}

impl Session {
    /// UPDATE HISTOGRAM, DROP HISTOGRAM.
    pub(super) fn histograms(
        &mut self,
        m: &Maintain,
        asked: &ast::Histogram,
    ) -> Result<show::Table, ExecError> {
        for (nth, column) in asked.columns.iter().enumerate() {
            if asked.columns[..nth].iter().any(|c| c.is(&column.text)) {
                return Err(errors::duplicate_column(&column.text).into());
            }
        }
        let buckets = asked.buckets.unwrap_or(USUAL_BUCKETS);
        if !(1..=MAX_BUCKETS).contains(&buckets) {
            return Err(errors::out_of_range("Number of buckets", "ANALYZE TABLE").into());
        }
        for name in &m.tables {
            self.context.require_named(&["SELECT", "INSERT"], name)?;
        }
        self.commit_transaction()?;
        let name = &m.tables[0];
        let outcomes = match self.unfit_now(m)? {
            Some(text) => BTreeMap::from([(String::new(), Outcome::Failed(text))]),
            None => {
                // Planning takes the table's lock.
                self.plan(&whole_table(name.clone()), &[])?;
                let done = self.context.change_histograms(name, asked, buckets as u32);
                self.end_statement(done.is_ok())?;
                done?
            }
        };
        let shown = self.context.shown(name);
        let rows = outcomes.into_iter().map(|(column, outcome)| {
            let (kind, text) = match outcome {
                Outcome::Created => (
                    "status",
                    format!("Histogram statistics created for column '{column}'."),
                ),
                Outcome::Removed => (
                    "status",
                    format!("Histogram statistics removed for column '{column}'."),
                ),
                Outcome::Failed(text) => ("Error", text),
            };
            [shown.as_str(), "histogram", kind, text.as_str()]
                .map(show::t)
                .to_vec()
        });
        let names = ["Table", "Op", "Msg_type", "Msg_text"];
        Ok(show::Table::texts(&names, rows.collect()))
    }

    /// Why there can be no histograms of what the statement names, or none while the session holds the global read
    /// lock.
    fn unfit_now(&mut self, m: &Maintain) -> Result<Option<String>, ExecError> {
        let catalog = self.context.instance.catalog.clone();
        // The server may become read-only meanwhile: that is asked behind the lock.
        match announce_change(&catalog, &mut self.locks) {
            Err(ExecError::Sql(e)) => Ok(Some(e.message)),
            announced => {
                announced?;
                Ok(self.unfit(m)?)
            }
        }
    }

    /// Why there can be no histograms of what the statement names.
    fn unfit(&self, m: &Maintain) -> SqlResult<Option<String>> {
        if m.tables.len() > 1 {
            let text = "Only one table can be specified while modifying histogram statistics.";
            return Ok(Some(text.into()));
        }
        if self.context.is_temporary(&m.tables[0]) {
            return Ok(Some(TEMPORARY_HISTOGRAM.to_owned()));
        }
        if self.context.find_view(&m.tables[0])?.is_some() {
            return Ok(Some(VIEW_HISTOGRAM.to_owned()));
        }
        if let Some(why) = self.context.no_system_histogram(&m.tables[0])? {
            return Ok(Some(why));
        }
        if self.check_writable().is_err() {
            return Ok(Some("The server is in read-only mode.".into()));
        }
        Ok(self
            .context
            .find_table(&m.tables[0])
            .err()
            .map(|e| e.message))
    }
}

impl SessionContext {
    fn change_histograms(
        &self,
        name: &ObjectName,
        asked: &ast::Histogram,
        buckets: u32,
    ) -> SqlResult<BTreeMap<String, Outcome>> {
        let table = self.find_table(name)?;
        let mut outcomes = BTreeMap::new();
        let (mut orders, mut dropped) = (Vec::new(), Vec::new());
        for column in &asked.columns {
            let Some(col) = table.column_index(&column.text) else {
                let text = format!("The column '{}' does not exist.", column.text);
                outcomes.insert(column.text.to_string(), Outcome::Failed(text));
                continue;
            };
            let def = &table.columns[col];
            let outcome = match (asked.drop, table.histogram(col)) {
                (true, Some(_)) => {
                    dropped.push(def.id);
                    Outcome::Removed
                }
                (true, None) => Outcome::Failed(format!(
                    "No histogram statistics found for column '{}'.",
                    def.name
                )),
                (false, _) => match no_histogram_for(&table, col) {
                    Some(text) => Outcome::Failed(text),
                    None => {
                        orders.push(Order {
                            col,
                            buckets,
                            auto_update: asked.auto_update,
                        });
                        Outcome::Created
                    }
                },
            };
            outcomes.insert(def.name.to_string(), outcome);
        }
        orders.sort_by_key(|o| o.col);
        orders.dedup_by_key(|o| o.col);
        if !orders.is_empty() || !dropped.is_empty() {
            self.renew_statistics(&table, &orders, &dropped)?;
        }
        Ok(outcomes)
    }

    /// Plain ANALYZE TABLE: histograms that are to be kept up to date are made anew, and plans are void. The table is
    /// locked.
    pub(super) fn refresh_histograms(&self, table: &TableDef) -> SqlResult<()> {
        let automatic = |(col, _): (usize, &_)| {
            let about = table.histogram(col)?.about;
            about.auto_update.then_some(Order {
                col,
                buckets: about.buckets_specified,
                auto_update: true,
            })
        };
        let columns = table.columns.iter().enumerate();
        let orders: Vec<Order> = columns.filter_map(automatic).collect();
        self.renew_statistics(table, &orders, &[])
    }

    fn renew_statistics(
        &self,
        table: &TableDef,
        orders: &[Order],
        dropped: &[u32],
    ) -> SqlResult<()> {
        let made = match orders {
            [] => Vec::new(),
            orders => self.make_histograms(table, orders)?,
        };
        let mut change = self.instance.catalog.change();
        change.renew_statistics(table, made, dropped)?;
        change.commit().map(drop)
    }

    fn make_histograms(&self, table: &TableDef, orders: &[Order]) -> SqlResult<Vec<Histogram>> {
        let mut collectors: Vec<(usize, Collector)> = orders
            .iter()
            .map(|order| (order.col, Collector::new(&table.columns[order.col])))
            .collect();
        let sampling_rate = self.sample_rows(table, &mut collectors)?;
        let now_micros = self.instance.env.clock.wall_micros();
        let finish = |(order, (col, collector)): (&Order, (usize, Collector))| {
            let wanted = Wanted {
                buckets: order.buckets,
                sampling_rate,
                now_micros,
                auto_update: order.auto_update,
            };
            collector.finish(&table.columns[col], wanted)
        };
        orders.iter().zip(collectors).map(finish).collect()
    }

    /// Reads rows for the collectors of these columns; the share of all rows that was read.
    fn sample_rows(
        &self,
        table: &TableDef,
        collectors: &mut [(usize, Collector)],
    ) -> SqlResult<f64> {
        let to_sql = |e: EngineError| engine_error(&e);
        let rows = table_rows(table);
        let whole = rows <= SAMPLED_ROWS as f64;
        let txn = self.instance.engine.begin(Isolation::RepeatableRead);
        let places = if whole { 1 } else { PLACES };
        let scan = txn.parallel_scan(&table.primary().tree, vec![KeySpan::all()], places);
        let scan = scan.map_err(to_sql)?;
        let per_place = match whole {
            true => u64::MAX,
            false => (SAMPLED_ROWS / scan.tasks() as u64).max(1),
        };
        let stopped = || self.check();
        let mut read = 0;
        for place in 0..scan.tasks() {
            let mut here = 0;
            let mut collected = Ok(());
            let mut row = |_: &[u8], bytes: &[u8]| {
                collected = collect(table, bytes, collectors);
                here += 1;
                collected.is_ok() && here < per_place
            };
            let mut go_on = || stopped().is_ok();
            scan.read(place, &mut row, &mut go_on).map_err(to_sql)?;
            collected?;
            stopped()?;
            read += here;
        }
        Ok(match whole {
            true => 1.0,
            false => (read as f64 / rows).min(1.0),
        })
    }
}

fn collect(table: &TableDef, bytes: &[u8], collectors: &mut [(usize, Collector)]) -> SqlResult<()> {
    let row = RowReader::new(&table.layout, &UTC, bytes)?;
    let mut each = collectors.iter_mut();
    each.try_for_each(|(col, collector)| collector.add(row.field(*col)))
}

/// Why a column has no histogram, if it can have none.
fn no_histogram_for(table: &TableDef, col: usize) -> Option<String> {
    let def = &table.columns[col];
    if matches!(def.ty.kind, TypeKind::Json | TypeKind::Null) {
        return Some(format!(
            "The column '{}' has an unsupported data type.",
            def.name
        ));
    }
    let is_alone = |i: &IndexDef| {
        i.unique
            && !i.hidden
            && matches!(&i.parts[..], [part] if part.col == col && part.prefix_len.is_none())
    };
    table.indexes.iter().any(is_alone).then(|| {
        format!(
            "The column '{}' is covered by a single-part unique index.",
            def.name
        )
    })
}
