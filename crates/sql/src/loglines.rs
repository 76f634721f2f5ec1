//! Lines of the server's log that clients cause: a bound on how many there are, and words of clients on one line.
//!
//! Neighbours: `session::kill` tells of sessions that end others, `infoschema::deadlocks` of deadlocks; the server of
//! refused logins.
//! **Invariants**: at most [`MOST_LINES`] lines a second of each kind, however often clients do it, and none is
//! forgotten: what was left out is counted in a later line. Words of clients cannot look like lines of the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most lines within [`WINDOW`].
const MOST_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// Lines of one kind that were written lately.
#[derive(Debug, Default)]
pub struct LineLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Begin of the window.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LineLimit {
    /// May a line be written? Then how many were left out since the last one.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        if state
            .since
            .is_none_or(|since| now.duration_since(since) >= WINDOW)
        {
            (state.since, state.lines) = (Some(now), 0);
        }
        debug_assert!(state.lines <= MOST_LINES);
        if state.lines == MOST_LINES {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

/// A text with a client's words in it, so that it cannot look like other lines; quotes stay as they are.
pub fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' => line.push(character),
            _ => line.extend(character.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_written() {
        let limit = LineLimit::default();
        let begin = Instant::now();
        let told: Vec<_> = (0..100).filter_map(|_| limit.admit(begin)).collect();
        assert_eq!(told, [0; MOST_LINES as usize]);
        assert_eq!(limit.admit(begin + WINDOW), Some(90));
        assert_eq!(limit.admit(begin + WINDOW), Some(0));
    }

    #[test]
    fn a_clients_words_make_no_lines() {
        let told = on_one_line("Access denied for user 'a\n2026 INFO \u{1b}[2J\\'@\"h\"");
        assert_eq!(
            told,
            r#"Access denied for user 'a\n2026 INFO \u{1b}[2J\\'@"h""#
        );
    }
}
