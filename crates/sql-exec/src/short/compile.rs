//! Which SELECTs are short.
//!
//! Neighbours: the parser's tree and the catalog come in, a [`ShortSelect`] goes out, or nothing.
//! **Invariant**: when in doubt, nothing: the general path is always right.

use std::sync::Arc;

use esker_types::{SqlType, TypeKind};

use super::access::{Access, Names, Wanted, access, has_all, key_part, order_columns, row_count};
use super::{AggKind, GeneralPath, Limit, Output, ShortSelect};
use esker_sql_catalog::catalog::{TableDef, same_name};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast::{
    Call, Expr, NamedTable, Query, QueryBody, Select, SelectItem, TableRef,
};

/// The single table of a query that may be short; the caller resolves it.
pub fn candidate(query: &Query) -> Option<&NamedTable> {
    let select = short_select(query)?;
    match select.from.as_slice() {
        [TableRef::Table(t)] if t.partitions.is_empty() => Some(t),
        _ => None,
    }
}

fn short_select(query: &Query) -> Option<&Select> {
    let plain = query.with.is_none() && query.locking.is_empty() && query.into.is_none();
    match &query.body {
        QueryBody::Select(s)
            if plain
                && s.group_by.is_empty()
                && s.having.is_none()
                && s.windows.is_empty()
                && s.hints.is_none()
                && !s.options.calc_found_rows =>
        {
            Some(s)
        }
        _ => None,
    }
}

/// Compiles a query over `table`, which [`candidate`] named. `params` is the statement's number of
/// parameters.
///
/// # Errors
/// Why the query takes the general path.
pub fn compile(
    query: &Query,
    table: &Arc<TableDef>,
    params: usize,
) -> Result<ShortSelect, GeneralPath> {
    let select = short_select(query).ok_or(GeneralPath::Shape)?;
    let named = candidate(query).ok_or(GeneralPath::Shape)?;
    let names = Names {
        table,
        alias: named.alias.as_ref().map(|a| &*a.text),
    };
    let (output, columns) = output(&names, query, select).ok_or(GeneralPath::Columns)?;
    let limit = limit(query).ok_or(GeneralPath::Shape)?;
    let wants_first = is_first_of_index(&names, &output);
    // All rows of a table are for the general path, which has threads for them and can count without reading.
    if select.filter.is_none() && limit.is_none() && !wants_first {
        return Err(GeneralPath::Conditions);
    }
    let is_alias = |name: &str| aliases(select).any(|alias| same_name(alias, name));
    let order = match (&output, wants_first) {
        (Output::Aggregates(list), true) => vec![(list[0].1, list[0].0 == AggKind::Max)],
        (Output::Aggregates(_), false) => Vec::new(),
        _ => order_columns(&names, &query.order_by, is_alias).ok_or(GeneralPath::Order)?,
    };
    let read: Vec<usize> = output.columns().collect();
    let access = access(
        &names,
        &Wanted {
            filter: select.filter.as_ref(),
            order: &order,
            hints: &named.hints,
            columns: &read,
        },
    )
    .ok_or(GeneralPath::Conditions)?;
    let first_only = wants_first && access.is_ordered && access.ranges.len() == 1;
    if wants_first && !first_only && select.filter.is_none() {
        return Err(GeneralPath::Conditions);
    }
    let output = unsorted(output, &access)?;
    let Access {
        index,
        ranges,
        direction,
        ..
    } = access;
    let def = &table.indexes[index];
    let unique = def.unique
        && matches!(ranges.as_slice(), [r] if r.equal.len() == def.parts.len() && !r.has_null());
    let is_covered = !def.primary && !def.hidden && has_all(table, def, &read);
    let index_only = is_covered.then(|| {
        let columns = 0..table.columns.len();
        columns.map(|col| key_part(table, def, col)).collect()
    });
    Ok(ShortSelect {
        table: table.clone(),
        columns: columns.into(),
        params,
        index,
        ranges,
        direction,
        unique,
        index_only,
        output,
        first_only,
        limit,
    })
}

/// The output without a sort where the index gives the order.
fn unsorted(output: Output, access: &Access) -> Result<Output, GeneralPath> {
    match output {
        Output::Sorted {
            columns,
            distinct: false,
            ..
        } if access.is_ordered => Ok(Output::Columns(columns)),
        Output::Sorted { .. } if access.ranges_all() => Err(GeneralPath::Order),
        // Sorting by several columns is for the general path.
        Output::Columns(_) if !access.is_ordered => Err(GeneralPath::Order),
        output => Ok(output),
    }
}

/// LIMIT and OFFSET, if they are whole numbers or parameters; the outer `None`: they are something else.
fn limit(query: &Query) -> Option<Option<Limit>> {
    let Some(limit) = &query.limit else {
        return Some(None);
    };
    let offset = match &limit.offset {
        None => None,
        Some(offset) => Some(row_count(offset)?),
    };
    let count = row_count(&limit.count)?;
    Some(Some(Limit { count, offset }))
}

/// Is this the smallest or the largest of a column without NULL, which an index may have at an end?
fn is_first_of_index(names: &Names<'_>, output: &Output) -> bool {
    match output {
        Output::Aggregates(list) => match list.as_slice() {
            [(AggKind::Min | AggKind::Max, col)] => !names.table.columns[*col].ty.nullable,
            _ => false,
        },
        _ => false,
    }
}

fn aliases(select: &Select) -> impl Iterator<Item = &str> {
    select.items.iter().filter_map(|item| match item {
        SelectItem::Expr { alias, .. } => alias.as_ref().map(|alias| &*alias.text),
        _ => None,
    })
}

impl Output {
    fn columns(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Columns(c) | Self::Sorted { columns: c, .. } => Box::new(c.iter().copied()),
            Self::Aggregates(a) => Box::new(
                a.iter()
                    .filter(|(kind, _)| *kind != AggKind::CountStar)
                    .map(|(_, col)| *col),
            ),
        }
    }
}

fn meta(names: &Names<'_>, col: usize, title: &str) -> ColumnMeta {
    let table = names.table;
    let alias = names.alias.map_or_else(|| table.name.clone(), Arc::from);
    ColumnMeta {
        name: Arc::from(title),
        ..ColumnMeta::stored(table, col, alias)
    }
}

fn output(names: &Names<'_>, query: &Query, select: &Select) -> Option<(Output, Vec<ColumnMeta>)> {
    let is_aggregate = |i: &SelectItem| {
        matches!(
            i,
            SelectItem::Expr {
                expr: Expr::Call(_),
                ..
            }
        )
    };
    if select.items.iter().all(is_aggregate) {
        if select.distinct || !query.order_by.is_empty() || query.limit.is_some() {
            return None;
        }
        return aggregates(names, select);
    }
    let (columns, metas) = plain_columns(names, select)?;
    let sorted = match query.order_by.as_slice() {
        [] if !select.distinct => return Some((Output::Columns(columns), metas)),
        [] => None,
        [key] => {
            let col = names.of(&key.expr)?;
            let at = columns.iter().position(|c| *c == col);
            // Only types that compare as integers or by their collation are sorted.
            let ty = &names.table.columns[col].ty;
            at.filter(|_| ty.is_integer() || ty.is_string())
                .map(|at| (at, key.desc))
        }
        _ => None,
    };
    let (by, desc) = match (sorted, select.distinct) {
        (Some(s), false) => s,
        // Without duplicates only when the one column is also the order.
        (Some(s), true) if columns.len() == 1 => s,
        // In the order of an index, or not at all.
        (None, false) => return Some((Output::Columns(columns), metas)),
        _ => return None,
    };
    Some((
        Output::Sorted {
            columns,
            by,
            desc,
            distinct: select.distinct,
        },
        metas,
    ))
}

fn plain_columns(names: &Names<'_>, select: &Select) -> Option<(Vec<usize>, Vec<ColumnMeta>)> {
    let (mut columns, mut metas) = (Vec::new(), Vec::new());
    for item in &select.items {
        match item {
            SelectItem::Wildcard => {
                for (i, c) in names
                    .table
                    .columns
                    .iter()
                    .enumerate()
                    .filter(|(_, c)| !c.invisible)
                {
                    columns.push(i);
                    metas.push(meta(names, i, &c.name));
                }
            }
            SelectItem::Expr {
                expr: Expr::Column(c),
                alias,
                ..
            } => {
                let col = names.column(c)?;
                let title = alias.as_ref().map_or(&c.name.text, |a| &a.text);
                columns.push(col);
                metas.push(meta(names, col, title));
            }
            _ => return None,
        }
    }
    Some((columns, metas))
}

fn aggregates(names: &Names<'_>, select: &Select) -> Option<(Output, Vec<ColumnMeta>)> {
    let (mut list, mut metas) = (Vec::new(), Vec::new());
    for item in &select.items {
        let SelectItem::Expr {
            expr: Expr::Call(call),
            alias,
            text,
        } = item
        else {
            return None;
        };
        let (kind, col, ty) = aggregate(names, call)?;
        let title = alias.as_ref().map_or(&**text, |a| &*a.text);
        list.push((kind, col));
        metas.push(ColumnMeta::computed(title, ty));
    }
    Some((Output::Aggregates(list), metas))
}

fn aggregate(names: &Names<'_>, call: &Call) -> Option<(AggKind, usize, SqlType)> {
    if call.schema.is_some() || call.distinct || call.over.is_some() {
        return None;
    }
    let count_type = || SqlType {
        length: 21,
        nullable: false,
        ..SqlType::bigint(false)
    };
    if call.name.is("count") && call.star {
        return Some((AggKind::CountStar, 0, count_type()));
    }
    let [Expr::Column(c)] = call.args.as_slice() else {
        return None;
    };
    let col = names.column(c)?;
    let ty = &names.table.columns[col].ty;
    debug_assert!(same_name(&names.table.columns[col].name, &c.name.text));
    if call.name.is("count") {
        // Without NULL every row counts, whatever the column has.
        let kind = match ty.nullable {
            true => AggKind::Count,
            false => AggKind::CountStar,
        };
        return Some((kind, col, count_type()));
    }
    let digits = match ty.kind {
        TypeKind::TinyInt => 3,
        TypeKind::SmallInt => 5,
        TypeKind::MediumInt if ty.unsigned => 8,
        TypeKind::MediumInt => 7,
        TypeKind::Int => 10,
        TypeKind::BigInt if ty.unsigned => 20,
        TypeKind::BigInt => 19,
        _ => return None,
    };
    /// What SUM adds to the digits of its argument.
    const SUM_DIGITS: u32 = 22;
    if call.name.is("sum") {
        return Some((AggKind::Sum, col, SqlType::decimal(digits + SUM_DIGITS, 0)));
    }
    let ty = SqlType {
        nullable: true,
        ..ty.clone()
    };
    if call.name.is("min") {
        Some((AggKind::Min, col, ty))
    } else if call.name.is("max") {
        Some((AggKind::Max, col, ty))
    } else {
        None
    }
}
