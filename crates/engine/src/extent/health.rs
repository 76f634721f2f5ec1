//! Storage health: whether what lies below the trees can still be trusted after a failed sync.
//!
//! Neighbours: `extent::space` and `tree::manifest` report failed syncs here; everything that writes asks first.
//!
//! **Invariants**
//! - The first failure wins, is reported once, and is never forgotten: a sync is not repeated.

use std::sync::{Arc, OnceLock};

use crate::{EngineError, Result};

/// Called once with the reason when the engine must stop.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// The state of health.
pub(crate) struct Health {
    reason: OnceLock<Arc<str>>,
    on_fatal: OnFatal,
}

impl Health {
    pub(crate) fn new(on_fatal: OnFatal) -> Arc<Self> {
        Arc::new(Health {
            reason: OnceLock::new(),
            on_fatal,
        })
    }

    /// Refuses once a failure was reported.
    pub(crate) fn check(&self) -> Result<()> {
        match self.reason.get() {
            None => Ok(()),
            Some(reason) => Err(EngineError::Stopped(Arc::clone(reason))),
        }
    }

    /// Reports a failure after which nothing may be written any more.
    pub(crate) fn stop(&self, reason: String) -> EngineError {
        let reason: Arc<str> = reason.into();
        if self.reason.set(Arc::clone(&reason)).is_ok() {
            tracing::error!(%reason, "storage failure, the engine stops");
            (self.on_fatal)(&reason);
        }
        EngineError::Stopped(reason)
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Self> {
        Health::new(Arc::new(|_| ()))
    }
}
