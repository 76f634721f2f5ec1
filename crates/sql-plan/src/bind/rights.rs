//! Who may do what with a table that a statement names, as far as binding has to know.
//!
//! Neighbours: the session answers through [`Names`](super::Names); `scope` asks when a column is read, `select` when
//! rows are locked.
//! **Invariant**: a table without [`Restricted`] may be read and locked whole, so the common case costs nothing.

use std::rc::Rc;

use super::errors;
use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::same_name;
use esker_types::{SqlError, SqlResult};

/// What a statement does with a table that it names: decides the privileges it wants there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Reads it.
    Read,
    /// INSERT, LOAD DATA.
    Insert,
    /// INSERT … ON DUPLICATE KEY UPDATE.
    InsertOrUpdate,
    /// REPLACE, LOAD DATA … REPLACE.
    Replace,
    /// UPDATE of this table alone.
    Update,
    /// UPDATE of several tables, of which this may be one that is only read.
    UpdateOrRead,
    /// DELETE.
    Delete,
    /// DELETE from some of several tables, of which this is read at least.
    DeleteJoined,
    /// A table inside of a view that such a DELETE names: rows are read or deleted.
    DeleteOrRead,
}

impl Need {
    /// What has to be there; for the privileges on columns, one column is enough so far.
    pub fn privileges(self) -> Privileges {
        Privileges::of(match self {
            Self::Read | Self::UpdateOrRead | Self::DeleteJoined | Self::DeleteOrRead => {
                &["SELECT"]
            }
            Self::Insert => &["INSERT"],
            Self::InsertOrUpdate => &["INSERT", "UPDATE"],
            Self::Replace => &["INSERT", "DELETE"],
            Self::Update => &["UPDATE"],
            Self::Delete => &["DELETE"],
        })
    }

    /// Is the table locked for writing, whether rows of it are changed or not?
    pub fn writes(self) -> bool {
        match self {
            Self::Read | Self::DeleteJoined | Self::DeleteOrRead => false,
            Self::Insert
            | Self::InsertOrUpdate
            | Self::Replace
            | Self::Update
            | Self::UpdateOrRead
            | Self::Delete => true,
        }
    }

    /// Is the table only read, unless more is asked for it?
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::DeleteJoined | Self::DeleteOrRead)
    }

    /// What is enough in place of [`Self::privileges`].
    pub fn alternative(self) -> Option<Privileges> {
        match self {
            Self::UpdateOrRead => Some(Privileges::of(&["UPDATE"])),
            Self::DeleteOrRead => Some(Privileges::of(&["DELETE"])),
            _ => None,
        }
    }

    /// What the statement does with the tables of a view that becomes part of its block. As in MySQL they are not read
    /// by that alone; columns that are read are asked for one by one.
    pub(super) fn inside_view(self, is_join: bool) -> Self {
        match self {
            Self::Update if is_join => Self::UpdateOrRead,
            Self::DeleteJoined => Self::DeleteOrRead,
            need => need,
        }
    }
}

/// A table that may not be read whole, or whose rows may not be locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restricted {
    /// Whose rights these are: user and host, as errors name them.
    pub who: (Box<str>, Box<str>),
    /// The table.
    pub table: Box<str>,
    /// Columns that may be read; None: all.
    pub readable: Option<Vec<Box<str>>>,
    /// FOR UPDATE is allowed.
    pub may_lock: bool,
    /// Columns of a view that are made of columns which may not be read inside of it, and the error.
    pub hidden: Vec<(Box<str>, SqlError)>,
}

impl Restricted {
    /// A view whose `hidden` columns may not be read; `own` is what may not be done with the view itself.
    pub fn by_view(
        own: Option<Rc<Self>>,
        view: &str,
        hidden: Vec<(Box<str>, SqlError)>,
    ) -> Option<Rc<Self>> {
        if hidden.is_empty() {
            return own;
        }
        let restricted = match own {
            Some(own) => Self {
                hidden,
                ..Self::clone(&own)
            },
            None => Self {
                who: Default::default(),
                table: view.into(),
                readable: None,
                may_lock: true,
                hidden,
            },
        };
        Some(Rc::new(restricted))
    }

    fn check_hidden(&self, column: &str) -> SqlResult<()> {
        match self.hidden.iter().find(|(name, _)| same_name(name, column)) {
            Some((_, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn denied(&self, command: &str) -> SqlError {
        let ((user, host), table) = (&self.who, &self.table);
        errors::table_denied(command, user, host, table)
    }

    fn is_readable(&self, column: &str) -> bool {
        let readable = self.readable.as_ref();
        readable.is_none_or(|list| list.iter().any(|c| same_name(c, column)))
    }

    /// A column is read.
    ///
    /// # Errors
    /// 1143.
    pub(super) fn read(&self, column: &str) -> SqlResult<()> {
        if self.is_readable(column) {
            return self.check_hidden(column);
        }
        Err(column_denied("SELECT", &self.who, column, &self.table))
    }

    /// A column is read because of a `*`.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn read_as_star(&self, column: &str) -> SqlResult<()> {
        match self.is_readable(column) {
            true => self.check_hidden(column),
            false => Err(self.denied("SELECT")),
        }
    }

    /// Rows are read FOR UPDATE.
    ///
    /// # Errors
    /// 1142.
    pub(super) fn lock(&self) -> SqlResult<()> {
        match self.may_lock {
            true => Ok(()),
            false => Err(self.denied("SELECT with locking clause")),
        }
    }
}

/// 1143.
pub fn column_denied(
    command: &str,
    who: &(Box<str>, Box<str>),
    column: &str,
    table: &str,
) -> SqlError {
    let (user, host) = who;
    let text = format!(
        "{command} command denied to user '{user}'@'{host}' for column '{column}' in table '{table}'"
    );
    SqlError::new(1143, "42000", text)
}
