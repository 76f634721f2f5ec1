//! Memory by what it is used for.
//!
//! Neighbours: the engine's budget counts (`infoschema.ESKER_MEMORY` shows the same with limits).
//! **Invariant**: what is used now and the most that was used are known; how often something was allocated is not, and
//! those figures equal the present.

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, storage, text};

pub(super) static SOURCES: &[Source] = &[Source::new(
    "memory_summary_global_by_event_name",
    &[
        "EVENT_NAME",
        "COUNT_ALLOC",
        "SUM_NUMBER_OF_BYTES_ALLOC",
        "CURRENT_COUNT_USED",
        "HIGH_COUNT_USED",
        "CURRENT_NUMBER_OF_BYTES_USED",
        "HIGH_NUMBER_OF_BYTES_USED",
    ],
    by_event,
)
.of_the_moment()];

fn by_event(viewer: &Viewer) -> Vec<Vec<Value>> {
    let areas = storage::memory_areas(viewer).into_iter();
    areas
        .map(|(area, bytes)| {
            let used = i64::from(bytes.now > 0);
            let ever = i64::from(bytes.peak > 0);
            vec![
                text(format!("memory/esker/{}", area.replace([' ', ','], "_"))),
                Value::Int(used),
                Value::UInt(bytes.now),
                Value::Int(used),
                Value::Int(ever),
                Value::UInt(bytes.now),
                Value::UInt(bytes.peak),
            ]
        })
        .collect()
}
