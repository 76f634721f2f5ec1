//! SELECT, UNION and friends, table references.
//!
//! Neighbours: `expr`, the query parser, `bind`.
//! **Invariants**: set operations are a flat left-to-right list; INTERSECT, which binds tighter, is
//! already grouped into a nested term; NATURAL and USING joins are kept as written.

use super::{BlockHints, Expr, Ident, JsonColumns, ObjectName, Target, WindowSpec};

impl Query {
    /// `SELECT item`.
    pub fn of_item(item: Expr) -> Self {
        Self::of_item_from(item, Vec::new(), None)
    }

    /// `SELECT item FROM from WHERE filter`.
    pub fn of_item_from(item: Expr, from: Vec<TableRef>, filter: Option<Expr>) -> Self {
        let select = Select {
            items: vec![SelectItem::Expr {
                expr: item,
                alias: None,
                text: "".into(),
            }],
            from,
            filter,
            ..Select::default()
        };
        Self {
            with: None,
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: None,
            locking: Vec::new(),
            into: None,
        }
    }

    /// Hints of its statement, if it has any.
    pub fn hints(&self) -> Option<&BlockHints> {
        self.body.hints()
    }
}

impl QueryBody {
    /// Those of the first query block.
    fn hints(&self) -> Option<&BlockHints> {
        match self {
            Self::Select(select) => select.hints.as_deref(),
            Self::SetOps { first, .. } => first.hints(),
            Self::Nested(query) => query.hints(),
            Self::Table(_) | Self::Values(_) => None,
        }
    }
}

/// A query expression with everything around its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// WITH.
    pub with: Option<With>,
    /// What produces rows.
    pub body: QueryBody,
    /// ORDER BY of the whole (for a plain SELECT: of the SELECT).
    pub order_by: Vec<OrderItem>,
    /// LIMIT of the whole.
    pub limit: Option<Limit>,
    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE: several with `OF`.
    pub locking: Vec<Locking>,
    /// INTO.
    pub into: Option<Into>,
}

/// What produces rows.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    /// SELECT.
    Select(Box<Select>),
    /// UNION, EXCEPT, INTERSECT, applied left to right.
    SetOps {
        /// Leftmost operand.
        first: Box<QueryBody>,
        /// At least one step.
        rest: Vec<SetOpStep>,
    },
    /// `VALUES ROW(…), …`.
    Values(Vec<Vec<Expr>>),
    /// `TABLE t`.
    Table(ObjectName),
    /// A parenthesised query with its own ORDER BY, LIMIT or WITH.
    Nested(Box<Query>),
}

/// One set operation.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOpStep {
    /// Operation.
    pub op: SetOp,
    /// ALL rather than DISTINCT.
    pub all: bool,
    /// Right operand.
    pub right: QueryBody,
}

/// Set operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    /// UNION.
    Union,
    /// EXCEPT.
    Except,
    /// INTERSECT.
    Intersect,
}

/// WITH [RECURSIVE].
#[derive(Debug, Clone, PartialEq)]
pub struct With {
    /// RECURSIVE.
    pub recursive: bool,
    /// Members.
    pub ctes: Vec<Cte>,
}

/// `name [(columns)] AS (query)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cte {
    /// Name.
    pub name: Ident,
    /// Column names; empty when not given.
    pub columns: Vec<Ident>,
    /// Query.
    pub query: Query,
}

/// SELECT … up to HAVING and WINDOW.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// DISTINCT, DISTINCTROW.
    pub distinct: bool,
    /// SQL_CALC_FOUND_ROWS, STRAIGHT_JOIN, …
    pub options: SelectOptions,
    /// Optimizer hints, if the statement has any.
    pub hints: Option<Box<BlockHints>>,
    /// Select list.
    pub items: Vec<SelectItem>,
    /// FROM; empty for no FROM and for FROM DUAL. Comma-separated entries are cross joins.
    pub from: Vec<TableRef>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY. An integer literal here is a select-list position.
    pub group_by: Vec<Expr>,
    /// WITH ROLLUP.
    pub rollup: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// WINDOW.
    pub windows: Vec<(Ident, WindowSpec)>,
}

/// Words between SELECT and the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SelectOptions {
    /// SQL_CALC_FOUND_ROWS.
    pub calc_found_rows: bool,
    /// STRAIGHT_JOIN.
    pub straight_join: bool,
    /// SQL_NO_CACHE.
    pub no_cache: bool,
    /// HIGH_PRIORITY.
    pub high_priority: bool,
    /// SQL_SMALL_RESULT.
    pub small_result: bool,
    /// SQL_BIG_RESULT.
    pub big_result: bool,
    /// SQL_BUFFER_RESULT.
    pub buffer_result: bool,
}

impl SelectOptions {
    /// An option that is about the whole statement, if there is one.
    pub(crate) fn of_statement(&self) -> Option<&'static str> {
        match self {
            _ if self.high_priority => Some("HIGH_PRIORITY"),
            _ if self.buffer_result => Some("SQL_BUFFER_RESULT"),
            _ if self.calc_found_rows => Some("SQL_CALC_FOUND_ROWS"),
            _ => None,
        }
    }
}

/// One member of a select list.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*`
    Wildcard,
    /// `t.*`, `d.t.*`
    TableWildcard {
        /// Schema.
        schema: Option<Ident>,
        /// Table or alias.
        table: Ident,
    },
    /// `expr [AS alias]`
    Expr {
        /// Expression.
        expr: Expr,
        /// Alias.
        alias: Option<Ident>,
        /// The column's name when there is no alias and it is no column reference: the source text,
        /// or a literal's own text.
        text: Box<str>,
    },
}

/// `expr [ASC|DESC]`.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    /// Key. An integer literal here is a select-list position.
    pub expr: Expr,
    /// DESC.
    pub desc: bool,
}

/// LIMIT: literals, parameters or (in stored programs) variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Number of rows.
    pub count: Expr,
    /// Rows to skip.
    pub offset: Option<Expr>,
}

/// A locking clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locking {
    /// FOR SHARE or LOCK IN SHARE MODE rather than FOR UPDATE.
    pub share: bool,
    /// OF: tables or aliases; empty is all.
    pub of: Vec<ObjectName>,
    /// What to do when a row is locked.
    pub wait: LockWait,
}

/// What to do when a lock is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Wait as the session's timeout says.
    #[default]
    Default,
    /// NOWAIT.
    NoWait,
    /// SKIP LOCKED.
    SkipLocked,
    /// WAIT n (seconds).
    Seconds(u64),
}

/// INTO.
#[derive(Debug, Clone, PartialEq)]
pub enum Into {
    /// `@a, @b`, or variables of a stored program.
    Vars(Vec<Target>),
    /// OUTFILE.
    Outfile {
        /// Path.
        path: Vec<u8>,
        /// CHARACTER SET.
        charset: Option<Box<str>>,
        /// FIELDS and LINES.
        format: FileFormat,
    },
    /// DUMPFILE.
    Dumpfile(Vec<u8>),
}

/// FIELDS and LINES of LOAD DATA and OUTFILE, MySQL's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFormat {
    /// FIELDS TERMINATED BY.
    pub fields_terminated: Vec<u8>,
    /// ENCLOSED BY.
    pub enclosed: Vec<u8>,
    /// OPTIONALLY ENCLOSED BY.
    pub optionally: bool,
    /// ESCAPED BY.
    pub escaped: Vec<u8>,
    /// LINES STARTING BY.
    pub lines_starting: Vec<u8>,
    /// LINES TERMINATED BY.
    pub lines_terminated: Vec<u8>,
}

impl Default for FileFormat {
    fn default() -> Self {
        Self {
            fields_terminated: b"\t".to_vec(),
            enclosed: Vec::new(),
            optionally: false,
            escaped: b"\\".to_vec(),
            lines_starting: Vec::new(),
            lines_terminated: b"\n".to_vec(),
        }
    }
}

/// An entry of FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRef {
    /// A named table or view.
    Table(Box<NamedTable>),
    /// `(SELECT …) AS x [(columns)]`.
    Derived {
        /// LATERAL.
        lateral: bool,
        /// Query.
        query: Box<Query>,
        /// Alias (required by MySQL).
        alias: Ident,
        /// Column names; empty when not given.
        columns: Vec<Ident>,
    },
    /// `JSON_TABLE(doc, 'path' COLUMNS (…)) AS x`.
    Json {
        /// Document.
        doc: Box<Expr>,
        /// Rows and columns.
        rows: Box<JsonColumns>,
        /// Alias.
        alias: Ident,
    },
    /// Two tables joined.
    Join(Box<Join>),
    /// `(t1, t2)`: a cross product in parentheses; one member is a join in parentheses that must stay
    /// together.
    List(Vec<TableRef>),
}

/// A table by name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTable {
    /// Name.
    pub name: ObjectName,
    /// PARTITION (…).
    pub partitions: Vec<Ident>,
    /// Alias.
    pub alias: Option<Ident>,
    /// USE, FORCE, IGNORE INDEX.
    pub hints: Vec<IndexHint>,
}

/// An index hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHint {
    /// USE, FORCE or IGNORE.
    pub kind: IndexHintKind,
    /// FOR JOIN, ORDER BY or GROUP BY.
    pub scope: Option<IndexHintScope>,
    /// Index names; empty is allowed for USE.
    pub indexes: Vec<Ident>,
}

/// Kinds of index hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHintKind {
    /// USE INDEX.
    Use,
    /// FORCE INDEX.
    Force,
    /// IGNORE INDEX.
    Ignore,
}

/// What an index hint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHintScope {
    /// FOR JOIN.
    Join,
    /// FOR ORDER BY.
    OrderBy,
    /// FOR GROUP BY.
    GroupBy,
}

/// Two tables joined.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Left operand.
    pub left: TableRef,
    /// Right operand.
    pub right: TableRef,
    /// Kind.
    pub kind: JoinKind,
    /// NATURAL.
    pub natural: bool,
    /// ON or USING.
    pub on: Option<JoinOn>,
}

/// Join kinds; CROSS is INNER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// INNER, CROSS.
    Inner,
    /// STRAIGHT_JOIN: inner, left table first.
    Straight,
    /// LEFT.
    Left,
    /// RIGHT.
    Right,
}

/// Join condition.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinOn {
    /// ON.
    On(Expr),
    /// USING.
    Using(Vec<Ident>),
}
