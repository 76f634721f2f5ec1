//! How many rows each partition has, from a sample of the rows.
//!
//! Neighbours: `partitions` shows the numbers; the catalog keeps them with the table ([`PartitionSizes`]).
//! **Invariants**
//! - At most [`SAMPLED_ROWS`] rows are read, of a larger table in places spread by key; of others all, so the numbers
//!   are exact.
//! - Nothing is read again while the table's tree is as it was.

use std::sync::Arc;

use esker_engine::Isolation;
use esker_engine::scan::KeySpan;
use esker_sql_catalog::catalog::{PartitionSizes, Placing, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_plan::expr::{CallStates, EvalEnv, Expr, NoVars};
use esker_types::collation::Collation;
use esker_types::ctx::NoSession;
use esker_types::func::BlockMode;
use esker_types::{EvalCtx, EvalSettings, SqlMode, SqlResult, Value, ValueRef};
use jiff::tz::TimeZone;

use crate::dml::bind_stored;
use crate::instance::Instance;
use crate::schema::tree_size;

/// Rows that are read of a table that has more.
const SAMPLED_ROWS: u64 = 64 << 10;
/// Places of a large table where rows are read.
const PLACES: usize = 1024;

/// How many of the rows that were read each partition has, or each subpartition where there are some. `None` if that
/// cannot be told.
pub(super) fn sizes(instance: &Instance, table: &TableDef) -> Option<Arc<PartitionSizes>> {
    let by = table.partitioning.as_ref()?;
    let stamp = tree_size(&table.primary().tree);
    if let Some(known) = table.runtime.partition_sizes(by, stamp) {
        return Some(known);
    }
    let counts = count(instance, table).ok()?;
    let sizes = Arc::new(PartitionSizes {
        by: by.clone(),
        stamp,
        counts,
    });
    table.runtime.keep_partition_sizes(sizes.clone());
    Some(sizes)
}

/// Counts the rows that are read, by partition.
fn count(instance: &Instance, table: &TableDef) -> SqlResult<Vec<u64>> {
    let settings = settings();
    let ctx = EvalCtx::new(settings, &NoSession);
    let calls = CallStates::default();
    let env = EvalEnv::scalar(&ctx, &NoVars, &calls);
    let places = Places::of(table, &ctx)?;
    let mut counts = vec![0; places.count()];
    let rows = tree_size(&table.primary().tree).0;
    let is_whole = rows <= SAMPLED_ROWS;
    let txn = instance.engine.begin(Isolation::RepeatableRead);
    let parts = if is_whole { 1 } else { PLACES };
    let scan = txn
        .parallel_scan(&table.primary().tree, vec![KeySpan::all()], parts)
        .map_err(|e| engine_error(&e))?;
    let per_part = match is_whole {
        // What has come since the rows were counted is read as well, within reason.
        true => SAMPLED_ROWS * 2,
        false => (SAMPLED_ROWS / scan.tasks() as u64).max(1),
    };
    let mut values = vec![Value::Null; table.columns.len()];
    for part in 0..scan.tasks() {
        let (mut here, mut failed) = (0, Ok(()));
        let mut row = |_: &[u8], stored: &[u8]| {
            failed = places
                .find(table, stored, &mut values, &env)
                .map(|at| at.into_iter().for_each(|at| counts[at] += 1));
            here += 1;
            failed.is_ok() && here < per_part
        };
        scan.read(part, &mut row, &mut || true)
            .map_err(|e| engine_error(&e))?;
        failed?;
    }
    Ok(counts)
}

/// Those under which partitioning expressions are computed, whoever asks.
fn settings() -> EvalSettings {
    EvalSettings {
        sql_mode: SqlMode::default(),
        time_zone: TimeZone::UTC,
        now_micros: 0,
        div_precision_increment: 4,
        default_week_format: 0,
        auto_is_null: false,
        time_names: esker_types::func::TimeLocale::default(),
        max_allowed_packet: 64 << 20,
        group_concat_max_len: 1024,
        collation_connection: Collation::UTF8MB4_0900_AI_CI,
        block_encryption: BlockMode::default(),
    }
}

/// Where rows are.
struct Places {
    /// Columns that decide.
    columns: Vec<usize>,
    of_table: Place,
    /// In each partition: how many subpartitions, and which.
    of_partition: Option<(usize, Place)>,
    partitions: usize,
}

/// One way in which rows are divided.
enum Place {
    Number(Expr),
    Below(Vec<Expr>),
    Within(Vec<Expr>),
}

impl Places {
    fn of(table: &TableDef, ctx: &EvalCtx<'_>) -> SqlResult<Self> {
        let partitioning = table.partitioning.as_deref();
        let partitioning = partitioning.expect("asked of partitioned tables only");
        let bind = |text: &String| bind_stored(ctx, &table.name, &table.columns, text);
        let all = |texts: &Vec<String>| texts.iter().map(bind).collect::<SqlResult<Vec<Expr>>>();
        let of_table = match &partitioning.placing() {
            Placing::Number(text) => Place::Number(bind(text)?),
            Placing::Below(texts) => Place::Below(all(texts)?),
            Placing::Within(texts) => Place::Within(all(texts)?),
        };
        let of_partition = match &partitioning.sub {
            None => None,
            Some(sub) => {
                let count = partitioning.partitions[0].subpartitions.len();
                Some((count, Place::Number(bind(&sub.number(count))?)))
            }
        };
        let names = table.columns.iter().enumerate();
        let deciding = names.filter(|(_, c)| partitioning.decides(&c.name));
        Ok(Self {
            columns: deciding.map(|(at, _)| at).collect(),
            of_table,
            of_partition,
            partitions: partitioning.partitions.len(),
        })
    }

    fn count(&self) -> usize {
        let subs = self.of_partition.as_ref().map_or(1, |(count, _)| *count);
        self.partitions * subs
    }

    /// The partition, or subpartition, of a row.
    fn find(
        &self,
        table: &TableDef,
        stored: &[u8],
        values: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<Option<usize>> {
        let row = RowReader::new(&table.layout, &UTC, stored)?;
        for at in &self.columns {
            values[*at] = row.field(*at).to_owned();
        }
        let Some(at) = self.of_table.find(values, env)? else {
            return Ok(None);
        };
        let found = match &self.of_partition {
            None => Some(at),
            Some((count, place)) => place.find(values, env)?.map(|sub| at * count + sub),
        };
        Ok(found.filter(|at| *at < self.count()))
    }
}

impl Place {
    fn find(&self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<Option<usize>> {
        let holds = |condition: &Expr| {
            let holds = condition.eval_bool(row, env);
            Ok::<bool, ExecError>(holds? == Some(true))
        };
        let found = match self {
            Self::Number(number) => {
                let number = number.eval(row, env).map_err(ExecError::without_wait)?;
                return Ok(match number.as_ref() {
                    ValueRef::Int(n) => usize::try_from(n).ok(),
                    ValueRef::UInt(n) => usize::try_from(n).ok(),
                    _ => None,
                });
            }
            Self::Below(bounds) => first(bounds, holds),
            Self::Within(lists) => {
                let mut found = None;
                for (at, list) in lists.iter().enumerate() {
                    if holds(list).map_err(ExecError::without_wait)? {
                        found = Some(at);
                        break;
                    }
                }
                Ok(found)
            }
        };
        found.map_err(ExecError::without_wait)
    }
}

/// The first of some bounds, which ascend, below which the row is: a binary search.
fn first(
    bounds: &[Expr],
    holds: impl Fn(&Expr) -> Result<bool, ExecError>,
) -> Result<Option<usize>, ExecError> {
    let (mut low, mut high) = (0, bounds.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(&bounds[middle])? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    debug_assert!(low <= bounds.len());
    Ok((low < bounds.len()).then_some(low))
}
