//! Refused logins in the server's log.
//!
//! Neighbours: `connection` tells every refusal.
//! **Invariants**: at most [`MOST_LINES`] lines a second, however many guests are refused, and none is forgotten: what
//! was left out is counted in a later line. Names that guests choose are escaped; nothing of a password is written.

use std::time::{Duration, Instant};

use esker_types::SqlError;
use parking_lot::Mutex;

use crate::socket::Peer;

/// Most lines within [`WINDOW`].
const MOST_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// Lines written lately.
#[derive(Default)]
pub(crate) struct Refusals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Begin of the window.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl State {
    /// May a line be written? Then how many were left out since the last one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= WINDOW)
        {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == MOST_LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Refusals {
    /// A client was refused.
    pub(crate) fn tell(&self, peer: Peer, error: &SqlError) {
        let Some(left_out) = self.state.lock().admit(Instant::now()) else {
            return;
        };
        if left_out > 0 {
            tracing::warn!("{left_out} more refused logins are not listed");
        }
        let (code, text) = (error.code, on_one_line(&error.message));
        tracing::warn!("refused a login from {peer}: {text} ({code})");
    }
}

/// A message with a client's words in it, so that it cannot look like other lines; quotes stay as they are.
fn on_one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for character in message.chars() {
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
        let mut state = State::default();
        let begin = Instant::now();
        let told: Vec<_> = (0..100).filter_map(|_| state.admit(begin)).collect();
        assert_eq!(told, [0; MOST_LINES as usize]);
        assert_eq!(state.admit(begin + WINDOW), Some(90));
        assert_eq!(state.admit(begin + WINDOW), Some(0));
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
