//! Indexes, foreign keys and other constraints, in CREATE TABLE, ALTER TABLE and statements of their own.
//!
//! Neighbours: `ddl` and `alter` ask for a constraint where a column might stand; `statement` dispatches CREATE and
//! DROP INDEX; `column` has constraints of one column.
//! **Invariants**: the name of a primary key is dropped: it is always PRIMARY.

use esker_types::{SqlResult, errors};

use super::ast::{
    Check, CreateIndex, DropIndex, ForeignKey, Ident, IndexAlgorithm, IndexKind, IndexSpec,
    KeyPart, KeyPartKind, RefAction, Statement,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// An index or constraint of a table.
pub(super) enum TableConstraint {
    Index(IndexSpec),
    ForeignKey(ForeignKey),
    Check(Check),
}

impl Parser<'_> {
    /// An index or a constraint, and whether IF NOT EXISTS (MariaDB) stands with it; or nothing when a column
    /// definition follows.
    pub(super) fn table_constraint(&mut self) -> SqlResult<Option<(TableConstraint, bool)>> {
        let mut name = None;
        let constraint = self.eat_kw(Kw::CONSTRAINT);
        let if_not_exists = constraint && self.if_not_exists()?;
        if constraint && !self.at(Kw::CHECK) {
            name = self.opt_ident()?;
        }
        if if_not_exists && (name.is_none() || !self.at(Kw::CHECK)) {
            // With the others it stands behind what they are.
            return self.fail();
        }
        let kind = match self.kw() {
            Kw::PRIMARY => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                IndexKind::Primary
            }
            Kw::UNIQUE => {
                self.advance();
                self.eat_any(&[Kw::INDEX, Kw::KEY]);
                IndexKind::Unique
            }
            Kw::FOREIGN => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                let if_not_exists = self.if_not_exists()?;
                let index = self.opt_ident()?;
                let columns = self.paren_list(Self::referencing_column)?;
                let key = self.references(name, index, columns)?;
                return Ok(Some((TableConstraint::ForeignKey(key), if_not_exists)));
            }
            Kw::CHECK => {
                let check = self.check(name)?;
                return Ok(Some((TableConstraint::Check(check), if_not_exists)));
            }
            _ if constraint => return self.fail(),
            Kw::INDEX | Kw::KEY => {
                self.advance();
                IndexKind::Plain
            }
            Kw::FULLTEXT | Kw::SPATIAL => {
                let fulltext = self.advance().tok == Tok::Word(Kw::FULLTEXT);
                self.eat_any(&[Kw::INDEX, Kw::KEY]);
                if fulltext {
                    IndexKind::FullText
                } else {
                    IndexKind::Spatial
                }
            }
            _ => return Ok(None),
        };
        let mut index = index_spec(kind, None);
        let if_not_exists = self.if_not_exists()?;
        index.name = self.opt_ident()?.or(name);
        if kind == IndexKind::Primary {
            index.name = None;
        }
        self.index_using(&mut index)?;
        index.parts = self.paren_list(Self::key_part)?;
        self.index_options(&mut index)?;
        Ok(Some((TableConstraint::Index(index), if_not_exists)))
    }

    /// Full-text and spatial indexes have no algorithm: 1064.
    fn index_using(&mut self, index: &mut IndexSpec) -> SqlResult<()> {
        if !(self.at(Kw::USING) || self.at(Kw::TYPE)) {
            return Ok(());
        }
        if matches!(index.kind, IndexKind::FullText | IndexKind::Spatial) {
            return self.fail();
        }
        self.advance();
        let algorithm = self.bytes(self.cur).to_ascii_uppercase();
        index.using = match &*algorithm {
            b"BTREE" => Some(IndexAlgorithm::BTree),
            b"HASH" => Some(IndexAlgorithm::Hash),
            b"RTREE" => Some(IndexAlgorithm::RTree),
            _ => return self.fail(),
        };
        self.advance();
        Ok(())
    }

    fn key_part(&mut self) -> SqlResult<KeyPart> {
        let what = if self.is(Tok::LParen) {
            KeyPartKind::Expr(self.paren_source_expr()?)
        } else {
            let column = self.ident()?;
            KeyPartKind::Column(column, self.paren_number()?)
        };
        let order = self.eat_any(&[Kw::ASC, Kw::DESC]);
        Ok(KeyPart {
            what,
            desc: order == Some(Kw::DESC),
            has_order: order.is_some(),
        })
    }

    fn index_options(&mut self, index: &mut IndexSpec) -> SqlResult<()> {
        loop {
            match self.kw() {
                Kw::USING | Kw::TYPE => self.index_using(index)?,
                Kw::KEY_BLOCK_SIZE => {
                    self.advance();
                    self.eat_eq();
                    index.key_block_size = Some(self.number()?);
                }
                Kw::COMMENT => {
                    self.advance();
                    index.comment = Some(self.comment_text()?);
                }
                Kw::VISIBLE | Kw::INVISIBLE => {
                    index.invisible = self.advance().tok == Tok::Word(Kw::INVISIBLE);
                }
                // MariaDB's words for it.
                Kw::NOT if self.peek_is_word("IGNORED") => {
                    self.advance();
                    self.advance();
                    index.invisible = false;
                }
                _ if self.eat_word("IGNORED") => index.invisible = true,
                Kw::WITH if index.kind == IndexKind::FullText && self.peek_is(Kw::PARSER) => {
                    self.advance();
                    self.advance();
                    index.parser = Some(self.ident()?);
                }
                Kw::ENGINE_ATTRIBUTE | Kw::SECONDARY_ENGINE_ATTRIBUTE => {
                    self.advance();
                    self.eat_eq();
                    self.string()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// A column as a part of a key: with the length of a prefix. The order changes nothing.
    fn referencing_column(&mut self) -> SqlResult<(Ident, Option<u64>)> {
        let column = self.ident()?;
        let prefix = self.paren_number()?;
        self.eat_any(&[Kw::ASC, Kw::DESC]);
        Ok((column, prefix))
    }

    /// `REFERENCES table [(columns)] [MATCH …] [ON DELETE …] [ON UPDATE …]`.
    pub(super) fn references(
        &mut self,
        name: Option<Ident>,
        index: Option<Ident>,
        columns: Vec<(Ident, Option<u64>)>,
    ) -> SqlResult<ForeignKey> {
        self.expect_kw(Kw::REFERENCES)?;
        let table = self.object_name()?;
        let ref_columns = if self.is(Tok::LParen) {
            self.ident_list()?
        } else {
            Vec::new()
        };
        if self.eat_kw(Kw::MATCH) {
            // FULL, PARTIAL or SIMPLE: without effect.
            self.ident()?;
        }
        let (mut on_delete, mut on_update) = (None, None);
        while self.at(Kw::ON) {
            match self.peek().tok {
                Tok::Word(Kw::DELETE) if on_delete.is_none() => {
                    self.advance();
                    self.advance();
                    on_delete = Some(self.ref_action()?);
                }
                Tok::Word(Kw::UPDATE) if on_update.is_none() => {
                    self.advance();
                    self.advance();
                    on_update = Some(self.ref_action()?);
                }
                _ => {
                    self.advance();
                    return self.fail();
                }
            }
        }
        Ok(ForeignKey {
            name,
            index,
            is_inline: false,
            follows: 0,
            columns,
            table,
            ref_columns,
            on_delete,
            on_update,
        })
    }

    fn ref_action(&mut self) -> SqlResult<RefAction> {
        let kw = self.expect_any(&[Kw::RESTRICT, Kw::CASCADE, Kw::SET, Kw::NO])?;
        Ok(match kw {
            Kw::RESTRICT => RefAction::Restrict,
            Kw::CASCADE => RefAction::Cascade,
            Kw::SET => match self.expect_any(&[Kw::NULL, Kw::DEFAULT])? {
                Kw::NULL => RefAction::SetNull,
                _ => RefAction::SetDefault,
            },
            _ => {
                self.expect_kw(Kw::ACTION)?;
                RefAction::NoAction
            }
        })
    }

    /// CREATE [UNIQUE|FULLTEXT|SPATIAL] INDEX, after INDEX.
    pub(super) fn create_index(
        &mut self,
        or_replace: bool,
        kind: IndexKind,
    ) -> SqlResult<Statement> {
        let mut index = index_spec(kind, None);
        let if_not_exists = self.if_not_exists()?;
        if or_replace && if_not_exists {
            self.defer(errors::wrong_usage("OR REPLACE and IF NOT EXISTS"));
        }
        index.name = Some(self.ident()?);
        self.index_using(&mut index)?;
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        index.parts = self.paren_list(Self::key_part)?;
        self.index_options(&mut index)?;
        let options = self.ddl_options()?;
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            or_replace,
            if_not_exists,
            index,
            table,
            options,
        })))
    }

    pub(super) fn drop_index(&mut self) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        let name = if self.eat_kw(Kw::PRIMARY) {
            Ident::new("PRIMARY")
        } else {
            self.ident()?
        };
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        let options = self.ddl_options()?;
        Ok(Statement::DropIndex(DropIndex {
            if_exists,
            name,
            table,
            options,
        }))
    }
}

fn index_spec(kind: IndexKind, name: Option<Ident>) -> IndexSpec {
    IndexSpec {
        kind,
        name,
        parts: Vec::new(),
        using: None,
        comment: None,
        invisible: false,
        key_block_size: None,
        parser: None,
    }
}
