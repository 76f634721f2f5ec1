//! Expressions.
//!
//! Neighbours: `query` (subqueries, windows), the expression parser.
//! **Invariants**: special call syntaxes are already lowered to plain calls (`TRIM(BOTH x FROM a)` is
//! `trim_both(a, x)`, `EXTRACT(DAY FROM d)` is `extract_day(d)`, `d + INTERVAL 1 DAY` is
//! `date_add_day(d, 1)`, `CONVERT(a USING latin1)` is `convert_using_latin1(a)`); a sequence of AND or
//! of OR is one flat node with at least two operands; parentheses leave no trace.

use esker_types::geometry::Shape;

use super::{Ident, OrderItem, Query};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// `?`, numbered from 0 in source order; or a literal the caller asked to have replaced.
    Param(u32),
    /// A column reference.
    Column(ColumnRef),
    /// `@name`, lower-cased (user variables are case-insensitive).
    UserVar(Box<str>),
    /// `@name := value`.
    Assign {
        /// Variable, lower-cased.
        var: Box<str>,
        /// Right side.
        value: Box<Expr>,
    },
    /// `@@scope.name`.
    SysVar(SysVar),
    /// Prefix operator.
    Unary {
        /// Operator.
        op: UnaryOp,
        /// Operand.
        expr: Box<Expr>,
    },
    /// Infix operator.
    Binary {
        /// Operator.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `a AND b AND …` (also `&&`).
    And(Vec<Expr>),
    /// `a OR b OR …` (also `||` without PIPES_AS_CONCAT).
    Or(Vec<Expr>),
    /// `a XOR b`.
    Xor(Box<Expr>, Box<Expr>),
    /// `NOT a`, `!a`.
    Not(Box<Expr>),
    /// `a IS [NOT] NULL | TRUE | FALSE | UNKNOWN`.
    Is {
        /// Operand.
        expr: Box<Expr>,
        /// NOT given.
        negated: bool,
        /// What it is tested for (UNKNOWN is NULL).
        test: IsTest,
    },
    /// `a [NOT] LIKE p [ESCAPE e]`.
    Like {
        /// Text.
        expr: Box<Expr>,
        /// Pattern.
        pattern: Box<Expr>,
        /// ESCAPE operand.
        escape: Option<Box<Expr>>,
        /// NOT given.
        negated: bool,
    },
    /// `a [NOT] REGEXP p`, `RLIKE`.
    Regexp {
        /// Text.
        expr: Box<Expr>,
        /// Pattern.
        pattern: Box<Expr>,
        /// NOT given.
        negated: bool,
    },
    /// `a [NOT] BETWEEN lo AND hi`.
    Between {
        /// Operand.
        expr: Box<Expr>,
        /// Lower bound.
        low: Box<Expr>,
        /// Upper bound.
        high: Box<Expr>,
        /// NOT given.
        negated: bool,
    },
    /// `a [NOT] IN (x, …)`.
    InList {
        /// Operand (a [`Expr::Row`] for row comparisons).
        expr: Box<Expr>,
        /// At least one member.
        list: Vec<Expr>,
        /// NOT given.
        negated: bool,
    },
    /// `a [NOT] IN (SELECT …)`.
    InSubquery {
        /// Operand.
        expr: Box<Expr>,
        /// Subquery.
        query: Box<Query>,
        /// NOT given.
        negated: bool,
    },
    /// `EXISTS (SELECT …)`; NOT EXISTS is `Not(Exists)`.
    Exists(Box<Query>),
    /// `a op ANY|ALL (SELECT …)`; SOME is ANY.
    Quantified {
        /// Comparison operator.
        op: BinaryOp,
        /// Left operand.
        expr: Box<Expr>,
        /// ALL rather than ANY.
        all: bool,
        /// Subquery.
        query: Box<Query>,
    },
    /// `(SELECT …)` as a value or a row.
    Subquery(Box<Query>),
    /// `CASE [operand] WHEN … THEN … [ELSE …] END`.
    Case {
        /// Simple CASE operand.
        operand: Option<Box<Expr>>,
        /// WHEN and THEN pairs, at least one.
        whens: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(a AS type)`, `CONVERT(a, type)`, `BINARY a`, `DATE(...)` is a call, not a cast.
    Cast {
        /// Operand.
        expr: Box<Expr>,
        /// Target; SIGNED is BIGINT, UNSIGNED is BIGINT UNSIGNED.
        ty: Box<DataType>,
    },
    /// A function, aggregate or window function call.
    Call(Box<Call>),
    /// `(a, b)`, `ROW(a, b)`: at least two members.
    Row(Vec<Expr>),
    /// `DEFAULT(col)`; a bare DEFAULT where a value is expected is `Default(None)`.
    Default(Option<ColumnRef>),
    /// `VALUES(col)` (and `VALUE(col)`) in ON DUPLICATE KEY UPDATE.
    Values(ColumnRef),
    /// `MATCH (cols) AGAINST (e mode)`.
    Match {
        /// Columns.
        columns: Vec<ColumnRef>,
        /// Search text.
        against: Box<Expr>,
        /// Search mode.
        mode: MatchMode,
    },
    /// `col->'path'` (unquote false) or `col->>'path'`.
    JsonArrow {
        /// Column.
        column: ColumnRef,
        /// JSON path.
        path: Box<str>,
        /// `->>`.
        unquote: bool,
    },
    /// `a MEMBER OF (json)`.
    MemberOf {
        /// Value.
        expr: Box<Expr>,
        /// Array.
        array: Box<Expr>,
    },
    /// `JSON_VALUE(…)`.
    JsonValue(Box<JsonValue>),
    /// `a COLLATE name`.
    Collate {
        /// Operand.
        expr: Box<Expr>,
        /// Collation name.
        collation: Box<str>,
    },
}

/// A constant as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL, `\N`.
    Null,
    /// TRUE, FALSE.
    Bool(bool),
    /// An integer that fits (a sign is a unary operator).
    Int(u64),
    /// Digits with a point, or an integer beyond 64 bits: exact, as written.
    Decimal(Box<str>),
    /// With an exponent.
    Double(f64),
    /// `'text'`, adjacent strings joined.
    Str {
        /// Contents, escapes resolved.
        bytes: Vec<u8>,
        /// `_latin1'…'` introducer, lower-cased (`N'…'` is utf8mb3).
        charset: Option<Box<str>>,
    },
    /// `0x4D`, `x'4D'`.
    Hex {
        /// Contents.
        bytes: Vec<u8>,
        /// Introducer.
        charset: Option<Box<str>>,
    },
    /// `0b01`, `b'01'`, left-padded to whole bytes.
    Bit {
        /// Contents.
        bytes: Vec<u8>,
        /// Introducer.
        charset: Option<Box<str>>,
    },
    /// `DATE '…'`.
    Date(Vec<u8>),
    /// `TIME '…'`.
    Time(Vec<u8>),
    /// `TIMESTAMP '…'`.
    Timestamp(Vec<u8>),
}

/// `schema.table.column`, as far as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRef {
    /// Schema.
    pub schema: Option<Ident>,
    /// Table or alias.
    pub table: Option<Ident>,
    /// Column.
    pub name: Ident,
}

/// Which value of a system variable is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarScope {
    /// GLOBAL.
    Global,
    /// SESSION, LOCAL.
    Session,
    /// PERSIST: global now and after a restart.
    Persist,
    /// PERSIST_ONLY: after a restart.
    PersistOnly,
}

impl VarScope {
    /// As SET has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Global => "GLOBAL",
            Self::Session => "SESSION",
            Self::Persist => "PERSIST",
            Self::PersistOnly => "PERSIST_ONLY",
        }
    }
}

/// A reference to a system variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysVar {
    /// Scope, if written.
    pub scope: Option<VarScope>,
    /// `base.name` variables (key caches, components).
    pub base: Option<Box<str>>,
    /// Name, lower-cased.
    pub name: Box<str>,
    /// As written, with `@@` and scope: the column's name in a result.
    pub text: Box<str>,
}

/// Prefix operators (NOT is [`Expr::Not`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-a`
    Neg,
    /// `+a`
    Plus,
    /// `~a`
    BitNot,
}

/// Infix operators with two plain operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `DIV`
    IntDiv,
    /// `%`, `MOD`
    Mod,
    /// `|`
    BitOr,
    /// `&`
    BitAnd,
    /// `^`
    BitXor,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `=`
    Eq,
    /// `<=>`
    NullSafeEq,
    /// `<>`, `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Expr {
    /// Is the value true, false or NULL by its form alone: a connective, predicate, comparison, boolean literal?
    pub fn is_truth(&self) -> bool {
        match self {
            Self::Binary { op, .. } => op.is_comparison(),
            Self::And(_)
            | Self::Or(_)
            | Self::Xor(..)
            | Self::Not(_)
            | Self::Is { .. }
            | Self::Like { .. }
            | Self::Regexp { .. }
            | Self::Between { .. }
            | Self::InList { .. }
            | Self::InSubquery { .. }
            | Self::Exists(_)
            | Self::Quantified { .. }
            | Self::MemberOf { .. }
            | Self::Literal(Literal::Bool(_)) => true,
            _ => false,
        }
    }
}

impl BinaryOp {
    /// One of the comparison operators.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Eq | Self::NullSafeEq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge
        )
    }

    /// As MySQL prints it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::IntDiv => "DIV",
            Self::Mod => "%",
            Self::BitOr => "|",
            Self::BitAnd => "&",
            Self::BitXor => "^",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Eq => "=",
            Self::NullSafeEq => "<=>",
            Self::Ne => "<>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// What IS tests for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsTest {
    /// NULL, UNKNOWN.
    Null,
    /// TRUE.
    True,
    /// FALSE.
    False,
}

/// Full-text search mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// IN NATURAL LANGUAGE MODE, the default.
    Natural,
    /// … WITH QUERY EXPANSION.
    Expansion,
    /// IN BOOLEAN MODE.
    Boolean,
}

/// A call. The binder knows aggregates and window functions by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `schema.function(…)`: a stored function.
    pub schema: Option<Ident>,
    /// Function name as written (lowered forms: lower case).
    pub name: Ident,
    /// Arguments; empty for `COUNT(*)`.
    pub args: Vec<Expr>,
    /// `COUNT(*)`.
    pub star: bool,
    /// `COUNT(DISTINCT …)`.
    pub distinct: bool,
    /// `GROUP_CONCAT(… ORDER BY …)`.
    pub order_by: Vec<OrderItem>,
    /// `GROUP_CONCAT(… SEPARATOR '…')`.
    pub separator: Option<Vec<u8>>,
    /// `… OVER w`, `… OVER (…)`.
    pub over: Option<Over>,
}

impl Call {
    /// A plain call.
    pub fn plain(name: Ident, args: Vec<Expr>) -> Self {
        Self {
            schema: None,
            name,
            args,
            star: false,
            distinct: false,
            order_by: Vec::new(),
            separator: None,
            over: None,
        }
    }
}

/// The window a call is evaluated over.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// A window of the WINDOW clause.
    Named(Ident),
    /// Written in place.
    Spec(WindowSpec),
}

/// A window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSpec {
    /// A window this one refines.
    pub base: Option<Ident>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// ROWS or RANGE.
    pub frame: Option<WindowFrame>,
}

/// Frame of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowFrame {
    /// RANGE rather than ROWS.
    pub range: bool,
    /// Start.
    pub start: FrameBound,
    /// End; CURRENT ROW when not given.
    pub end: FrameBound,
}

/// One end of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameBound {
    /// UNBOUNDED PRECEDING.
    UnboundedPreceding,
    /// `n PRECEDING`; an `INTERVAL n unit` carries its unit.
    Preceding(Box<Expr>, Option<Box<str>>),
    /// CURRENT ROW.
    CurrentRow,
    /// `n FOLLOWING`.
    Following(Box<Expr>, Option<Box<str>>),
    /// UNBOUNDED FOLLOWING.
    UnboundedFollowing,
}

/// A type as written in a column definition or a cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataType {
    /// Name.
    pub name: TypeName,
    /// First number in parentheses: length, precision, fractional digits or display width.
    pub length: Option<u64>,
    /// Second number in parentheses.
    pub decimals: Option<u64>,
    /// UNSIGNED.
    pub unsigned: bool,
    /// ZEROFILL.
    pub zerofill: bool,
    /// CHARACTER SET (ASCII is latin1, UNICODE is ucs2, NATIONAL is utf8mb3), lower-cased.
    pub charset: Option<Box<str>>,
    /// COLLATE.
    pub collation: Option<Box<str>>,
    /// BINARY after a character type: the character set's _bin collation.
    pub binary: bool,
    /// ENUM and SET members.
    pub labels: Vec<Vec<u8>>,
    /// `CAST(… AS type ARRAY)`.
    pub array: bool,
}

impl DataType {
    /// A type without any parameter.
    pub fn new(name: TypeName) -> Self {
        Self {
            name,
            length: None,
            decimals: None,
            unsigned: false,
            zerofill: false,
            charset: None,
            collation: None,
            binary: false,
            labels: Vec::new(),
            array: false,
        }
    }
}

/// Type names; synonyms are folded (INTEGER, DEC, FIXED, BOOL is `Bool` since it means TINYINT(1)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the SQL type of that name")]
pub enum TypeName {
    Bit,
    Bool,
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    /// BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE.
    Serial,
    Decimal,
    Float,
    Double,
    Date,
    Time,
    DateTime,
    Timestamp,
    Year,
    Char,
    VarChar,
    Binary,
    VarBinary,
    TinyText,
    Text,
    MediumText,
    LongText,
    TinyBlob,
    Blob,
    MediumBlob,
    LongBlob,
    Enum,
    Set,
    Json,
    /// GEOMETRY, POINT and their kin.
    Geometry(Shape),
    Vector,
}

/// `JSON_VALUE(doc, 'path' RETURNING type … ON EMPTY … ON ERROR)`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonValue {
    /// Document.
    pub doc: Expr,
    /// Path as written.
    pub path: Box<str>,
    /// RETURNING.
    pub ty: Option<Box<DataType>>,
    /// ON EMPTY.
    pub on_empty: Option<JsonFallback>,
    /// ON ERROR.
    pub on_error: Option<JsonFallback>,
}

/// What is given instead of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonFallback {
    /// NULL.
    Null,
    /// ERROR.
    Error,
    /// DEFAULT value.
    Default(Expr),
}

/// `'path' COLUMNS (…)` of JSON_TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonColumns {
    /// Path of the rows.
    pub path: Box<str>,
    /// Columns and nested paths.
    pub columns: Vec<JsonColumn>,
}

/// A column of JSON_TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonColumn {
    /// `name FOR ORDINALITY`.
    Ordinality(Ident),
    /// `name type EXISTS PATH 'path'`.
    Exists {
        /// Name.
        name: Ident,
        /// Type.
        ty: Box<DataType>,
        /// Path.
        path: Box<str>,
    },
    /// `name type PATH 'path' … ON EMPTY … ON ERROR`.
    Value {
        /// Name.
        name: Ident,
        /// Type.
        ty: Box<DataType>,
        /// Path.
        path: Box<str>,
        /// ON EMPTY.
        on_empty: Option<JsonFallback>,
        /// ON ERROR.
        on_error: Option<JsonFallback>,
    },
    /// `NESTED PATH 'path' COLUMNS (…)`.
    Nested(JsonColumns),
}
