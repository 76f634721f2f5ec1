//! A viewer as a client of the server, over a socket pair inside the process.
//!
//! Neighbours: `connection` serves the other end as it serves everybody: login, privileges, limits and delays after
//! wrong passwords are the same; [`super`] has the viewer's name from HTTP.
//! **Invariants**: a viewer's connection ends with the request; nobody is let in without a password because the server
//! itself is at the other end of the pair (auth_socket).

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::http::Credentials;
use crate::client::{Client, ClientError, QueryResult};
use crate::listener::{self, Shared};
use crate::seats::Door;
use crate::socket::{Peer, Socket};

/// Too many connections.
const NO_SEAT: u16 = 1040;

/// Why there is no answer.
pub(super) enum Refused {
    /// Not with this user and password.
    Login,
    /// The server cannot answer now.
    Busy(String),
}

impl From<ClientError> for Refused {
    fn from(e: ClientError) -> Self {
        match e {
            ClientError::Server(e) if e.state == "28000" => Self::Login,
            e => Self::Busy(e.to_string()),
        }
    }
}

/// Names of columns and rows of texts.
#[derive(Default)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Option<String>>>,
}

/// Somebody who has logged in.
pub(super) struct Viewer(Client);

/// Logs a viewer in; through the door of administrators if there is no seat. On a thread of the runtime that may block.
pub(super) fn enter(shared: &Arc<Shared>, peer: Peer, who: Credentials) -> Result<Viewer, Refused> {
    match enter_by(shared, peer, &who, Door::Main) {
        Err(ClientError::Server(e)) if e.code == NO_SEAT => {
            Ok(enter_by(shared, peer, &who, Door::Admin).map(Viewer)?)
        }
        entered => Ok(entered.map(Viewer)?),
    }
}

fn enter_by(
    shared: &Arc<Shared>,
    peer: Peer,
    who: &Credentials,
    door: Door,
) -> Result<Client, ClientError> {
    let (ours, theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let theirs = tokio::net::UnixStream::from_std(theirs)?;
    listener::spawn(shared, Socket::Inside(theirs, peer.ip()), peer, door);
    Client::over(ours, &who.user, &who.password)
}

impl Viewer {
    /// The rows of one statement.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Table, ClientError> {
        let mut table = Table::default();
        self.0.query(sql, &mut |result| {
            if let QueryResult::Rows { columns, rows, .. } = result {
                table.columns = columns.into_iter().map(|column| column.0).collect();
                let text = |cell: Vec<u8>| String::from_utf8_lossy(&cell).into_owned();
                let row =
                    |row: Vec<Option<Vec<u8>>>| row.into_iter().map(|c| c.map(text)).collect();
                table.rows = rows.into_iter().map(row).collect();
            }
        })?;
        Ok(table)
    }
}
