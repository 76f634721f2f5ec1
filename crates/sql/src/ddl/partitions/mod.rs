//! How a table is partitioned: from PARTITION BY to a [`Partitioning`] that is kept with the table.
//!
//! In flow order: `method` (expressions and columns that decide, and what MySQL allows of them) · `values` (VALUES of
//! partitions) · here, the whole: names, numbers, unique keys · `manage` (ADD PARTITION and its kin). Neighbours:
//! `create` and `alter` ask here when the rest of the table is finished; `bind` and `dml` use the result.
//! **Invariant**: what passes here can be read again: `values` has bound every constant.

mod manage;
mod method;
mod values;

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    Counted, PartitionDef, PartitionItem, PartitionKind, PartitionMethod, Partitioning,
    StorageEngine, same_name,
};
use esker_sql_syntax::ast;
use esker_sql_syntax::keyword::Kw;
use esker_types::func::MAX_PARTITIONS;
use esker_types::names::{check_length, is_bad};
use esker_types::{EvalCtx, SqlResult, errors};

use super::draft_finish::Built;

pub(in crate::ddl) use manage::{Managed, manage};

/// A table whose rest is finished.
pub(in crate::ddl) struct Table<'a> {
    pub(in crate::ddl) eval: &'a EvalCtx<'a>,
    pub(in crate::ddl) schema: &'a str,
    pub(in crate::ddl) name: &'a str,
    pub(in crate::ddl) built: &'a Built,
    pub(in crate::ddl) engine: StorageEngine,
    /// The table says which engine it has, so partitions need not.
    pub(in crate::ddl) has_engine: bool,
}

/// The partitioning that a clause asks for.
pub(in crate::ddl) fn define(
    table: &Table<'_>,
    by: &ast::PartitionBy,
) -> SqlResult<Arc<Partitioning>> {
    let method = method::define(table, &by.method)?;
    let sub = by.sub.as_ref();
    let sub = sub.map(|sub| method::define(table, sub)).transpose()?;
    let is_divided = matches!(method.kind, PartitionKind::Range | PartitionKind::List);
    if !is_divided && sub.is_some() {
        return Err(errors::subpartitions_of_hash());
    }
    check_written(table, sub.is_some(), &by.partitions)?;
    if is_divided && by.partitions.is_empty() {
        return Err(errors::partitions_must_be_defined(method.kind.word()));
    }
    let listed = by.partitions.iter();
    let sub_count = listed.map(|p| p.subpartitions.len()).max().unwrap_or(0);
    let sub_count = match by.sub_count {
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
        None => sub_count.max(1),
    };
    let count = match by.partitions.len() {
        0 => usize::try_from(by.count.unwrap_or(1)).unwrap_or(usize::MAX),
        listed => listed,
    };
    let subs = if sub.is_some() { sub_count } else { 1 };
    if count.saturating_mul(subs) > MAX_PARTITIONS {
        return Err(errors::too_many_partitions());
    }
    let are_listed = by.partitions.iter().any(|p| !p.subpartitions.is_empty());
    let mut out = Partitioning {
        counted: match (by.partitions.is_empty(), by.count) {
            (false, _) => Counted::Listed,
            (true, Some(_)) => Counted::Number,
            (true, None) => Counted::Default,
        },
        sub_counted: match (are_listed, by.sub_count) {
            (true, _) => Counted::Listed,
            (false, Some(_)) => Counted::Number,
            (false, None) => Counted::Default,
        },
        partitions: Vec::new(),
        keywords: Vec::new(),
        method,
        sub,
    };
    out.partitions = match by.partitions.is_empty() {
        true => numbered(0..count),
        false => defined(table, &out, &by.partitions, sub_count)?,
    };
    finish(table, out)
}

/// Partitions of HASH or KEY that are only counted.
fn numbered(numbers: std::ops::Range<usize>) -> Vec<PartitionDef> {
    let one = |n: usize| PartitionDef {
        item: PartitionItem {
            name: format!("p{n}").into(),
            ..PartitionItem::default()
        },
        bound: esker_sql_catalog::catalog::PartitionBound::None,
        subpartitions: Vec::new(),
    };
    numbers.map(one).collect()
}

/// The partitions of `of` that are written.
fn defined(
    table: &Table<'_>,
    of: &Partitioning,
    specs: &[ast::PartitionSpec],
    sub_count: usize,
) -> SqlResult<Vec<PartitionDef>> {
    let one = |spec: &ast::PartitionSpec| {
        let name = &*spec.name.text;
        let whole = item(&spec.name, &spec.options)?;
        let numbered = |n: usize| PartitionItem {
            name: format!("{name}sp{n}").into(),
            ..whole.clone()
        };
        let subpartitions = match (&of.sub, spec.subpartitions.is_empty()) {
            (None, _) => Vec::new(),
            (Some(_), true) => (0..sub_count).map(numbered).collect(),
            (Some(_), false) => {
                let written = spec.subpartitions.iter();
                let items = written.map(|(name, options)| {
                    let own = item(name, options)?;
                    Ok(or_of_partition(own, options.comment.is_some(), &whole))
                });
                items.collect::<SqlResult<_>>()?
            }
        };
        Ok(PartitionDef {
            item: whole,
            bound: values::bound(table, &of.method, spec)?,
            subpartitions,
        })
    };
    specs.iter().map(one).collect()
}

/// A subpartition has of its partition what it does not say itself.
fn or_of_partition(own: PartitionItem, has_comment: bool, whole: &PartitionItem) -> PartitionItem {
    let or = |own: u64, whole: u64| if own == 0 { whole } else { own };
    PartitionItem {
        comment: match has_comment {
            true => own.comment,
            false => whole.comment.clone(),
        },
        max_rows: or(own.max_rows, whole.max_rows),
        min_rows: or(own.min_rows, whole.min_rows),
        ..own
    }
}

/// What partitions must not say: 1500, 1497.
fn check_written(
    table: &Table<'_>,
    is_subdivided: bool,
    specs: &[ast::PartitionSpec],
) -> SqlResult<()> {
    if !is_subdivided && specs.iter().any(|s| !s.subpartitions.is_empty()) {
        return Err(errors::subpartitions_of_hash());
    }
    // A subpartition has the engine that its partition names.
    let engines = specs.iter().flat_map(|spec| {
        let own = spec.options.engine.as_deref();
        let subs = spec.subpartitions.iter();
        let mut named: Vec<_> = subs.map(|(_, o)| o.engine.as_deref().or(own)).collect();
        if named.is_empty() {
            named.push(own);
        }
        named
    });
    let engines: Vec<Option<&str>> = engines.collect();
    let Some(first) = engines.iter().flatten().next() else {
        return Ok(());
    };
    let are_all = |is: &dyn Fn(&str) -> bool| engines.iter().all(|e| e.is_some_and(is));
    let is_tables = |name: &str| name.eq_ignore_ascii_case(table.engine.name());
    let fits = match table.has_engine {
        true => engines.iter().flatten().all(|name| is_tables(name)),
        false => are_all(&is_tables),
    };
    match fits {
        true => Ok(()),
        // They would be the table's.
        false if !table.has_engine && are_all(&|name| name.eq_ignore_ascii_case(first)) => {
            Err(errors::engine_without("native partitioning"))
        }
        false => Err(errors::mixed_handlers()),
    }
}

fn item(name: &ast::Ident, options: &ast::PartitionOptions) -> SqlResult<PartitionItem> {
    if is_bad(&name.text) {
        return Err(errors::wrong_partition_name());
    }
    check_length(&name.text)?;
    Ok(PartitionItem {
        name: name.text.clone(),
        comment: options.comment.clone().unwrap_or_default(),
        max_rows: options.max_rows,
        min_rows: options.min_rows,
    })
}

/// Checks a partitioning as a whole, and as that of its table.
fn finish(table: &Table<'_>, mut partitioning: Partitioning) -> SqlResult<Arc<Partitioning>> {
    check_names(&partitioning)?;
    values::check(table, &partitioning)?;
    check_table(table, &partitioning)?;
    let items = partitioning.partitions.iter();
    let names = items.flat_map(|p| std::iter::once(&p.item).chain(&p.subpartitions));
    let names = names.map(|item| &item.name);
    let methods = [Some(&partitioning.method), partitioning.sub.as_ref()];
    let columns = methods.into_iter().flatten().flat_map(|m| &m.columns);
    let is_keyword = |name: &str| Kw::lookup(name.as_bytes()) != Kw::OTHER;
    let keywords = names.chain(columns).filter(|name| is_keyword(name));
    partitioning.keywords = keywords.cloned().collect();
    Ok(Arc::new(partitioning))
}

/// 1517.
fn check_names(partitioning: &Partitioning) -> SqlResult<()> {
    let mut seen = std::collections::HashSet::new();
    for partition in &partitioning.partitions {
        for item in std::iter::once(&partition.item).chain(&partition.subpartitions) {
            if !seen.insert(item.name.to_lowercase()) {
                return Err(errors::duplicate_partition(&item.name));
            }
        }
    }
    Ok(())
}

/// What a partitioned table must not have: 1506, 1214, 1178; what its unique keys must have: 1503.
fn check_table(table: &Table<'_>, partitioning: &Partitioning) -> SqlResult<()> {
    let built = table.built;
    if table.engine != StorageEngine::InnoDb {
        return Err(errors::engine_without("native partitioning"));
    }
    if !built.foreign_keys.is_empty() {
        return Err(errors::partitioned_foreign_key());
    }
    if built.indexes.iter().any(|i| i.fulltext.is_some()) {
        return Err(errors::no_fulltext());
    }
    if built.columns.iter().any(|c| c.ty.is_geometry()) {
        return Err(errors::engine_without("GEOMETRY"));
    }
    let deciding = method::deciding_columns(table, partitioning)?;
    for index in built.indexes.iter().filter(|i| i.unique) {
        let has = |col: &usize| {
            let mut parts = index.parts.iter();
            parts.any(|p| p.col == *col && p.prefix_len.is_none())
        };
        if !deciding.iter().all(has) {
            let kind = if index.primary {
                "PRIMARY KEY"
            } else {
                "UNIQUE INDEX"
            };
            return Err(errors::unique_without_partition_columns(kind));
        }
    }
    Ok(())
}

/// The partitioning of a table that is altered in another way: its columns and keys still have to fit.
pub(in crate::ddl) fn keep(
    table: &Table<'_>,
    old: &Arc<Partitioning>,
) -> SqlResult<Arc<Partitioning>> {
    let mut kept = Partitioning::clone(old);
    for method in [Some(&mut kept.method), kept.sub.as_mut()]
        .into_iter()
        .flatten()
    {
        if method.by_primary {
            method.columns = method::primary_columns(table)?;
        }
    }
    method::check_columns(table, &kept)?;
    check_table(table, &kept)?;
    values::check_types(table, &kept)?;
    // Another collation may make equal what was not, and another type order otherwise.
    values::check(table, &kept)?;
    Ok(Arc::new(kept))
}

/// 3855 for a column that decides where rows are, and is gone or has another name.
pub(in crate::ddl) fn check_dependents(
    partitioning: &Partitioning,
    used: &[usize],
    columns: &[esker_sql_catalog::catalog::ColumnDef],
    stays: &dyn Fn(&esker_sql_catalog::catalog::ColumnDef) -> bool,
) -> SqlResult<()> {
    let methods = [Some(&partitioning.method), partitioning.sub.as_ref()];
    let written = |m: &&PartitionMethod| !m.by_primary;
    let mut names = methods
        .into_iter()
        .flatten()
        .filter(written)
        .flat_map(|m| &m.columns);
    let lost = columns.iter().enumerate().find(|(at, column)| {
        let decides = used.contains(at) || names.by_ref().any(|n| same_name(n, &column.name));
        decides && !stays(column)
    });
    match lost {
        Some((_, column)) => Err(errors::partition_dependency(&column.name)),
        None => Ok(()),
    }
}
