//! FROM: table factors and joins.
//!
//! Neighbours: `query` (derived tables), `dml` (multi-table UPDATE and DELETE).
//! **Invariants**: joins associate as in MySQL's grammar: ON and USING belong to the innermost open
//! join, an inner join without condition multiplies its left side into the leftmost leaf of its
//! right side; the height of a join tree is bounded with the expressions'.

use esker_types::{SqlError, SqlResult};

use super::ast::{
    Ident, IndexHint, IndexHintKind, IndexHintScope, Join, JoinKind, JoinOn, NamedTable, Query,
    TableRef,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// What a pair of parentheses in FROM held.
enum TableParen {
    Query(Box<Query>),
    Table(TableRef),
}

impl Parser<'_> {
    /// One comma-separated member of FROM, with its joins.
    pub(super) fn table_reference(&mut self) -> SqlResult<TableRef> {
        let first = self.table_factor()?;
        self.joins(first)
    }

    /// Joins after `left`.
    fn joins(&mut self, mut left: TableRef) -> SqlResult<TableRef> {
        while let Some((kind, natural)) = self.join_words()? {
            self.grow()?;
            if natural {
                let right = self.table_factor()?;
                left = join(left, right, kind, true, None);
                continue;
            }
            let right = self.nested(Self::table_reference)?;
            left = match self.join_condition()? {
                Some(on) => join(left, right, kind, false, Some(on)),
                None if matches!(kind, JoinKind::Inner | JoinKind::Straight) => {
                    multiply_into_leftmost(left, right, kind)
                }
                None => return self.fail(),
            };
        }
        Ok(left)
    }

    fn join_condition(&mut self) -> SqlResult<Option<JoinOn>> {
        if self.eat_kw(Kw::ON) {
            return Ok(Some(JoinOn::On(self.expr()?)));
        }
        if self.eat_kw(Kw::USING) {
            return Ok(Some(JoinOn::Using(self.ident_list()?)));
        }
        Ok(None)
    }

    /// `[INNER|CROSS] JOIN`, `STRAIGHT_JOIN`, `[NATURAL] [LEFT|RIGHT [OUTER]] JOIN`.
    fn join_words(&mut self) -> SqlResult<Option<(JoinKind, bool)>> {
        let natural = self.eat_kw(Kw::NATURAL);
        let kind = match self.kw() {
            Kw::JOIN => JoinKind::Inner,
            Kw::INNER => JoinKind::Inner,
            Kw::CROSS if !natural => JoinKind::Inner,
            Kw::STRAIGHT_JOIN if !natural => {
                self.advance();
                return Ok(Some((JoinKind::Straight, false)));
            }
            Kw::LEFT => JoinKind::Left,
            Kw::RIGHT => JoinKind::Right,
            _ if natural => return self.fail(),
            _ => return Ok(None),
        };
        let word = self.kw();
        if word != Kw::JOIN {
            self.advance();
        }
        if matches!(word, Kw::LEFT | Kw::RIGHT) {
            self.eat_kw(Kw::OUTER);
        }
        self.expect_kw(Kw::JOIN)?;
        Ok(Some((kind, natural)))
    }

    pub(super) fn table_factor(&mut self) -> SqlResult<TableRef> {
        match self.cur.tok {
            Tok::LParen => match self.table_paren()? {
                TableParen::Query(query) => self.derived(query, false),
                TableParen::Table(table) => Ok(parenthesised(table)),
            },
            Tok::LBrace => self.nested(|p| {
                p.advance();
                p.expect_kw(Kw::OJ)?;
                let table = p.table_reference()?;
                p.expect(Tok::RBrace)?;
                Ok(table)
            }),
            Tok::Word(Kw::LATERAL) => {
                self.advance();
                let query = self.subquery()?;
                self.derived(query, true)
            }
            Tok::Word(Kw::JSON_TABLE) => self.json_table(),
            _ => Ok(TableRef::Table(Box::new(self.named_table()?))),
        }
    }

    /// `( … )` in FROM; what it is shows inside.
    fn table_paren(&mut self) -> SqlResult<TableParen> {
        self.nested(|p| {
            p.expect(Tok::LParen)?;
            if p.at_query_start() {
                let query = p.query_in_paren()?;
                p.expect(Tok::RParen)?;
                return Ok(TableParen::Query(query));
            }
            let first = if p.is(Tok::LParen) {
                match p.table_paren()? {
                    TableParen::Query(query) if p.at_query_continuation() => {
                        let query = p.query_from_nested(*query)?;
                        p.expect(Tok::RParen)?;
                        return Ok(TableParen::Query(Box::new(query)));
                    }
                    TableParen::Query(query) if p.eat(Tok::RParen) => {
                        return Ok(TableParen::Query(query));
                    }
                    TableParen::Query(query) => p.derived(query, false)?,
                    TableParen::Table(table) => table,
                }
            } else {
                p.table_factor()?
            };
            let mut list = vec![p.joins(first)?];
            while p.eat(Tok::Comma) {
                list.push(p.table_reference()?);
            }
            p.expect(Tok::RParen)?;
            Ok(TableParen::Table(match list.len() {
                1 => list.remove(0),
                _ => TableRef::List(list),
            }))
        })
    }

    fn derived(&mut self, query: Box<Query>, lateral: bool) -> SqlResult<TableRef> {
        let Some(alias) = self.table_alias()? else {
            return Err(SqlError::new(
                1248,
                "42000",
                "Every derived table must have its own alias",
            ));
        };
        let columns = if self.is(Tok::LParen) {
            self.ident_list()?
        } else {
            Vec::new()
        };
        Ok(TableRef::Derived {
            lateral,
            query,
            alias,
            columns,
        })
    }

    fn named_table(&mut self) -> SqlResult<NamedTable> {
        let start = self.cur.start;
        let name = self.object_name()?;
        if let (Some(places), None) = (&mut self.places, &name.schema) {
            places.tables.push((start, name.name.text.clone()));
        }
        let partitions = self.opt_partitions()?;
        let alias = self.table_alias()?;
        let hints = self.index_hints()?;
        if self.at(Kw::TABLESAMPLE) {
            return Err(SqlError::not_supported("TABLESAMPLE"));
        }
        Ok(NamedTable {
            name,
            partitions,
            alias,
            hints,
        })
    }

    /// `PARTITION (p, …)`.
    pub(super) fn opt_partitions(&mut self) -> SqlResult<Vec<Ident>> {
        if self.eat_kw(Kw::PARTITION) {
            self.ident_list()
        } else {
            Ok(Vec::new())
        }
    }

    /// `[AS] alias`. A bare RETURNING is MariaDB's clause, not an alias.
    pub(super) fn table_alias(&mut self) -> SqlResult<Option<Ident>> {
        if self.eat_kw(Kw::AS) || (self.at_ident() && !self.at(Kw::RETURNING)) {
            return self.ident().map(Some);
        }
        Ok(None)
    }

    fn index_hints(&mut self) -> SqlResult<Vec<IndexHint>> {
        let mut hints = Vec::new();
        loop {
            let kind = match self.kw() {
                Kw::USE => IndexHintKind::Use,
                Kw::FORCE => IndexHintKind::Force,
                Kw::IGNORE => IndexHintKind::Ignore,
                _ => return Ok(hints),
            };
            self.advance();
            self.expect_any(&[Kw::INDEX, Kw::KEY])?;
            let scope = if self.eat_kw(Kw::FOR) {
                Some(match self.expect_any(&[Kw::JOIN, Kw::ORDER, Kw::GROUP])? {
                    Kw::JOIN => IndexHintScope::Join,
                    kw => {
                        self.expect_kw(Kw::BY)?;
                        let order = kw == Kw::ORDER;
                        if order {
                            IndexHintScope::OrderBy
                        } else {
                            IndexHintScope::GroupBy
                        }
                    }
                })
            } else {
                None
            };
            let indexes = self.hinted_indexes(kind)?;
            hints.push(IndexHint {
                kind,
                scope,
                indexes,
            });
        }
    }

    fn hinted_indexes(&mut self, kind: IndexHintKind) -> SqlResult<Vec<Ident>> {
        self.expect(Tok::LParen)?;
        if kind == IndexHintKind::Use && self.eat(Tok::RParen) {
            return Ok(Vec::new());
        }
        let indexes = self.list(|p| {
            if p.eat_kw(Kw::PRIMARY) {
                Ok(Ident::new("PRIMARY"))
            } else {
                p.ident()
            }
        })?;
        self.expect(Tok::RParen)?;
        Ok(indexes)
    }
}

fn join(
    left: TableRef,
    right: TableRef,
    kind: JoinKind,
    natural: bool,
    on: Option<JoinOn>,
) -> TableRef {
    TableRef::Join(Box::new(Join {
        left,
        right,
        kind,
        natural,
        on,
    }))
}

/// A join in parentheses: a list of one, so that no table is multiplied into it. That would change which rows a RIGHT
/// JOIN preserves, which columns are common, and how a view prints it.
fn parenthesised(table: TableRef) -> TableRef {
    match table {
        TableRef::Join(_) => TableRef::List(vec![table]),
        table => table,
    }
}

/// `a JOIN b …` without condition is `(a × b) …`: `b` is the leftmost table of the right side.
fn multiply_into_leftmost(left: TableRef, right: TableRef, kind: JoinKind) -> TableRef {
    match right {
        TableRef::Join(mut inner) => {
            let leaf = std::mem::replace(&mut inner.left, TableRef::List(Vec::new()));
            inner.left = multiply_into_leftmost(left, leaf, kind);
            TableRef::Join(inner)
        }
        leaf => join(left, leaf, kind, false, None),
    }
}
