//! PROFILING: the stages of the last statements of the session that looks.
//!
//! Neighbours: `session::profiles` keeps them for SHOW PROFILE as well; `source` asks by table name.
//! **Invariant**: a session sees its own statements only.

use esker_types::Value;

use super::source::Source;
use super::{Viewer, text};
use crate::session::seconds;

pub(super) static SOURCES: &[Source] = &[Source::new(
    "PROFILING",
    &["QUERY_ID", "SEQ", "STATE", "DURATION"],
    stages,
)];

fn stages(viewer: &Viewer) -> Vec<Vec<Value>> {
    let stages = viewer.session.iter().flat_map(|session| &session.stages);
    let row = |(query, stage, state, micros): &(u64, u64, &str, u64)| {
        vec![
            Value::UInt(*query),
            Value::UInt(*stage),
            text(state),
            seconds(*micros),
        ]
    };
    stages.map(row).collect()
}
