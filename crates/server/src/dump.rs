//! Sending the binary log to a consumer.
//!
//! Neighbours: `dispatch` hands over the stream that `esker_sql` has begun; `connection` ends this where the server
//! stops or the session is killed. **Invariants**: what has gathered is sent before more is read, so a slow consumer
//! costs its socket's buffer and [`ENOUGH`], and stops nobody; a consumer that hangs up ends its stream at once.

use std::time::Duration;

use esker_sql::Session;
use esker_sql::binlog::{Dump, DumpStep, PacketSink};
use esker_types::SqlError;
use esker_wire::frame::FrameWriter;
use tokio::time::{Instant, sleep_until};

use crate::connection::{Connection, Gone, Said};
use crate::reply;

/// Bytes that are sent at a time.
const ENOUGH: usize = 256 << 10;
/// The period of heartbeats that a consumer has not asked for.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// What gathers in the connection's buffer.
struct Packets<'a>(&'a mut FrameWriter);

impl PacketSink for Packets<'_> {
    fn begin(&mut self, bytes: usize) {
        self.0.begin_sized(bytes);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.put(bytes);
    }

    fn asked(&mut self) {
        self.0.set_seq(1);
    }

    fn gathered(&self) -> usize {
        self.0.bytes().len()
    }
}

/// Sends until the log ends, if it is to end there, or something goes wrong.
pub(crate) async fn serve(
    conn: &mut Connection,
    session: &mut Session,
    mut dump: Box<Dump>,
) -> Result<(), Gone> {
    let ended = stream(conn, session, &mut dump).await;
    drop(dump);
    session.end_dump();
    match ended? {
        _ if conn.frames.is_unfinished() => return Err(Gone),
        None => reply::eof(conn, session, 0),
        Some(e) => reply::error(conn, session, &e),
    }
    Ok(())
}

/// The error it ended with, if there was one.
async fn stream(
    conn: &mut Connection,
    session: &mut Session,
    dump: &mut Dump,
) -> Result<Option<SqlError>, Gone> {
    let mut silent_since = Instant::now();
    loop {
        let filled = {
            let mut packets = Packets(&mut conn.frames);
            tokio::task::block_in_place(|| dump.fill(&mut packets, ENOUGH))
        };
        let step = match filled {
            Ok(step) => step,
            Err(e) => return Ok(Some(e)),
        };
        if step == DumpStep::Cut {
            return Err(Gone);
        }
        if !conn.frames.bytes().is_empty() {
            conn.flush().await?;
            conn.count_sent(session);
            silent_since = Instant::now();
        }
        match step {
            DumpStep::End | DumpStep::Cut => return Ok(None),
            // Acknowledgements that have come meanwhile.
            DumpStep::Send => {
                let received = tokio::select! {
                    biased;
                    received = conn.receive() => Some(received),
                    () = std::future::ready(()) => None,
                };
                if let Some(received) = received {
                    received?;
                    listen(conn, dump).await?;
                }
            }
            DumpStep::Wait => wait(conn, dump, &mut silent_since).await?,
        }
    }
}

/// Takes what the consumer has said.
async fn listen(conn: &mut Connection, dump: &Dump) -> Result<(), Gone> {
    loop {
        match conn.said().await? {
            Said::Nothing => return Ok(()),
            Said::Acknowledged(file, position) => {
                tokio::task::block_in_place(|| dump.acknowledge(&file, position));
            }
            Said::Leaves => return Err(Gone),
            Said::Other => {}
        }
    }
}

/// Waits until there is more, with heartbeats meanwhile.
async fn wait(conn: &mut Connection, dump: &Dump, silent_since: &mut Instant) -> Result<(), Gone> {
    let mut more = std::pin::pin!(dump.more());
    let period = dump.heartbeat().unwrap_or(NEVER);
    let mut heartbeat = std::pin::pin!(sleep_until(*silent_since + period));
    loop {
        tokio::select! {
            () = &mut more => return Ok(()),
            received = conn.receive() => {
                received?;
                listen(conn, dump).await?;
            }
            () = &mut heartbeat => {
                *silent_since = Instant::now();
                heartbeat.as_mut().reset(*silent_since + period);
                if dump.heartbeat().is_some() {
                    dump.put_heartbeat(&mut Packets(&mut conn.frames));
                    conn.flush().await?;
                }
            }
        }
    }
}
