//! The file of a client for LOAD DATA LOCAL.
//!
//! Neighbours: `dispatch` comes here when the session wants a file ([`esker_sql::Step::NeedFile`]); the session reads
//! it as an [`esker_sql::FileSource`].
//!
//! The server sends `0xFB` and the name; the client answers with packets of the file and an empty one at its end.
//! **Invariants**
//! - The client cannot be stopped: whatever becomes of the statement, its packets are read up to the empty one, and
//!   only then it is answered.
//! - One packet is in memory at a time, of at most `max_allowed_packet` bytes.
//! - A client that is silent for longer than `net_read_timeout` in the middle of its file is gone.

use std::time::{Duration, Instant};

use esker_sql::{FileSource, Outcome, Session};
use esker_types::{SqlError, SqlResult};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::connection::{Connection, Gone};

/// First byte of the request.
const REQUEST: u8 = 0xfb;
/// How often a session that waits for its client looks whether it was killed.
const KILL_LOOK: Duration = Duration::from_millis(100);

/// Asks the client for its file, runs the statement with it, and reads what is left of the file.
pub(crate) async fn serve(
    conn: &mut Connection,
    session: &mut Session,
    name: &[u8],
) -> Result<Outcome, Gone> {
    let request = conn.frames.begin();
    request.push(REQUEST);
    request.extend_from_slice(name);
    conn.frames.end();
    conn.flush().await?;
    let limit = session.max_allowed_packet();
    let patience = session.net_read_timeout();
    let mut upload = Upload {
        conn,
        limit,
        patience,
        runtime: Handle::current(),
        state: State::Sending,
    };
    let outcome = tokio::task::block_in_place(|| session.feed(&mut upload));
    upload.drain().await?;
    Ok(outcome)
}

/// How far the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Packets follow.
    Sending,
    /// The empty packet was there.
    Sent,
    /// The connection is of no more use.
    Broken,
}

/// A file that comes in packets.
struct Upload<'a> {
    conn: &'a mut Connection,
    limit: usize,
    patience: Duration,
    runtime: Handle,
    state: State,
}

impl FileSource for Upload<'_> {
    fn read(
        &mut self,
        piece: &mut Vec<u8>,
        check_killed: &dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<()> {
        let mut heard = Instant::now();
        while self.state == State::Sending {
            match self.conn.take_packet(self.limit, piece) {
                Ok(true) if piece.is_empty() => self.state = State::Sent,
                Ok(true) => return Ok(()),
                Ok(false) => {
                    check_killed()?;
                    let receive = timeout(KILL_LOOK, self.conn.receive());
                    match self.runtime.block_on(receive) {
                        Ok(Ok(())) => heard = Instant::now(),
                        Err(_) if heard.elapsed() < self.patience => (),
                        Ok(Err(Gone)) | Err(_) => self.state = State::Broken,
                    }
                }
                Err(e) => {
                    self.state = State::Broken;
                    // It is told what it did wrong if it still listens.
                    let _ = self.runtime.block_on(self.conn.protocol_error::<()>(&e));
                }
            }
        }
        match self.state {
            State::Broken => {
                let text = "Got an error reading communication packets";
                Err(SqlError::new(1158, "08S01", text))
            }
            State::Sending | State::Sent => Ok(()),
        }
    }
}

impl Upload<'_> {
    /// Reads up to the empty packet.
    async fn drain(&mut self) -> Result<(), Gone> {
        let mut rest = Vec::new();
        while self.state == State::Sending {
            rest.clear();
            match self.conn.take_packet(self.limit, &mut rest) {
                Ok(true) if rest.is_empty() => self.state = State::Sent,
                Ok(true) => (),
                Ok(false) => timeout(self.patience, self.conn.receive()).await??,
                Err(e) => return self.conn.protocol_error(&e).await,
            }
        }
        match self.state {
            State::Broken => Err(Gone),
            State::Sending | State::Sent => Ok(()),
        }
    }
}
