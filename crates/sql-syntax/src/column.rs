//! Data types and column definitions.
//!
//! Neighbours: `ddl` and `alter` use definitions, `call` the type pieces for casts.
//! **Invariants**: synonyms are folded; limits (VARCHAR too long, scale above precision) are the
//! catalog's business, here only the syntax counts.

use esker_types::geometry::Shape;
use esker_types::{SqlMode, SqlResult, errors};

use super::ast::{
    Check, ColumnDef, ColumnDefault, DataType, Expr, ForeignKey, Generated, Ident, Literal,
    SourceExpr, TypeName,
};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// The shape that a word names.
pub(super) fn shape_of(kw: Kw) -> Option<Shape> {
    use Kw::*;
    Some(match kw {
        GEOMETRY => Shape::Geometry,
        POINT => Shape::Point,
        LINESTRING => Shape::LineString,
        POLYGON => Shape::Polygon,
        MULTIPOINT => Shape::MultiPoint,
        MULTILINESTRING => Shape::MultiLineString,
        MULTIPOLYGON => Shape::MultiPolygon,
        GEOMETRYCOLLECTION | GEOMCOLLECTION => Shape::Collection,
        _ => return None,
    })
}

impl Parser<'_> {
    /// `[(n)]`.
    pub(super) fn paren_number(&mut self) -> SqlResult<Option<u64>> {
        if !self.eat(Tok::LParen) {
            return Ok(None);
        }
        let n = self.number()?;
        self.expect(Tok::RParen)?;
        Ok(Some(n))
    }

    /// `[(length)]` of a type: a fraction in it counts for nothing.
    fn field_length(&mut self) -> SqlResult<Option<u64>> {
        if !self.eat(Tok::LParen) {
            return Ok(None);
        }
        if !matches!(self.cur.tok, Tok::Int | Tok::Decimal) {
            return self.fail();
        }
        let length = self.whole_part();
        self.expect(Tok::RParen)?;
        Ok(Some(length))
    }

    /// `[(precision [, scale])]`.
    pub(super) fn precision(&mut self, ty: &mut DataType) -> SqlResult<()> {
        if self.is(Tok::LParen) && self.peek().tok == Tok::Decimal {
            ty.length = self.field_length()?;
            return Ok(());
        }
        if self.eat(Tok::LParen) {
            ty.length = Some(self.number()?);
            if self.eat(Tok::Comma) {
                ty.decimals = Some(self.number()?);
            }
            self.expect(Tok::RParen)?;
        }
        Ok(())
    }

    fn required_length(&mut self, ty: &mut DataType) -> SqlResult<()> {
        if !self.is(Tok::LParen) {
            return self.fail();
        }
        ty.length = self.field_length()?;
        Ok(())
    }

    /// Character set words after a character type.
    pub(super) fn type_charset(&mut self, ty: &mut DataType) -> SqlResult<()> {
        loop {
            if self.eat_kw(Kw::BINARY) {
                ty.binary = true;
            } else if ty.charset.is_some() {
                return Ok(());
            } else if self.eat_kw(Kw::ASCII) {
                ty.charset = Some("latin1".into());
            } else if self.eat_kw(Kw::UNICODE) {
                ty.charset = Some("ucs2".into());
            } else if self.eat_kw(Kw::BYTE) {
                ty.charset = Some("binary".into());
            } else if self.eat_charset_words()? {
                ty.charset = Some(self.charset_name()?);
            } else {
                return Ok(());
            }
        }
    }

    /// A column's type.
    pub(super) fn data_type(&mut self) -> SqlResult<DataType> {
        use Kw::*;
        let kw = self.kw();
        let name = match kw {
            BIT => TypeName::Bit,
            BOOL | BOOLEAN => TypeName::Bool,
            TINYINT | INT1 => TypeName::TinyInt,
            SMALLINT | INT2 => TypeName::SmallInt,
            MEDIUMINT | MIDDLEINT | INT3 => TypeName::MediumInt,
            INT | INTEGER | INT4 => TypeName::Int,
            BIGINT | INT8 => TypeName::BigInt,
            SERIAL => TypeName::Serial,
            DECIMAL | DEC | NUMERIC | FIXED => TypeName::Decimal,
            FLOAT | FLOAT4 => TypeName::Float,
            DOUBLE | FLOAT8 => TypeName::Double,
            REAL if self.mode(SqlMode::REAL_AS_FLOAT) => TypeName::Float,
            REAL => TypeName::Double,
            DATE => TypeName::Date,
            TIME => TypeName::Time,
            DATETIME => TypeName::DateTime,
            TIMESTAMP => TypeName::Timestamp,
            YEAR => TypeName::Year,
            CHAR | CHARACTER | NCHAR => TypeName::Char,
            VARCHAR | VARCHARACTER | NVARCHAR => TypeName::VarChar,
            NATIONAL => TypeName::Char,
            BINARY => TypeName::Binary,
            VARBINARY => TypeName::VarBinary,
            TINYTEXT => TypeName::TinyText,
            TEXT => TypeName::Text,
            MEDIUMTEXT | LONG => TypeName::MediumText,
            LONGTEXT => TypeName::LongText,
            TINYBLOB => TypeName::TinyBlob,
            BLOB => TypeName::Blob,
            MEDIUMBLOB => TypeName::MediumBlob,
            LONGBLOB => TypeName::LongBlob,
            ENUM => TypeName::Enum,
            SET => TypeName::Set,
            JSON => TypeName::Json,
            _ if let Some(shape) = shape_of(kw) => TypeName::Geometry(shape),
            VECTOR => TypeName::Vector,
            _ => return self.fail(),
        };
        self.advance();
        let mut ty = DataType::new(name);
        self.type_details(kw, &mut ty)?;
        Ok(ty)
    }

    fn type_details(&mut self, kw: Kw, ty: &mut DataType) -> SqlResult<()> {
        match ty.name {
            TypeName::TinyInt
            | TypeName::SmallInt
            | TypeName::MediumInt
            | TypeName::Int
            | TypeName::BigInt => {
                ty.length = self.field_length()?;
                self.sign(ty);
            }
            TypeName::Decimal | TypeName::Float | TypeName::Double => {
                if kw == Kw::DOUBLE {
                    self.eat_kw(Kw::PRECISION);
                }
                self.precision(ty)?;
                if ty.name == TypeName::Double && ty.length.is_some() && ty.decimals.is_none() {
                    return Err(self.error_at(self.prev_end - 1));
                }
                self.sign(ty);
            }
            TypeName::Time | TypeName::DateTime | TypeName::Timestamp => {
                ty.length = self.paren_number()?;
            }
            TypeName::Bit
            | TypeName::Year
            | TypeName::Binary
            | TypeName::Blob
            | TypeName::Vector => {
                ty.length = self.field_length()?;
                if ty.name == TypeName::Year {
                    self.sign(ty);
                }
            }
            TypeName::VarBinary => self.required_length(ty)?,
            TypeName::Char | TypeName::VarChar => self.character_type(kw, ty)?,
            TypeName::MediumText if kw == Kw::LONG => {
                if self.eat_kw(Kw::VARBINARY) {
                    ty.name = TypeName::MediumBlob;
                    return Ok(());
                }
                if self.eat_any(&[Kw::CHAR, Kw::CHARACTER]).is_some() {
                    self.expect_kw(Kw::VARYING)?;
                } else {
                    self.eat_any(&[Kw::VARCHAR, Kw::VARCHARACTER]);
                }
                self.type_charset(ty)?;
            }
            TypeName::Text => {
                ty.length = self.field_length()?;
                self.type_charset(ty)?;
            }
            TypeName::TinyText | TypeName::MediumText | TypeName::LongText => {
                self.type_charset(ty)?;
            }
            TypeName::Enum | TypeName::Set => {
                ty.labels = self.paren_list(Self::string_or_hex)?;
                self.type_charset(ty)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn sign(&mut self, ty: &mut DataType) {
        while let Some(kw) = self.eat_any(&[Kw::UNSIGNED, Kw::SIGNED, Kw::ZEROFILL]) {
            ty.unsigned |= kw == Kw::UNSIGNED;
            ty.zerofill |= kw == Kw::ZEROFILL;
        }
    }

    /// CHAR, VARCHAR and their NATIONAL and VARYING forms, after the first word.
    fn character_type(&mut self, first: Kw, ty: &mut DataType) -> SqlResult<()> {
        let national = matches!(first, Kw::NATIONAL | Kw::NCHAR | Kw::NVARCHAR);
        if first == Kw::NATIONAL {
            let word =
                self.expect_any(&[Kw::CHAR, Kw::CHARACTER, Kw::VARCHAR, Kw::VARCHARACTER])?;
            if matches!(word, Kw::VARCHAR | Kw::VARCHARACTER) {
                ty.name = TypeName::VarChar;
            }
        }
        if first == Kw::NCHAR && self.eat_any(&[Kw::VARCHAR, Kw::VARCHARACTER]).is_some() {
            ty.name = TypeName::VarChar;
        }
        if ty.name == TypeName::Char && self.eat_kw(Kw::VARYING) {
            ty.name = TypeName::VarChar;
        }
        if ty.name == TypeName::VarChar {
            self.required_length(ty)?;
        } else {
            ty.length = self.field_length()?;
        }
        if national {
            self.deprecate(Deprecation::National);
            ty.charset = Some("utf8mb3".into());
            ty.binary = self.eat_kw(Kw::BINARY);
            return Ok(());
        }
        self.type_charset(ty)
    }

    /// A new column, `name type attribute … [REFERENCES …]`.
    pub(super) fn new_column(&mut self) -> SqlResult<(ColumnDef, Option<ForeignKey>)> {
        let def = self.column_def()?;
        if !self.at(Kw::REFERENCES) {
            return Ok((def, None));
        }
        let mut key = self.references(None, None, vec![(def.name.clone(), None)])?;
        key.is_inline = true;
        Ok((def, Some(key)))
    }

    /// `name type attribute …`.
    pub(super) fn column_def(&mut self) -> SqlResult<ColumnDef> {
        let name = self.ident()?;
        let ty = self.data_type()?;
        let mut def = ColumnDef {
            name,
            ty,
            not_null: None,
            default: None,
            on_update_now: None,
            auto_increment: false,
            unique: false,
            primary: false,
            comment: None,
            generated: None,
            invisible: None,
            checks: Vec::new(),
            srid: None,
        };
        if def.ty.name == TypeName::Serial {
            serial(&mut def);
        }
        while self.column_attribute(&mut def)? {}
        Ok(def)
    }

    fn column_attribute(&mut self, def: &mut ColumnDef) -> SqlResult<bool> {
        match self.kw() {
            Kw::NULL => {
                self.advance();
                def.not_null = Some(false);
            }
            Kw::NOT => {
                self.advance();
                self.expect_kw(Kw::NULL)?;
                def.not_null = Some(true);
            }
            Kw::DEFAULT => {
                self.advance();
                let default = self.column_default()?;
                let before = def.default.as_ref();
                if before.is_some_and(|before| contradict(before, &default)) {
                    self.defer(errors::invalid_default(&def.name));
                }
                def.default = Some(default);
            }
            Kw::ON => {
                self.advance();
                self.expect_kw(Kw::UPDATE)?;
                match self.opt_now()? {
                    Some(fsp) => def.on_update_now = Some(fsp),
                    None => return self.fail(),
                }
            }
            Kw::AUTO_INCREMENT => {
                self.advance();
                def.auto_increment = true;
            }
            Kw::SERIAL => {
                self.advance();
                self.expect_seq(&[Kw::DEFAULT, Kw::VALUE])?;
                serial(def);
            }
            Kw::UNIQUE => {
                self.advance();
                self.eat_kw(Kw::KEY);
                def.unique = true;
            }
            Kw::PRIMARY | Kw::KEY => {
                self.eat_kw(Kw::PRIMARY);
                self.expect_kw(Kw::KEY)?;
                def.primary = true;
            }
            Kw::COMMENT => {
                self.advance();
                def.comment = Some(self.comment_text()?);
            }
            Kw::COLLATE => {
                self.advance();
                def.ty.collation = Some(self.collation_name()?);
            }
            Kw::VISIBLE | Kw::INVISIBLE => {
                def.invisible = Some(self.advance().tok == Tok::Word(Kw::INVISIBLE));
            }
            Kw::CONSTRAINT | Kw::CHECK => {
                let check = self.column_check()?;
                def.checks.push(check);
            }
            _ => return self.rare_column_attribute(def),
        }
        Ok(true)
    }

    fn rare_column_attribute(&mut self, def: &mut ColumnDef) -> SqlResult<bool> {
        match self.kw() {
            Kw::GENERATED | Kw::AS => {
                if self.eat_kw(Kw::GENERATED) {
                    self.expect_kw(Kw::ALWAYS)?;
                }
                self.expect_kw(Kw::AS)?;
                let expr = self.paren_source_expr()?;
                let stored = self.eat_any(&[Kw::VIRTUAL, Kw::STORED]) == Some(Kw::STORED)
                    || self.eat_word("PERSISTENT");
                def.generated = Some(Generated { expr, stored });
            }
            Kw::SRID => {
                self.advance();
                def.srid = Some(self.number()?);
            }
            Kw::COLUMN_FORMAT => {
                self.advance();
                self.expect_any(&[Kw::FIXED, Kw::DYNAMIC, Kw::DEFAULT])?;
            }
            Kw::STORAGE => {
                self.advance();
                // DISK or MEMORY.
                if !self.eat_kw(Kw::DEFAULT) {
                    self.ident()?;
                }
            }
            Kw::ENGINE_ATTRIBUTE | Kw::SECONDARY_ENGINE_ATTRIBUTE => {
                self.advance();
                self.eat_eq();
                self.string()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn column_check(&mut self) -> SqlResult<Check> {
        let mut name = None;
        if self.eat_kw(Kw::CONSTRAINT) {
            name = self.opt_ident()?;
        }
        self.check(name)
    }

    /// `CHECK (expr) [[NOT] ENFORCED]`.
    pub(super) fn check(&mut self, name: Option<Ident>) -> SqlResult<Check> {
        let at = self.cur.start;
        self.expect_kw(Kw::CHECK)?;
        let expr = self.paren_source_expr()?;
        let enforced = !self.eat_seq(&[Kw::NOT, Kw::ENFORCED]);
        if self.at(Kw::NOT) && !self.peek_is(Kw::NULL) {
            self.advance();
            return self.fail();
        }
        if enforced {
            self.eat_kw(Kw::ENFORCED);
        }
        Ok(Check {
            name,
            expr,
            enforced,
            at,
        })
    }

    /// `(expr)` with its text.
    pub(super) fn paren_source_expr(&mut self) -> SqlResult<SourceExpr> {
        self.expect(Tok::LParen)?;
        let start = self.cur.start;
        let expr = self.expr()?;
        let text = self.source(start, self.prev_end);
        self.expect(Tok::RParen)?;
        Ok(SourceExpr { expr, text })
    }

    /// What follows DEFAULT.
    pub(super) fn column_default(&mut self) -> SqlResult<ColumnDefault> {
        if self.is(Tok::LParen) {
            return Ok(ColumnDefault::Expr(self.paren_source_expr()?));
        }
        if let Some(fsp) = self.opt_now()? {
            return Ok(ColumnDefault::Now(fsp));
        }
        Ok(ColumnDefault::Literal(self.signed_literal()?))
    }

    /// CURRENT_TIMESTAMP and its synonyms with their fractional digits.
    fn opt_now(&mut self) -> SqlResult<Option<u8>> {
        let kw = self.kw();
        if !matches!(
            kw,
            Kw::CURRENT_TIMESTAMP | Kw::LOCALTIME | Kw::LOCALTIMESTAMP | Kw::NOW
        ) {
            return Ok(None);
        }
        self.advance();
        let mut fsp = 0;
        if kw == Kw::NOW || self.is(Tok::LParen) {
            self.expect(Tok::LParen)?;
            fsp = self.opt_number()?.unwrap_or(0);
            self.expect(Tok::RParen)?;
        }
        Ok(Some(u8::try_from(fsp).unwrap_or(u8::MAX)))
    }
}

/// SERIAL and SERIAL DEFAULT VALUE.
fn serial(def: &mut ColumnDef) {
    if def.ty.name == TypeName::Serial {
        def.ty.name = TypeName::BigInt;
        def.ty.unsigned = true;
    }
    def.not_null = Some(true);
    def.auto_increment = true;
    def.unique = true;
}

/// Is one of two defaults of a column an expression, and the other a value? NULL takes back what was there before.
fn contradict(first: &ColumnDefault, second: &ColumnDefault) -> bool {
    let is_null =
        |d: &ColumnDefault| matches!(d, ColumnDefault::Literal(Expr::Literal(Literal::Null)));
    let is_expression = |d: &ColumnDefault| matches!(d, ColumnDefault::Expr(_));
    !is_null(first) && !is_null(second) && is_expression(first) != is_expression(second)
}
