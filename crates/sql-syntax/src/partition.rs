//! PARTITION BY, and the partition actions of ALTER TABLE.
//!
//! Neighbours: `ddl` and `alter` call this. **Invariant**: numbers of partitions that are written twice agree, and
//! VALUES fit to their kind of partitioning, or the text is refused as MySQL's parser refuses it.

use esker_types::{SqlResult, errors};

use super::ast::{
    Ident, LockWait, Maintain, MaintainKind, ObjectName, PartitionAction, PartitionBy,
    PartitionKind, PartitionMethod, PartitionNames, PartitionOn, PartitionOptions, PartitionSpec,
    PartitionValue, PartitionValues, Statement,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::{Parser, near};

/// Of partitions all list their subpartitions or none does, each as many.
const WRONG_SUBPARTITIONS: &str =
    "Wrong number of subpartitions defined, mismatch with previous setting";

/// Values of several columns are written in rows, each with all of them.
const INCONSISTENT: &str = "Inconsistency in usage of column lists for partitioning";

impl Parser<'_> {
    /// 1064 with a text of its own.
    fn partition_syntax<T>(&self, what: &str, at: usize) -> SqlResult<T> {
        let (near, line) = near(&self.src[self.begin..], at - self.begin);
        let text = format!("{what} near '{near}' at line {line}");
        Err(errors::not_parsed(text))
    }

    /// `PARTITION BY …`.
    pub(super) fn partition_by(&mut self) -> SqlResult<PartitionBy> {
        self.expect_seq(&[Kw::PARTITION, Kw::BY])?;
        let method = self.partition_method(false)?;
        let mut by = PartitionBy {
            method,
            sub: None,
            count: None,
            sub_count: None,
            partitions: Vec::new(),
        };
        if self.eat_kw(Kw::PARTITIONS) {
            by.count = Some(self.partition_count("partitions")?);
        }
        if self.eat_kw(Kw::SUBPARTITION) {
            self.expect_kw(Kw::BY)?;
            by.sub = Some(self.partition_method(true)?);
            if self.eat_kw(Kw::SUBPARTITIONS) {
                by.sub_count = Some(self.partition_count("subpartitions")?);
            }
        }
        if self.is(Tok::LParen) {
            let start = self.cur.start;
            by.partitions = self.partition_specs(Some(&by))?;
            if by.count.is_some_and(|n| n != by.partitions.len() as u64) {
                let text = "Wrong number of partitions defined, mismatch with previous setting";
                return self.partition_syntax(text, start);
            }
        }
        Ok(by)
    }

    /// What stands behind PARTITIONS or SUBPARTITIONS; `of`: partitions or subpartitions.
    fn partition_count(&mut self, of: &str) -> SqlResult<u64> {
        match self.number()? {
            0 => Err(errors::no_partitions(of)),
            count => Ok(count),
        }
    }

    fn partition_method(&mut self, is_sub: bool) -> SqlResult<PartitionMethod> {
        let linear = self.eat_kw(Kw::LINEAR);
        let kind = match self.kw() {
            Kw::HASH => PartitionKind::Hash,
            Kw::KEY => PartitionKind::Key,
            Kw::RANGE if !linear && !is_sub => PartitionKind::Range,
            Kw::LIST if !linear && !is_sub => PartitionKind::List,
            _ => return self.fail(),
        };
        self.advance();
        let mut algorithm = None;
        if kind == PartitionKind::Key && self.eat_kw(Kw::ALGORITHM) {
            self.eat_eq();
            let start = self.cur.start;
            algorithm = match self.number()? {
                1 => Some(1),
                2 => Some(2),
                _ => return Err(self.error_at(start)),
            };
        }
        let has_columns =
            kind == PartitionKind::Key || kind != PartitionKind::Hash && self.eat_kw(Kw::COLUMNS);
        let on = match has_columns {
            true => {
                PartitionOn::Columns(self.partition_columns(kind == PartitionKind::Key && !is_sub)?)
            }
            false => PartitionOn::Expr(self.paren_source_expr()?),
        };
        Ok(PartitionMethod {
            kind,
            linear,
            algorithm,
            on,
        })
    }

    /// `(a, …)`; nothing between the parentheses stands for the primary key, where that `may_be_empty`.
    fn partition_columns(&mut self, may_be_empty: bool) -> SqlResult<Vec<Ident>> {
        self.expect(Tok::LParen)?;
        if may_be_empty && self.eat(Tok::RParen) {
            return Ok(Vec::new());
        }
        let columns = self.list(Self::ident)?;
        self.expect(Tok::RParen)?;
        Ok(columns)
    }

    /// `(PARTITION p …, …)`; `by`: what they are partitions of, where it is known.
    fn partition_specs(&mut self, by: Option<&PartitionBy>) -> SqlResult<Vec<PartitionSpec>> {
        let mut subs = by.and_then(|by| by.sub_count);
        let start = self.cur.start;
        let (mut lists_subs, mut earlier) = (false, 0);
        self.paren_list(|p| {
            let spec = p.partition_spec(by, start, &mut subs, lists_subs || earlier == 0)?;
            if lists_subs && spec.subpartitions.is_empty() {
                return p.partition_syntax(WRONG_SUBPARTITIONS, p.cur.start);
            }
            (lists_subs, earlier) = (!spec.subpartitions.is_empty(), earlier + 1);
            Ok(spec)
        })
    }

    fn partition_spec(
        &mut self,
        by: Option<&PartitionBy>,
        start: usize,
        subs: &mut Option<u64>,
        may_list_subs: bool,
    ) -> SqlResult<PartitionSpec> {
        self.expect_kw(Kw::PARTITION)?;
        let name = self.ident()?;
        let values = self.partition_values(by)?;
        if let (Some(by), PartitionValues::None) = (by, &values) {
            let missing = match by.method.kind {
                PartitionKind::Range => Some(("RANGE", "LESS THAN")),
                PartitionKind::List => Some(("LIST", "IN")),
                _ => None,
            };
            if let Some((kind, values)) = missing {
                let text = format!(
                    "Syntax error: {kind} PARTITIONING requires definition of VALUES {values} for each partition"
                );
                return self.partition_syntax(&text, start);
            }
        }
        let options = self.partition_options()?;
        let mut subpartitions = Vec::new();
        if self.is(Tok::LParen) {
            let start = self.cur.start;
            subpartitions = self.paren_list(|p| {
                let start = p.cur.start;
                p.expect_kw(Kw::SUBPARTITION)?;
                if !may_list_subs {
                    return p.partition_syntax(WRONG_SUBPARTITIONS, start);
                }
                Ok((p.ident_or_string()?, p.partition_options()?))
            })?;
            let count = subpartitions.len() as u64;
            if *subs.get_or_insert(count) != count {
                return self.partition_syntax(WRONG_SUBPARTITIONS, start);
            }
        }
        Ok(PartitionSpec {
            name,
            values,
            options,
            subpartitions,
        })
    }

    fn ident_or_string(&mut self) -> SqlResult<Ident> {
        match self.is(Tok::Str) {
            true => Ok(Ident::new(self.string_text()?)),
            false => self.ident(),
        }
    }

    fn partition_values(&mut self, by: Option<&PartitionBy>) -> SqlResult<PartitionValues> {
        let values_at = self.cur.start;
        if !self.eat_kw(Kw::VALUES) {
            return Ok(PartitionValues::None);
        }
        let kind = by.map(|by| by.method.kind);
        let width = by.map_or(1, |by| match &by.method.on {
            PartitionOn::Columns(columns) => columns.len(),
            PartitionOn::Expr(_) => 1,
        });
        if self.eat_kw(Kw::LESS) {
            self.expect_kw(Kw::THAN)?;
            if kind.is_some_and(|k| k != PartitionKind::Range) {
                return Err(errors::wrong_partition_values("RANGE", "LESS THAN"));
            }
            if self.at(Kw::MAXVALUE) {
                if width > 1 {
                    return self.partition_syntax(INCONSISTENT, values_at);
                }
                self.advance();
                return Ok(PartitionValues::LessThan(vec![PartitionValue::Max]));
            }
            return Ok(PartitionValues::LessThan(
                self.partition_row(width, Self::partition_value)?,
            ));
        }
        self.expect_kw(Kw::IN)?;
        if kind.is_some_and(|k| k != PartitionKind::List) {
            return Err(errors::wrong_partition_values("LIST", "IN"));
        }
        let are_rows = self.peek().tok == Tok::LParen;
        if width > 1 && !are_rows {
            return self.partition_syntax(INCONSISTENT, self.cur.start);
        }
        self.expect(Tok::LParen)?;
        let list = self.list(|p| match are_rows {
            true => p.partition_row(width, Self::listed_value),
            false => Ok(vec![p.listed_value()?]),
        })?;
        let is_single = by.is_some() && width == 1;
        if are_rows && (is_single || list.iter().any(|row| row.len() == 1)) {
            let text =
                "Row expressions in VALUES IN only allowed for multi-field column partitioning";
            return self.partition_syntax(text, self.cur.start);
        }
        self.expect(Tok::RParen)?;
        Ok(PartitionValues::In(list))
    }

    /// Values in parentheses, of as many columns at least.
    fn partition_row(
        &mut self,
        width: usize,
        value: fn(&mut Self) -> SqlResult<PartitionValue>,
    ) -> SqlResult<Vec<PartitionValue>> {
        self.expect(Tok::LParen)?;
        let row = self.list(value)?;
        if row.len() < width {
            return self.partition_syntax(INCONSISTENT, self.cur.start);
        }
        self.expect(Tok::RParen)?;
        Ok(row)
    }

    fn partition_value(&mut self) -> SqlResult<PartitionValue> {
        match self.eat_kw(Kw::MAXVALUE) {
            true => Ok(PartitionValue::Max),
            false => Ok(PartitionValue::Constant(self.expr()?)),
        }
    }

    fn listed_value(&mut self) -> SqlResult<PartitionValue> {
        if self.at(Kw::MAXVALUE) {
            let start = self.cur.start;
            return self.partition_syntax("Cannot use MAXVALUE as value in VALUES IN", start);
        }
        self.partition_value()
    }

    fn partition_options(&mut self) -> SqlResult<PartitionOptions> {
        let mut options = PartitionOptions::default();
        loop {
            let kw = self.kw();
            match kw {
                Kw::STORAGE => {
                    self.advance();
                    continue;
                }
                Kw::DATA | Kw::INDEX => {
                    self.advance();
                    self.expect_kw(Kw::DIRECTORY)?;
                }
                Kw::ENGINE
                | Kw::COMMENT
                | Kw::MAX_ROWS
                | Kw::MIN_ROWS
                | Kw::TABLESPACE
                | Kw::NODEGROUP => {
                    self.advance();
                }
                _ => return Ok(options),
            }
            self.eat_eq();
            match kw {
                Kw::DATA => options.data_directory = Some(self.string_text()?),
                Kw::INDEX => options.index_directory = Some(self.string_text()?),
                Kw::ENGINE => options.engine = Some(self.ident_or_text()?),
                Kw::COMMENT => options.comment = Some(self.comment_text()?),
                Kw::MAX_ROWS => options.max_rows = self.bounded_number()?,
                Kw::MIN_ROWS => options.min_rows = self.bounded_number()?,
                Kw::TABLESPACE => options.tablespace = Some(self.ident()?.text),
                _ => {
                    self.number()?;
                }
            }
        }
    }

    // ALTER TABLE.

    /// A partition action, if one starts here; true: under IF EXISTS or IF NOT EXISTS.
    pub(super) fn partition_action(&mut self) -> SqlResult<Option<(PartitionAction, bool)>> {
        let next = self.peek_is(Kw::PARTITION);
        let kw = self.kw();
        match kw {
            Kw::PARTITION => {
                let by = self.partition_by()?;
                return Ok(Some((PartitionAction::By(Box::new(by)), false)));
            }
            Kw::REMOVE => {
                self.expect_seq(&[Kw::REMOVE, Kw::PARTITIONING])?;
                return Ok(Some((PartitionAction::Remove, false)));
            }
            Kw::SECONDARY_LOAD => {
                self.advance();
                return Ok(Some((PartitionAction::Other("SECONDARY_LOAD"), false)));
            }
            Kw::SECONDARY_UNLOAD => {
                self.advance();
                return Ok(Some((PartitionAction::Other("SECONDARY_UNLOAD"), false)));
            }
            Kw::ADD
            | Kw::DROP
            | Kw::COALESCE
            | Kw::EXCHANGE
            | Kw::REBUILD
            | Kw::REORGANIZE
            | Kw::TRUNCATE
            | Kw::DISCARD
            | Kw::IMPORT
                if next => {}
            _ => return Ok(None),
        }
        self.advance();
        self.advance();
        self.eat_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]);
        let is_conditional = match kw {
            Kw::ADD => self.if_not_exists()?,
            Kw::DROP => self.if_exists()?,
            _ => false,
        };
        Ok(Some((self.managed_partitions(kw)?, is_conditional)))
    }

    /// What follows `ADD PARTITION` and its kin.
    fn managed_partitions(&mut self, kw: Kw) -> SqlResult<PartitionAction> {
        Ok(match kw {
            Kw::ADD if self.eat_kw(Kw::PARTITIONS) => {
                PartitionAction::Add(Vec::new(), Some(self.number()?))
            }
            Kw::ADD if !self.is(Tok::LParen) => PartitionAction::Add(Vec::new(), None),
            Kw::ADD => PartitionAction::Add(self.partition_specs(None)?, None),
            Kw::DROP => PartitionAction::Drop(self.list(Self::ident)?),
            Kw::COALESCE => PartitionAction::Coalesce(self.number()?),
            Kw::TRUNCATE => PartitionAction::Truncate(self.partition_names()?),
            Kw::REBUILD => PartitionAction::Rebuild(self.partition_names()?),
            Kw::REORGANIZE if !self.at_ident() => PartitionAction::Reorganize(None),
            Kw::REORGANIZE => {
                let names = self.list(Self::ident)?;
                self.expect_kw(Kw::INTO)?;
                PartitionAction::Reorganize(Some((names, self.partition_specs(None)?)))
            }
            Kw::EXCHANGE => {
                let name = self.ident()?;
                self.expect_seq(&[Kw::WITH, Kw::TABLE])?;
                let table = self.object_name()?;
                let how = self.eat_any(&[Kw::WITH, Kw::WITHOUT]);
                if how.is_some() {
                    self.expect_kw(Kw::VALIDATION)?;
                }
                PartitionAction::Exchange(name, table, how != Some(Kw::WITHOUT))
            }
            Kw::DISCARD | Kw::IMPORT => {
                let names = self.partition_names()?;
                self.expect_kw(Kw::TABLESPACE)?;
                PartitionAction::Tablespace(names, tablespace_verb(kw))
            }
            _ => return self.fail(),
        })
    }

    /// Does ANALYZE, CHECK, OPTIMIZE or REPAIR PARTITION start here?
    pub(super) fn partition_maintenance(&self) -> Option<MaintainKind> {
        let kind = match self.kw() {
            Kw::ANALYZE => MaintainKind::Analyze,
            Kw::CHECK => MaintainKind::Check,
            Kw::OPTIMIZE => MaintainKind::Optimize,
            Kw::REPAIR => MaintainKind::Repair,
            _ => return None,
        };
        self.peek_is(Kw::PARTITION).then_some(kind)
    }

    /// The rest of it.
    pub(super) fn maintain_partitions(
        &mut self,
        kind: MaintainKind,
        table: ObjectName,
    ) -> SqlResult<Statement> {
        self.advance();
        self.advance();
        let local = kind != MaintainKind::Check
            && self.eat_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]).is_some();
        Ok(Statement::Maintain(Maintain {
            kind,
            local,
            tables: vec![table],
            partitions: Some(self.partition_names()?),
            options: self.maintenance_options(kind)?,
            wait: LockWait::Default,
            histogram: None,
        }))
    }

    fn partition_names(&mut self) -> SqlResult<PartitionNames> {
        match self.eat_kw(Kw::ALL) {
            true => Ok(PartitionNames::All),
            false => Ok(PartitionNames::Listed(self.list(Self::ident)?)),
        }
    }
}

/// What DISCARD and IMPORT do with a tablespace.
pub(super) fn tablespace_verb(kw: Kw) -> &'static str {
    match kw {
        Kw::DISCARD => "discard",
        _ => "import",
    }
}
