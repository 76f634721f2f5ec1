//! Conditions: what a diagnostics area keeps of one besides its number and its text.
//!
//! Neighbours: SIGNAL makes them, errors and warnings carry them, handlers and GET DIAGNOSTICS read them.
//! **Invariant**: an SQLSTATE is five digits or capital letters.

/// An SQLSTATE.
pub type SqlState = [u8; 5];

/// What a condition says besides its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the items are their own documentation")]
pub enum ConditionItem {
    ClassOrigin,
    SubclassOrigin,
    ConstraintCatalog,
    ConstraintSchema,
    ConstraintName,
    CatalogName,
    SchemaName,
    TableName,
    ColumnName,
    CursorName,
    MessageText,
    MysqlErrno,
    /// GET DIAGNOSTICS only.
    ReturnedSqlstate,
}

impl ConditionItem {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ClassOrigin,
        Self::SubclassOrigin,
        Self::ConstraintCatalog,
        Self::ConstraintSchema,
        Self::ConstraintName,
        Self::CatalogName,
        Self::SchemaName,
        Self::TableName,
        Self::ColumnName,
        Self::CursorName,
        Self::MessageText,
        Self::MysqlErrno,
        Self::ReturnedSqlstate,
    ];

    /// As MySQL writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClassOrigin => "CLASS_ORIGIN",
            Self::SubclassOrigin => "SUBCLASS_ORIGIN",
            Self::ConstraintCatalog => "CONSTRAINT_CATALOG",
            Self::ConstraintSchema => "CONSTRAINT_SCHEMA",
            Self::ConstraintName => "CONSTRAINT_NAME",
            Self::CatalogName => "CATALOG_NAME",
            Self::SchemaName => "SCHEMA_NAME",
            Self::TableName => "TABLE_NAME",
            Self::ColumnName => "COLUMN_NAME",
            Self::CursorName => "CURSOR_NAME",
            Self::MessageText => "MESSAGE_TEXT",
            Self::MysqlErrno => "MYSQL_ERRNO",
            Self::ReturnedSqlstate => "RETURNED_SQLSTATE",
        }
    }
}

/// What a condition carries besides number and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its SQLSTATE.
    pub state: SqlState,
    /// SIGNAL has made it.
    pub signalled: bool,
    /// Items that SIGNAL has set.
    pub items: Vec<(ConditionItem, String)>,
}

impl Condition {
    /// One with nothing but its SQLSTATE.
    pub fn of(state: &str) -> Self {
        Self {
            state: state.as_bytes().try_into().unwrap_or(*b"HY000"),
            signalled: false,
            items: Vec::new(),
        }
    }

    /// The SQLSTATE as text.
    pub fn state(&self) -> &str {
        std::str::from_utf8(&self.state).unwrap_or("HY000")
    }

    /// An item that SIGNAL has set.
    pub fn item(&self, item: ConditionItem) -> Option<&str> {
        let found = self.items.iter().find(|(known, _)| *known == item);
        found.map(|(_, text)| &**text)
    }
}
