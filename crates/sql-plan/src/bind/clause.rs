//! The clause of a statement in which an expression stands.
//!
//! Neighbours: `scope` keeps the one that is being bound; errors name it, and some rules depend on it.
//! **Invariant**: the names are MySQL's, as its messages have them.

/// One of a query's clauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// The select list, and whatever is no query.
    FieldList,
    /// WHERE.
    Where,
    /// ON of a join.
    On,
    /// GROUP BY.
    Group,
    /// HAVING.
    Having,
    /// ORDER BY.
    Order,
    /// ORDER BY of a set operation.
    GlobalOrder,
    /// PARTITION BY of a window.
    WindowPartition,
    /// ORDER BY of a window.
    WindowOrder,
    /// The document of a JSON_TABLE.
    TableFunction,
}

impl Clause {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FieldList => "field list",
            Self::Where => "where clause",
            Self::On => "on clause",
            Self::Group => "group statement",
            Self::Having => "having clause",
            Self::Order | Self::GlobalOrder => "order clause",
            Self::WindowPartition => "window partition by",
            Self::WindowOrder => "window order by",
            Self::TableFunction => "a table function argument",
        }
    }

    /// Does it decide about rows, rather than give values?
    pub fn is_condition(self) -> bool {
        matches!(self, Self::Where | Self::On | Self::Having)
    }
}
