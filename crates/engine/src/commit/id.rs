//! Identifiers of prepared transactions: who coordinates them, and what the coordinator calls them.
//!
//! Neighbours: `record` writes them to the log, `txn::prepared` keeps what waits under them; the layer above gives
//! bytes a meaning.
//!
//! **Invariants**
//! - Identifiers of one namespace never meet those of another, whatever their bytes.
//! - An identifier has 1 to [`MAX_ID_BYTES`] bytes.

use std::fmt;

/// Longest identifier of a prepared transaction.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// Whose two-phase commit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Namespace {
    /// The layer above coordinates: it decides by itself, also after a restart.
    Internal = 0,
    /// A client coordinates, by X/Open XA: it is there until the client decides.
    Xa = 1,
}

impl Namespace {
    pub(super) fn from_code(code: u8) -> Option<Namespace> {
        match code {
            0 => Some(Namespace::Internal),
            1 => Some(Namespace::Xa),
            _ => None,
        }
    }
}

/// Names a prepared transaction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreparedId {
    namespace: Namespace,
    bytes: Box<[u8]>,
}

impl PreparedId {
    /// # Panics
    /// If there are no bytes, or more than 256.
    pub fn new(namespace: Namespace, bytes: &[u8]) -> PreparedId {
        assert!(
            (1..=MAX_ID_BYTES).contains(&bytes.len()),
            "an identifier has 1 to {MAX_ID_BYTES} bytes"
        );
        PreparedId {
            namespace,
            bytes: bytes.into(),
        }
    }

    /// One that a client has chosen; panics as [`PreparedId::new`].
    pub fn xa(bytes: &[u8]) -> PreparedId {
        Self::new(Namespace::Xa, bytes)
    }

    /// One that the layer above has chosen; panics as [`PreparedId::new`].
    pub fn internal(bytes: &[u8]) -> PreparedId {
        Self::new(Namespace::Internal, bytes)
    }

    /// Whose two-phase commit it is.
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// What its coordinator calls it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for PreparedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:02x?}", self.namespace, self.bytes)
    }
}
