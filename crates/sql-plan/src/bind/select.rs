//! A query block: SELECT … FROM … WHERE … GROUP BY … HAVING … ORDER BY … LIMIT.
//!
//! Neighbours: `from`, `expr`, `order` and `group` bind its parts; `query` puts blocks together.
//! **Invariants**: clauses are bound in MySQL's order (FROM, WHERE, select list, GROUP BY, HAVING,
//! ORDER BY), so the first error a user sees is MySQL's; expressions are over table columns until
//! `group` moves them behind the grouping.

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::func::aggregate;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind, Value};

use super::aliases::{AliasUse, SelectName};
use super::block::{Block, Body, BoundQuery, LimitSpec, OrderKey, Volatility};
use super::clause::Clause;
use super::computed::read_computed_columns;
use super::expr::{bind_expr, with_aliases};
use super::filter::bind_filter;
use super::from::bind_from;
use super::hint::apply_hints;
use super::scope::{AggRule, ColumnAt, CteEntry, Grouping, Scope};
use super::window::{self, WindowRule};
use super::{BindEnv, Need, Purpose, errors, fulltext, group, literal, order};
use crate::expr::{Expr, ExprKind};

/// An output column while the block is being bound.
pub(super) struct Output {
    pub expr: Expr,
    pub meta: ColumnMeta,
    /// The item is a column and nothing else.
    pub column: Option<ColumnAt>,
    /// It reads what may not be read, see [`Scope::refused`].
    pub refused: Option<SqlError>,
}

impl Output {
    /// What clients are told of the column.
    fn sent(&self) -> ColumnMeta {
        let ty = match self.meta.table.is_empty() {
            true if self.meta.stored_as == StoredAs::Widest => self.meta.ty.clone(),
            true => sent_type(&self.expr.ty),
            false => self.expr.ty.clone(),
        };
        ColumnMeta {
            ty,
            coercibility: self.expr.coer,
            ..self.meta.clone()
        }
    }

    /// What names behind the select list find.
    fn named(&self, written: Option<&ast::Expr>) -> SelectName {
        let has_query = self
            .expr
            .any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)));
        SelectName {
            name: self.meta.name.clone(),
            expr: self.expr.clone(),
            column: self.column,
            written: written.filter(|_| has_query).cloned().map(Rc::new),
        }
    }
}

/// What surrounds a SELECT in its query expression.
pub(super) struct Around<'q> {
    pub order_by: &'q [ast::OrderItem],
    pub limit: Option<&'q ast::Limit>,
    pub locking: &'q [ast::Locking],
    /// The block is a member of a recursive common table expression.
    pub member: bool,
    /// What its rows are for.
    pub purpose: Purpose,
}

impl Around<'_> {
    /// What surrounds a recursive member: nothing.
    pub fn member() -> Self {
        Self {
            order_by: &[],
            limit: None,
            locking: &[],
            member: true,
            purpose: Purpose::InOrder,
        }
    }

    /// What the block's rows are for: behind LIMIT their order matters.
    fn purpose_of_block(&self) -> Purpose {
        match self.limit {
            None => self.purpose,
            Some(_) => Purpose::InOrder,
        }
    }
}

/// Binds a SELECT.
pub(super) fn bind_select(
    env: &BindEnv<'_>,
    select: &ast::Select,
    around: &Around<'_>,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let id = env.select_id();
    let mut scope = Scope::inside(parent, ctes);
    scope.member = around.member;
    let join = env.locks.within_from(around.locking, || {
        bind_from(env, Need::Read, &mut scope, &select.from)
    })?;
    let told = apply_hints(env, &mut scope, select.hints.as_deref());
    let mut filter = bind_where(env, &mut scope, select.filter.as_ref())?;
    let mut outputs = bind_select_list(env, &scope, select)?;
    let keys = bind_keys(env, &scope, select, &mut outputs)?;
    scope.agg_rule.set(AggRule::Allowed);
    let having = bind_having(env, &scope, select.having.as_ref())?;
    scope.windows.rule.set(WindowRule::Allowed);
    let aggregated = scope.aggs.borrow().iter().any(|a| !a.is_any_value());
    let grouped = aggregated || !select.group_by.is_empty();
    let (mut order, ordered_by) =
        order::bind_order_by(env, &scope, around.order_by, &outputs, grouped)?;
    let purpose = around.purpose_of_block();
    if purpose != Purpose::InOrder {
        order.clear();
    }
    let drops_groups = purpose == Purpose::OneThatFits && only_groups(&scope, select);
    let explicit = !select.group_by.is_empty() && !drops_groups;
    window::check_declared(env, &scope)?;
    let orders_rows = !grouped && !select.distinct;
    let is_plain = parent.is_none() && orders_rows && scope.tables.len() == 1;
    if order.is_empty() && is_plain {
        order.extend(filter.as_ref().and_then(fulltext::by_relevance));
    }
    let keys_of_rows = if orders_rows { &mut order[..] } else { &mut [] };
    read_computed_columns(env, &scope, &mut filter, keys_of_rows)?;
    let mut block = Block {
        id,
        join,
        filter,
        group: None,
        having,
        windows: scope.windows.found.take(),
        output: Vec::new(),
        distinct: select.distinct,
        beside: 0,
        order,
        limit: bind_limit(env, around.limit)?,
        locks: Vec::new(),
        width: 0,
        straight_join: select.options.straight_join || told.is_fixed,
        orders: told.orders,
        calc_found_rows: select.options.calc_found_rows,
        tables: Vec::new(),
        names: Vec::new(),
    };
    let keys = explicit.then_some(keys);
    place_groups(env, &scope, (keys, select.rollup), &mut block, &mut outputs)?;
    show_scales(&mut outputs, select.distinct || explicit);
    let bound = into_query(env, scope, around, block, outputs)?;
    Ok(ordered_behind(bound, &ordered_by))
}

/// Rows that are told apart or grouped lie in a table meanwhile, as columns do: there decimals have the scale of their
/// type.
fn show_scales(outputs: &mut [Output], all_lie: bool) {
    let lies = |output: &&mut Output| all_lie || matches!(output.expr.kind, ExprKind::Column(_));
    for output in outputs.iter_mut().filter(lies) {
        output.expr.ty.own_scale = false;
        output.meta.ty.own_scale = false;
    }
}

/// Moves what is computed of groups and in windows behind them; of the keys of GROUP BY, if there are any.
fn place_groups(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    (keys, rollup): (Option<Vec<Expr>>, bool),
    block: &mut Block,
    outputs: &mut Vec<Output>,
) -> SqlResult<()> {
    let mut clauses = group::Clauses {
        scope,
        outputs,
        having: &mut block.having,
        order: &mut block.order,
        windows: &mut block.windows,
        filter: block.filter.as_ref(),
        join: block.join.as_ref(),
        distinct: block.distinct,
    };
    let explicit = keys.is_some();
    let keys = keys.unwrap_or_default();
    let (group, width) = group::apply(env, &mut clauses, keys, rollup, explicit)?;
    block.group = group;
    let selected = outputs.iter_mut().map(|o| &mut o.expr);
    let ordered = block.order.iter_mut().map(|k| &mut k.expr);
    block.width = block.windows.place(width, selected.chain(ordered));
    Ok(())
}

/// The block with its tables, its locks and its output.
fn into_query(
    env: &BindEnv<'_>,
    scope: Scope<'_>,
    around: &Around<'_>,
    mut block: Block,
    outputs: Vec<Output>,
) -> SqlResult<BoundQuery> {
    let locks = env.locks.of_block(env.names, &scope, around.locking)?;
    if locks.are_asked {
        scope.note_volatility(Volatility::Volatile);
    }
    let (reach, volatility) = (scope.outer_reach(), scope.volatility());
    block.locks = locks.by_table;
    block.tables = scope.tables;
    block.names = scope.names;
    let columns = outputs.iter().map(Output::sent).collect();
    block.output = outputs.into_iter().map(|o| o.expr).collect();
    Ok(BoundQuery {
        columns,
        body: Body::Block(Box::new(block)),
        reach,
        volatility,
        shared: None,
    })
}

/// Binds the select list, where aggregates and windows may stand.
fn bind_select_list(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    select: &ast::Select,
) -> SqlResult<Vec<Output>> {
    scope.clause.set(Clause::FieldList);
    scope.agg_rule.set(AggRule::Allowed);
    window::declare(scope, &select.windows)?;
    scope.windows.rule.set(WindowRule::Allowed);
    scope.grouping.set(match select.group_by.is_empty() {
        true => Grouping::None,
        false if select.rollup => Grouping::RolledUp,
        false => Grouping::ByKeys,
    });
    if select.rollup {
        let constants = group::constant_keys(env, scope, select);
        *scope.rolled_constants.borrow_mut() = constants;
    }
    let outputs = bind_items(env, scope, &select.items)?;
    scope.windows.rule.set(WindowRule::Forbidden);
    Ok(outputs)
}

/// Binds GROUP BY, whose keys WITH ROLLUP may make NULL in the select list.
fn bind_keys(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    select: &ast::Select,
    outputs: &mut [Output],
) -> SqlResult<Vec<Expr>> {
    let keys = order::bind_group_by(env, scope, &select.group_by, outputs)?;
    if select.rollup {
        group::note_rolled_up(scope, outputs, &keys);
        group::roll_up_outputs(scope, outputs, &keys);
    }
    Ok(keys)
}

/// Does the block do nothing with its groups but tell them apart?
fn only_groups(scope: &Scope<'_>, select: &ast::Select) -> bool {
    select.having.is_none()
        && !select.rollup
        && scope.aggs.borrow().is_empty()
        && scope.windows.found.borrow().calls.is_empty()
}

/// Binds WHERE, with the conditions that views have brought.
fn bind_where(
    env: &BindEnv<'_>,
    scope: &mut Scope<'_>,
    filter: Option<&ast::Expr>,
) -> SqlResult<Option<Expr>> {
    let filter = match filter {
        Some(filter) => {
            scope.clause.set(Clause::Where);
            Some(bind_filter(env, scope, filter)?)
        }
        None => None,
    };
    let of_partitions = std::mem::take(&mut scope.view_conditions);
    if of_partitions.is_empty() {
        return Ok(filter);
    }
    let all = filter.into_iter().chain(of_partitions).collect();
    Ok(Some(Expr::all_of(all)))
}

fn bind_having(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    having: Option<&ast::Expr>,
) -> SqlResult<Option<Expr>> {
    let Some(having) = having else {
        return Ok(None);
    };
    scope.clause.set(Clause::Having);
    with_aliases(scope, AliasUse::Having, || bind_expr(env, scope, having)).map(Some)
}

/// A block that is ordered by items of its select list which are to be computed once for each row, since they are
/// volatile: its result is ordered, as that of a set operation is.
fn ordered_behind(mut bound: BoundQuery, ordered_by: &[Option<usize>]) -> BoundQuery {
    let Body::Block(block) = &mut bound.body else {
        return bound;
    };
    let Some(items) = ordered_by.iter().copied().collect::<Option<Vec<usize>>>() else {
        return bound;
    };
    let is_ordered = !block.order.is_empty() && block.order.len() == items.len();
    if !is_ordered || !items.iter().any(|at| block.output[*at].is_volatile()) {
        return bound;
    }
    let keys = items.iter().zip(std::mem::take(&mut block.order));
    let order = keys.map(|(at, key)| OrderKey {
        expr: Expr::column(*at as u32, bound.columns[*at].ty.clone()),
        desc: key.desc,
    });
    let order = order.collect();
    let limit = block.limit.take();
    let calc_found_rows = block.calc_found_rows;
    BoundQuery {
        columns: bound.columns.clone(),
        reach: bound.reach,
        volatility: bound.volatility,
        shared: None,
        body: Body::SetOps {
            first: Rc::new(bound),
            rest: Vec::new(),
            order,
            limit,
            calc_found_rows,
        },
    }
}

/// Longest name of a result column, characters (MySQL's MAX_ALIAS_NAME).
const MAX_NAME_CHARS: usize = 256;
/// Most columns of a result: what the protocol can count.
const MAX_COLUMNS: usize = 65_535;

/// A column's name made from its text, cut where MySQL cuts it.
fn name_of(text: &str) -> Arc<str> {
    match text.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => text[..end].into(),
        None => text.into(),
    }
}

/// What is left of an alias that begins with spaces or is too long, with MySQL's words for it.
fn cut_alias(env: &BindEnv<'_>, alias: &ast::Ident) -> Option<ast::Ident> {
    let is_blank = |c: char| c.is_ascii() && !c.is_ascii_graphic();
    let written = alias.text.trim_start_matches(is_blank);
    let kept = match written.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => &written[..end],
        None => written,
    };
    if kept.len() == alias.text.len() {
        return None;
    }
    let (code, text) = match kept.is_empty() {
        true => (1474, format!("Name '{}' has become ''", alias.text)),
        false => (
            1466,
            format!("Leading spaces are removed from name '{}'", alias.text),
        ),
    };
    env.ctx.warn(Level::Warning, code, text);
    Some(ast::Ident::new(kept))
}

/// Binds the select list.
pub(super) fn bind_items(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    items: &[ast::SelectItem],
) -> SqlResult<Vec<Output>> {
    let mut outputs = Vec::with_capacity(items.len());
    let alias_of = |item: &ast::SelectItem| match item {
        ast::SelectItem::Expr { alias, .. } => alias.as_ref().map(|a| Arc::from(&*a.text)),
        _ => None,
    };
    scope.aliases.rule.set(AliasUse::Subqueries);
    *scope.aliases.written.borrow_mut() = items.iter().filter_map(alias_of).collect();
    for item in items {
        match item {
            ast::SelectItem::Wildcard => {
                if scope.tables.is_empty() {
                    return Err(errors::no_tables_used());
                }
                for &at in scope.names.iter().filter(|at| scope.is_in_star(**at)) {
                    push_column(scope, at, &mut outputs)?;
                }
            }
            ast::SelectItem::TableWildcard { schema, table } => {
                push_table(scope, schema.as_ref(), table, &mut outputs)?;
            }
            ast::SelectItem::Expr { expr, alias, text } => {
                let cut = alias.as_ref().and_then(|alias| cut_alias(env, alias));
                let alias = cut.as_ref().or(alias.as_ref());
                let output = bind_item(env, scope, expr, alias, text)?;
                scope.aliases.add(output.named(Some(expr)));
                outputs.push(output);
            }
        }
        if outputs.len() > MAX_COLUMNS {
            return Err(errors::too_many_columns());
        }
    }
    scope.aliases.written.take();
    scope.aliases.rule.set(AliasUse::No);
    Ok(outputs)
}

/// Binds an expression of the select list.
fn bind_item(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    expr: &ast::Expr,
    alias: Option<&ast::Ident>,
    text: &str,
) -> SqlResult<Output> {
    let bound = bind_expr(env, scope, expr)?;
    let column = match (&bound.kind, expr) {
        (ExprKind::Column(slot), ast::Expr::Column(_)) => scope.column_of_slot(*slot),
        _ => None,
    };
    let mut meta = item_meta(scope, expr, &bound, column, alias, text);
    if let (ast::Expr::UserVar(name), TypeKind::Decimal) = (expr, &meta.ty.kind)
        && let Some((_, shown)) = env.vars.get(name)
    {
        // Clients see the digits that the value has.
        meta.ty = shown.with_nullable(true);
        meta.stored_as = StoredAs::Widest;
    }
    Ok(Output {
        expr: bound,
        meta,
        column,
        refused: scope.take_refused(),
    })
}

/// Adds the columns of one table.
fn push_table(
    scope: &Scope<'_>,
    schema: Option<&ast::Ident>,
    table: &ast::Ident,
    outputs: &mut Vec<Output>,
) -> SqlResult<()> {
    let mut tables = scope.tables.iter();
    let found = tables.position(|t| t.is_named(schema, table));
    let at = found.ok_or_else(|| match schema {
        Some(schema) => errors::unknown_table(format!("{}.{}", schema.text, table.text)),
        None => errors::unknown_table(&table.text),
    })?;
    let columns = scope.tables[at].columns.iter().enumerate();
    for (column, _) in columns.filter(|(_, column)| !column.invisible) {
        push_column(scope, ColumnAt { table: at, column }, outputs)?;
    }
    Ok(())
}

fn push_column(scope: &Scope<'_>, at: ColumnAt, outputs: &mut Vec<Output>) -> SqlResult<()> {
    let column = scope.column_at(at);
    if let Some(restricted) = &scope.tables[at.table].restricted {
        scope.or_refused(restricted.read_as_star(&column.name))?;
    }
    let output = Output {
        expr: scope.column_expr(at),
        meta: column.meta.clone(),
        column: Some(at),
        refused: scope.take_refused(),
    };
    scope.aliases.add(output.named(None));
    outputs.push(output);
    Ok(())
}

/// Name and origin of a select-list member.
fn item_meta(
    scope: &Scope<'_>,
    expr: &ast::Expr,
    bound: &Expr,
    origin: Option<ColumnAt>,
    alias: Option<&ast::Ident>,
    text: &str,
) -> ColumnMeta {
    let name: Arc<str> = match (alias, expr) {
        (Some(alias), _) => alias.text.clone().into(),
        // Columns of such views are called what they are called there, however they were written.
        (None, ast::Expr::Column(column)) => match origin.filter(|at| scope.is_system_view(*at)) {
            Some(at) => scope.column_at(at).name.clone(),
            None => column.name.text.clone().into(),
        },
        (None, ast::Expr::Call(call)) if call.name.is("name_const") => {
            named_constant(call).unwrap_or_else(|| name_of(text))
        }
        _ => name_of(text),
    };
    match origin {
        Some(at) => ColumnMeta {
            name,
            ..scope.column_at(at).meta.clone()
        },
        None => ColumnMeta {
            stored_as: stored_as(expr),
            ..ColumnMeta::computed(name, bound.ty.clone())
        },
    }
}

/// The name that NAME_CONST gives its column.
fn named_constant(call: &ast::Call) -> Option<Arc<str>> {
    match call.args.first()? {
        ast::Expr::Literal(ast::Literal::Str { bytes, .. }) => {
            Some(name_of(&String::from_utf8_lossy(bytes)))
        }
        ast::Expr::Literal(ast::Literal::Int(number)) => Some(name_of(&number.to_string())),
        _ => None,
    }
}

/// What a table made of the value takes over of its type.
pub(super) fn stored_as(expr: &ast::Expr) -> StoredAs {
    match expr {
        ast::Expr::Call(call) => match &*call.name.text.to_ascii_lowercase() {
            "any_value" => StoredAs::Value,
            "first_value" | "last_value" | "nth_value" | "lag" | "lead" => StoredAs::Variable,
            "min" | "max" if call.over.is_some() => StoredAs::Variable,
            "ifnull" => StoredAs::Choice,
            name if aggregate::lookup(name).is_some() => StoredAs::Same,
            _ => StoredAs::Value,
        },
        ast::Expr::Column(_) => StoredAs::Same,
        ast::Expr::Subquery(_) => StoredAs::Subquery,
        ast::Expr::Param(_) => StoredAs::Variable,
        ast::Expr::Literal(_) => StoredAs::Literal,
        _ => StoredAs::Value,
    }
}

/// The type the values of an expression are sent in: conditions are INT(1) in tables made of them and
/// BIGINT(1) for clients.
fn sent_type(ty: &SqlType) -> SqlType {
    let kind = match ty.kind {
        TypeKind::Int if ty.length == 1 => TypeKind::BigInt,
        _ => ty.kind.clone(),
    };
    SqlType { kind, ..ty.clone() }
}

/// As in MySQL a program's variable that is negative is a very large number.
fn as_unsigned(variable: Expr) -> Expr {
    let ty = SqlType::bigint(true).with_nullable(true);
    let kind = match variable.kind {
        ExprKind::Const(Value::Int(v)) => ExprKind::Const(Value::UInt(v as u64)),
        ExprKind::Param(_) if variable.ty.is_integer() && !variable.ty.unsigned => {
            ExprKind::Cast(Box::new(variable), "".into())
        }
        _ => return variable,
    };
    Expr {
        kind,
        ty,
        coer: Coercibility::Numeric,
    }
}

/// Binds LIMIT.
pub fn bind_limit(env: &BindEnv<'_>, limit: Option<&ast::Limit>) -> SqlResult<Option<LimitSpec>> {
    let Some(limit) = limit else { return Ok(None) };
    let number = |e: &ast::Expr| match e {
        ast::Expr::Literal(l) => literal::bind_literal(env, l),
        ast::Expr::Param(nth) => {
            let param = literal::bind_param(env, *nth);
            env.meets(&param, &SqlType::bigint(true));
            match env.of_program {
                true => Ok(as_unsigned(param)),
                false => Ok(param),
            }
        }
        _ => Err(errors::undeclared_variable("LIMIT")),
    };
    let offset = limit.offset.as_ref().map(number).transpose()?;
    Ok(Some(LimitSpec {
        count: number(&limit.count)?,
        offset,
    }))
}
