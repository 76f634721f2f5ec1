//! DROP SERVER.
//!
//! Neighbours: `utility` runs it. **Invariant**: there are no foreign servers, for no storage engine would use one;
//! CREATE SERVER says so, and programs that drop one before they do without it go on.

use esker_sql_catalog::exec_error::ExecError;
use esker_types::errors;

use super::SessionContext;
use super::run::{Done, ok};

impl SessionContext {
    /// DROP SERVER.
    ///
    /// # Errors
    /// 1227; 1477 without IF EXISTS.
    pub(super) fn drop_server(&self, if_exists: bool, name: &str) -> Result<Done, ExecError> {
        self.require("SUPER")?;
        match if_exists {
            // MySQL counts one row, whether there was one or not.
            true => Ok(ok(1)),
            false => Err(errors::no_foreign_server(name).into()),
        }
    }
}
