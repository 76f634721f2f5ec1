//! INSTALL COMPONENT and UNINSTALL COMPONENT.
//!
//! Neighbours: `utility` runs them. **Invariant**: nothing is ever loaded. What MySQL has in components is part of this
//! server and always there, so that programs that install it first find what they look for; the statements change
//! nothing, and all other components do not exist.

use esker_sql_catalog::exec_error::ExecError;
use esker_types::{SqlResult, errors};

use super::SessionContext;
use super::run::{Done, ok};

/// What MySQL's components are called whose work this server does.
const BUILT_IN: [&str; 2] = [
    "file://component_query_attributes",
    "file://component_log_sink_json",
];

impl SessionContext {
    /// INSTALL COMPONENT (or UNINSTALL).
    ///
    /// # Errors
    /// 1142; of components that do not exist 3527, 3528, 3529, 3537.
    pub(super) fn components(&self, install: bool, urns: &[Box<str>]) -> Result<Done, ExecError> {
        let privilege = if install { "INSERT" } else { "DELETE" };
        self.require_on(&[privilege], "mysql", "component")?;
        for urn in urns {
            find(install, urn)?;
        }
        Ok(ok(0))
    }
}

fn find(install: bool, urn: &str) -> SqlResult<()> {
    if BUILT_IN.contains(&urn) {
        return Ok(());
    }
    if !install {
        return Err(errors::component_not_loaded(urn));
    }
    match urn.split_once("://") {
        None => Err(errors::no_urn_schema(urn)),
        Some(("file", _)) => Err(errors::cannot_load_component(urn)),
        Some((schema, _)) => Err(errors::unknown_urn_schema(schema, urn)),
    }
}
