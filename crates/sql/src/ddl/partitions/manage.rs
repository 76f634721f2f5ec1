//! What ALTER TABLE does with partitions: the partitioning that comes out, and what becomes of the rows.
//!
//! Neighbours: `alter` calls this when the rest of the table is finished, and copies the rows where it is asked to.
//! **Invariant**: nothing is decided by looking at rows. Rows that may have no partition any more are copied, and the
//! copy finds those that have none; rows that go are told by a condition.

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    Chosen, Counted, PartitionBound, PartitionDef, PartitionKind, Partitioning, TableDef,
};
use esker_sql_syntax::ast::{
    AlterAction, Ident, PartitionAction, PartitionNames, PartitionSpec, PartitionValues,
};
use esker_types::{SqlError, SqlResult, errors};

use esker_types::func::MAX_PARTITIONS;

use super::{Table, check_written, define, defined, finish, keep, numbered, values};

/// What comes out.
#[derive(Default)]
pub(in crate::ddl) struct Managed {
    /// The new partitioning.
    pub(in crate::ddl) partitioning: Option<Arc<Partitioning>>,
    /// Rows have to be looked at: some may have no partition.
    pub(in crate::ddl) copies: bool,
    /// Which rows go: SQL over the columns of the old table.
    pub(in crate::ddl) discards: Option<String>,
    /// No row is left, and AUTO_INCREMENT begins anew.
    pub(in crate::ddl) begins_anew: bool,
    /// As in MySQL, rows are not counted.
    pub(in crate::ddl) uncounted: bool,
}

/// The partitioning after the actions.
pub(in crate::ddl) fn manage(
    table: &Table<'_>,
    old: &TableDef,
    actions: &[AlterAction],
) -> SqlResult<Managed> {
    let mut found = actions.iter().filter_map(|a| match a {
        AlterAction::Partition(action) => Some(action),
        _ => None,
    });
    let action = found.next();
    if let Some(PartitionAction::By(by)) = action {
        if old.temporary {
            return Err(errors::partitioned_temporary());
        }
        if !old.referenced_by.is_empty() {
            return Err(errors::partitioned_foreign_key());
        }
        return Ok(Managed {
            partitioning: Some(define(table, by)?),
            copies: true,
            ..Managed::default()
        });
    }
    match (action, &old.partitioning) {
        (None, None) => Ok(Managed::default()),
        (None, Some(old)) => Ok(Managed {
            partitioning: Some(keep(table, old)?),
            ..Managed::default()
        }),
        (Some(_), None) => Err(errors::management_without_partitions()),
        (Some(PartitionAction::Remove), Some(_)) => Ok(Managed::default()),
        (Some(PartitionAction::Tablespace(names, verb)), Some(partitioning)) => {
            let unknown = |name: &Ident| errors::unknown_partition(&name.text, table.name);
            choose(partitioning, names, unknown)?;
            Err(errors::not_file_per_table(verb, &old.schema, &old.name))
        }
        (Some(action), Some(old)) => {
            let managed = apply(table, old, action)?;
            Ok(Managed {
                uncounted: true,
                ..managed
            })
        }
    }
}

fn apply(
    table: &Table<'_>,
    old: &Arc<Partitioning>,
    action: &PartitionAction,
) -> SqlResult<Managed> {
    let only = |partitioning: Arc<Partitioning>| Managed {
        partitioning: Some(partitioning),
        ..Managed::default()
    };
    match action {
        PartitionAction::Add(specs, count) => Ok(only(add(table, old, specs, *count)?)),
        PartitionAction::Drop(names) => drop_partitions(table, old, names),
        PartitionAction::Coalesce(count) => Ok(only(coalesce(table, old, *count)?)),
        PartitionAction::Truncate(names) => {
            let unknown = |name: &Ident| errors::unknown_partition(&name.text, table.name);
            let chosen = choose(old, names, unknown)?;
            let is_chosen = |partition| {
                let is_it = |c: &Chosen| c.partition == partition && c.subpartition.is_none();
                chosen.iter().any(is_it)
            };
            Ok(Managed {
                begins_anew: (0..old.partitions.len()).all(is_chosen),
                discards: Some(any_of(old, &chosen)),
                ..only(old.clone())
            })
        }
        PartitionAction::Rebuild(names) => {
            if let PartitionNames::Listed(names) = names {
                positions(old, names, "REBUILD")?;
            }
            Ok(only(old.clone()))
        }
        PartitionAction::Reorganize(None) => Ok(only(reorganize_all(table, old)?)),
        PartitionAction::Reorganize(Some((names, specs))) => Ok(Managed {
            copies: old.method.kind == PartitionKind::List,
            ..only(reorganize(table, old, names, specs)?)
        }),
        PartitionAction::Other(what) => Err(SqlError::not_supported(what)),
        // Read before.
        PartitionAction::By(_)
        | PartitionAction::Remove
        | PartitionAction::Exchange(..)
        | PartitionAction::Tablespace(..) => Ok(only(old.clone())),
    }
}

/// The condition that a row is in one of some partitions.
fn any_of(partitioning: &Partitioning, chosen: &[Chosen]) -> String {
    let all: Vec<String> = chosen.iter().map(|c| partitioning.belongs(*c)).collect();
    all.join(" OR ")
}

fn choose(
    partitioning: &Partitioning,
    names: &PartitionNames,
    unknown: impl Fn(&Ident) -> SqlError,
) -> SqlResult<Vec<Chosen>> {
    let whole = |partition| Chosen {
        partition,
        subpartition: None,
    };
    match names {
        PartitionNames::All => Ok((0..partitioning.partitions.len()).map(whole).collect()),
        PartitionNames::Listed(names) => {
            let find = |name: &Ident| partitioning.find(&name.text).ok_or_else(|| unknown(name));
            names.iter().map(find).collect()
        }
    }
}

/// Positions of whole partitions, ascending: 1507.
fn positions(partitioning: &Partitioning, names: &[Ident], action: &str) -> SqlResult<Vec<usize>> {
    let missing = || errors::partitions_not_found(action);
    let position = |name: &Ident| match partitioning.find(&name.text) {
        Some(Chosen {
            partition,
            subpartition: None,
        }) => Ok(partition),
        _ => Err(missing()),
    };
    let mut found = names.iter().map(position).collect::<SqlResult<Vec<_>>>()?;
    found.sort_unstable();
    match found.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(missing()),
        false => Ok(found),
    }
}

fn is_divided(partitioning: &Partitioning) -> bool {
    matches!(
        partitioning.method.kind,
        PartitionKind::Range | PartitionKind::List
    )
}

/// New partitions, with as many subpartitions as the others, or an error that says `mismatch`.
fn written(
    table: &Table<'_>,
    old: &Partitioning,
    specs: &[PartitionSpec],
    mismatch: fn() -> SqlError,
) -> SqlResult<Vec<PartitionDef>> {
    check_written(table, old.sub.is_some(), specs)?;
    let subpartitions = old.partitions[0].subpartitions.len();
    let mut listed = specs.iter().map(|s| s.subpartitions.len());
    if listed.any(|n| n > 0 && n != subpartitions) {
        return Err(mismatch());
    }
    defined(table, old, specs, subpartitions)
}

/// What is shown from now on: names, if some are written, or the number of what has the names that it would get.
fn note_written(new: &mut Partitioning, specs: &[PartitionSpec]) {
    if !specs.is_empty() {
        new.counted = Counted::Listed;
    } else if new.counted == Counted::Default {
        new.counted = Counted::Number;
    }
    if specs.iter().any(|s| !s.subpartitions.is_empty()) {
        new.sub_counted = Counted::Listed;
    }
}

fn add(
    table: &Table<'_>,
    old: &Partitioning,
    specs: &[PartitionSpec],
    count: Option<u64>,
) -> SqlResult<Arc<Partitioning>> {
    if is_divided(old) && specs.is_empty() {
        return Err(errors::partitions_must_be_defined(old.method.kind.word()));
    }
    if count.unwrap_or(specs.len() as u64) == 0 {
        return Err(errors::add_no_partition());
    }
    let count = count.map_or(specs.len(), |n| usize::try_from(n).unwrap_or(usize::MAX));
    let before = old.partitions.len();
    if before.saturating_add(count) > MAX_PARTITIONS {
        return Err(errors::too_many_partitions());
    }
    let mut new = Partitioning::clone(old);
    note_written(&mut new, specs);
    new.partitions.extend(match specs.is_empty() {
        true => numbered(before..before + count),
        false => written(table, old, specs, errors::wrong_number_of_subpartitions)?,
    });
    finish(table, new)
}

fn drop_partitions(
    table: &Table<'_>,
    old: &Arc<Partitioning>,
    names: &[Ident],
) -> SqlResult<Managed> {
    if !is_divided(old) {
        return Err(errors::only_on_range_list("DROP"));
    }
    if names.len() >= old.partitions.len() {
        return Err(errors::cannot_drop_all_partitions());
    }
    let gone = positions(old, names, "DROP")?;
    let mut new = Partitioning::clone(old);
    for at in gone.iter().rev() {
        new.partitions.remove(*at);
    }
    let whole = |partition: &usize| Chosen {
        partition: *partition,
        subpartition: None,
    };
    let chosen: Vec<Chosen> = gone.iter().map(whole).collect();
    Ok(Managed {
        partitioning: Some(finish(table, new)?),
        discards: Some(any_of(old, &chosen)),
        ..Managed::default()
    })
}

fn coalesce(table: &Table<'_>, old: &Partitioning, count: u64) -> SqlResult<Arc<Partitioning>> {
    if is_divided(old) {
        return Err(errors::coalesce_only_hash());
    }
    if count == 0 {
        return Err(errors::coalesce_no_partition());
    }
    let before = old.partitions.len();
    if count >= before as u64 {
        return Err(errors::cannot_drop_all_partitions());
    }
    let mut new = Partitioning::clone(old);
    note_written(&mut new, &[]);
    new.partitions.truncate(before - count as usize);
    finish(table, new)
}

fn reorganize(
    table: &Table<'_>,
    old: &Partitioning,
    names: &[Ident],
    specs: &[PartitionSpec],
) -> SqlResult<Arc<Partitioning>> {
    if names.len() > old.partitions.len() {
        return Err(errors::reorganize_into_more());
    }
    let new_partitions = written(table, old, specs, errors::mismatched_subpartitions)?;
    let gone = positions(old, names, "REORGANIZE")?;
    let (first, last) = (gone[0], gone[gone.len() - 1]);
    let is_values = specs.iter().any(|s| s.values != PartitionValues::None);
    if !is_divided(old) && !is_values && specs.len() != gone.len() {
        return Err(errors::reorganize_hash());
    }
    if last - first + 1 != gone.len() {
        return Err(errors::reorganize_not_adjacent());
    }
    let end = new_partitions.last().cloned();
    let mut new = Partitioning::clone(old);
    note_written(&mut new, specs);
    for at in gone.iter().rev() {
        new.partitions.remove(*at);
    }
    new.partitions.splice(first..first, new_partitions);
    let new = finish(table, new)?;
    check_range(table, old, last, end.as_ref())?;
    Ok(new)
}

/// REORGANIZE PARTITION without parameters: as in MySQL the first partition alone is left, and has all rows.
fn reorganize_all(table: &Table<'_>, old: &Partitioning) -> SqlResult<Arc<Partitioning>> {
    if is_divided(old) || old.counted == Counted::Default {
        return Err(errors::reorganize_without_parameters());
    }
    let mut new = Partitioning::clone(old);
    new.partitions.truncate(1);
    finish(table, new)
}

/// 1520: only the end of the last range may move, and only up.
fn check_range(
    table: &Table<'_>,
    old: &Partitioning,
    last: usize,
    new: Option<&PartitionDef>,
) -> SqlResult<()> {
    let (PartitionBound::LessThan(before), Some(PartitionBound::LessThan(after))) =
        (&old.partitions[last].bound, new.map(|p| &p.bound))
    else {
        return Ok(());
    };
    let method = &old.method;
    let is_last = last + 1 == old.partitions.len();
    let grows = values::is_before(table, method, before, after)?;
    let shrinks = values::is_before(table, method, after, before)?;
    match shrinks || grows && !is_last {
        true => Err(errors::reorganize_outside_range()),
        false => Ok(()),
    }
}
