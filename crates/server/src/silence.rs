//! The limit of a client's silence, without a timer per command.
//!
//! Neighbours: `connection` waits for commands with it.
//! Setting and clearing a timer takes the lock of the runtime's timer wheel twice per command, for
//! limits of hours that nearly never run out. Here one timer per connection is left where it is as
//! long as it does not ring too late; when it rings too early it is moved to where it belongs.
//!
//! **Invariant**: the timer rings at or before the end of every silence that is being waited for.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The client said nothing for as long as it may.
#[derive(Debug)]
pub(crate) struct TooLong;

/// One connection's timer.
pub(crate) struct Silence {
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    /// A timer that nobody waits for yet.
    pub(crate) fn new() -> Self {
        Self {
            timer: Box::pin(sleep_until(Instant::now())),
        }
    }

    /// Waits for `speech`, at most for `limit`.
    pub(crate) async fn at_most<T>(
        &mut self,
        limit: Duration,
        speech: impl Future<Output = T>,
    ) -> Result<T, TooLong> {
        let end = Instant::now() + limit;
        if self.timer.is_elapsed() || self.timer.deadline() > end {
            self.timer.as_mut().reset(end);
        }
        let mut speech = std::pin::pin!(speech);
        loop {
            tokio::select! {
                biased;
                said = &mut speech => return Ok(said),
                () = self.timer.as_mut() => (),
            }
            if Instant::now() >= end {
                return Err(TooLong);
            }
            self.timer.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short and long limits after each other: each ends when it should, and speech ends any.
    #[tokio::test(start_paused = true)]
    async fn every_silence_has_its_own_limit() {
        let mut silence = Silence::new();
        let start = Instant::now();
        let hour = Duration::from_secs(3600);
        let second = Duration::from_secs(1);
        let heard = silence.at_most(hour, tokio::time::sleep(second)).await;
        assert!(heard.is_ok());
        assert_eq!(start.elapsed(), second);
        let unheard = silence.at_most(second, std::future::pending::<()>()).await;
        assert!(unheard.is_err());
        assert_eq!(start.elapsed(), 2 * second);
        // The timer still stands at an earlier time than this silence may last.
        assert!(silence.at_most(second, async {}).await.is_ok());
        let unheard = silence.at_most(hour, std::future::pending::<()>()).await;
        assert!(unheard.is_err());
        assert_eq!(start.elapsed(), 2 * second + hour);
    }
}
