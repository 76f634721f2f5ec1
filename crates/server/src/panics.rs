//! A line of the log for every panic.
//!
//! Neighbours: `listener` puts the hook in place; a session survives a panic of its statement, and what it tells its
//! client does not say where the defect is: the log does.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};

/// From here on panics go to the log.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or("?".to_owned(), ToString::to_string);
        let said = said(panic.payload());
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("?");
        // Taken if RUST_BACKTRACE asks for it.
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            tracing::error!("panic at {place} in thread {thread}: {said}\n{trace}");
        } else {
            tracing::error!("panic at {place} in thread {thread}: {said}");
        }
    }));
}

fn said(payload: &dyn Any) -> &str {
    match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref::<&str>().copied().unwrap_or("no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_kinds_are_found() {
        let met = |f: fn()| std::panic::catch_unwind(f).expect_err("it panics");
        assert_eq!(said(&*met(|| panic!("plain"))), "plain");
        assert_eq!(said(&*met(|| panic!("number {}", 7))), "number 7");
        assert_eq!(said(&*met(|| std::panic::panic_any(7))), "no text");
    }
}
