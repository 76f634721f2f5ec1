//! How many rows each partition has, from a sample of the rows.
//!
//! Neighbours: `partitions` shows the numbers; the catalog keeps them with the table ([`PartitionSizes`]).
//! **Invariants**
//! - At most [`SAMPLED_ROWS`] rows are read, of a larger table in places spread by key; of others all, so the numbers
//!   are exact.
//! - Nothing is read again while the table's tree is as it was.
//! - KILL and a time limit end the reading, and then nothing is kept.

use std::sync::Arc;

use esker_engine::Isolation;
use esker_engine::scan::KeySpan;
use esker_sql_catalog::catalog::{PartitionSizes, Placing, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_plan::expr::{CallStates, EvalEnv, Expr, NoVars};
use esker_types::ctx::{MANY_BYTES, NoSession, SessionInfo};
use esker_types::{EvalCtx, EvalSettings, SqlMode, SqlResult, Value, ValueRef};

use crate::dml::bind_stored;
use crate::instance::Instance;
use crate::schema::tree_size;

/// Rows that are read of a table that has more.
const SAMPLED_ROWS: u64 = 64 << 10;
/// Places of a large table where rows are read.
const PLACES: usize = 1024;

/// How many of the rows that were read each partition has, or each subpartition where there are some. `None` if that
/// cannot be told.
///
/// # Errors
/// The statement of this session is killed or out of time.
pub(super) fn sizes(
    instance: &Instance,
    table: &TableDef,
    session: &dyn SessionInfo,
) -> SqlResult<Option<Arc<PartitionSizes>>> {
    let Some(by) = &table.partitioning else {
        return Ok(None);
    };
    let stamp = tree_size(&table.primary().tree);
    if let Some(known) = table.runtime.partition_sizes(by, stamp) {
        return Ok(Some(known));
    }
    let mut stopped = Ok(());
    let counts = count(instance, table, &mut || {
        if stopped.is_ok() {
            stopped = session.go_on(MANY_BYTES);
        }
        stopped.is_ok()
    });
    stopped?;
    let Ok(counts) = counts else {
        return Ok(None);
    };
    let sizes = Arc::new(PartitionSizes {
        by: by.clone(),
        stamp,
        counts,
    });
    table.runtime.keep_partition_sizes(sizes.clone());
    Ok(Some(sizes))
}

/// Counts the rows that are read, by partition; of less than all once `go_on` says no. The expressions are computed
/// under the same settings whoever asks.
fn count(
    instance: &Instance,
    table: &TableDef,
    go_on: &mut dyn FnMut() -> bool,
) -> SqlResult<Vec<u64>> {
    let settings = EvalSettings {
        // A stored date with a zero in it is no error here.
        sql_mode: SqlMode::default(),
        ..EvalSettings::default()
    };
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
        if !go_on() {
            break;
        }
        let (mut here, mut failed) = (0, Ok(()));
        let mut row = |_: &[u8], stored: &[u8]| {
            failed = places
                .find(table, stored, &mut values, &env)
                .map(|at| at.into_iter().for_each(|at| counts[at] += 1));
            here += 1;
            failed.is_ok() && here < per_part
        };
        scan.read(part, &mut row, go_on)
            .map_err(|e| engine_error(&e))?;
        failed?;
    }
    Ok(counts)
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
