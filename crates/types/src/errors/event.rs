//! Errors of events and of their scheduler.
//!
//! Neighbours: the session finds those of CREATE and ALTER EVENT, the parser 1576.
//! **Invariant**: in the order of the numbers; texts are those of MySQL 8.4.

use std::fmt::Display;

use crate::error::SqlError;

/// 1537
pub fn event_exists(name: impl Display) -> SqlError {
    SqlError::new(1537, "HY000", format!("Event '{name}' already exists"))
}

/// 1539
pub fn unknown_event(name: impl Display) -> SqlError {
    SqlError::new(1539, "HY000", format!("Unknown event '{name}'"))
}

/// 1542
pub fn bad_event_interval() -> SqlError {
    let text = "INTERVAL is either not positive or too big";
    SqlError::new(1542, "HY000", text)
}

/// 1543
pub fn ends_before_starts() -> SqlError {
    let text = "ENDS is either invalid or before STARTS";
    SqlError::new(1543, "HY000", text)
}

/// 1544
pub fn event_time_passed() -> SqlError {
    let text = "Event execution time is in the past. Event has been disabled";
    SqlError::new(1544, "HY000", text)
}

/// 1551
pub fn same_event_name() -> SqlError {
    SqlError::new(1551, "HY000", "Same old and new event name")
}

/// 1576
pub fn event_in_body() -> SqlError {
    let text = "Recursion of EVENT DDL statements is forbidden when body is present";
    SqlError::new(1576, "HY000", text)
}

/// 1588
pub fn event_never_due() -> SqlError {
    let text = "Event execution time is in the past and ON COMPLETION NOT PRESERVE is set. The event was dropped \
                immediately after creation.";
    SqlError::new(1588, "HY000", text)
}

/// 1589
pub fn event_not_altered() -> SqlError {
    let text = "Event execution time is in the past and ON COMPLETION NOT PRESERVE is set. The event was not changed. \
                Specify a time in the future.";
    SqlError::new(1589, "HY000", text)
}
