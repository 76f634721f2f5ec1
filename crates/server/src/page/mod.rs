//! The admin page and `/metrics`: what a running server does, over HTTP on an address of its own.
//!
//! Neighbours: `http` reads requests and writes responses, `inside` logs the viewer in and asks, `panels` and `metrics`
//! (in the formats of `exposition`) make text of the answers; `listener` starts it. `index.html` is the page: one file
//! that asks for `panels.json` and `details.json`.
//! **Invariants**
//! - Off unless `esker_http_address` is set. A viewer is an account with its password (HTTP Basic), checked by the same
//!   login as every client's, and sees what the account may see. Nothing can be changed from here.
//! - Before the log is read everything is answered with 503 and how far the recovery is.
//! - A viewer needs no free connection if the account may use the door of administrators.
//! - At most [`MAX_VIEWERS`] answers at a time, one a connection, of [`TIMEOUT`].
//! - At most [`MAX_READERS`] connections that have not sent their request yet ([`http::MAX_REQUEST`] bytes,
//!   [`READ_TIMEOUT`]): one more takes the place of the oldest, so silent ones keep nobody out.

mod exposition;
mod http;
mod inside;
mod metrics;
mod panels;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::{Engine, ReplayPhase};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::listener::{ACCEPT_PAUSE, Shared};
use crate::socket::Peer;
use http::{Request, Response};
use inside::Refused;

/// Most answers at a time.
const MAX_VIEWERS: usize = 16;
/// Longest answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections whose request is awaited.
const MAX_READERS: usize = 64;
/// How long a request may take to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How far the server is.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The log is read.
    Recovering(Engine),
    /// Statements run.
    Serving(Arc<Shared>),
}

/// Serves the page until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, stage: watch::Receiver<Stage>) {
    let viewers = Arc::new(Semaphore::new(MAX_VIEWERS));
    let mut readers: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("admin page: accept failed: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        readers.retain(|reader| !reader.is_finished());
        while readers.len() >= MAX_READERS
            && let Some(oldest) = readers.pop_front()
        {
            oldest.abort();
        }
        let stage = stage.borrow().clone();
        let reader = tokio::spawn(read(stream, Peer::Tcp(address), stage, viewers.clone()));
        readers.push_back(reader.abort_handle());
    }
}

/// Waits for the request of a connection. It is answered by a task of its own, which no other connection can end.
async fn read(mut stream: TcpStream, peer: Peer, stage: Stage, viewers: Arc<Semaphore>) {
    match timeout(READ_TIMEOUT, http::read(&mut stream)).await {
        Ok(Ok(request)) => {
            tokio::spawn(respond(stream, peer, stage, request, viewers));
        }
        Ok(Err(_)) | Err(_) => tracing::debug!("admin page: a viewer left or was too slow"),
    }
}

async fn respond(
    mut stream: TcpStream,
    peer: Peer,
    stage: Stage,
    request: Result<Request, Response>,
    viewers: Arc<Semaphore>,
) {
    let is_head = request.as_ref().is_ok_and(|request| request.is_head);
    let served = timeout(TIMEOUT, async {
        let response = match (request, viewers.try_acquire()) {
            (Err(refusal), _) => refusal,
            (Ok(_), Err(_)) => Response::unavailable("too many viewers"),
            (Ok(request), Ok(_permit)) => answer(request, peer, stage).await,
        };
        http::write(&mut stream, &response, is_head).await
    });
    if !matches!(served.await, Ok(Ok(()))) {
        tracing::debug!("admin page: a viewer left or was too slow");
    }
}

async fn answer(request: Request, peer: Peer, stage: Stage) -> Response {
    let shared = match stage {
        Stage::Serving(shared) => shared,
        Stage::Recovering(engine) => return Response::unavailable(&progress(&engine)),
    };
    type Body = fn(&Request, &mut inside::Viewer) -> Result<Response, Refused>;
    let body: Body = match request.path.as_str() {
        "/" => |_, _| Ok(Response::html(include_str!("index.html"))),
        "/panels.json" => |_, viewer| panels::now(viewer),
        "/details.json" => |_, viewer| panels::details(viewer),
        "/metrics" => metrics::respond,
        _ => return Response::not_found(),
    };
    let Some(credentials) = request.credentials.clone() else {
        return Response::login();
    };
    // The login waits for the thread that serves the other end, and a statement may take long.
    let asked = tokio::task::spawn_blocking(move || {
        let mut viewer = inside::enter(&shared, peer, credentials)?;
        body(&request, &mut viewer)
    });
    match asked.await {
        Ok(Ok(response)) => response,
        Ok(Err(Refused::Login)) => Response::login(),
        Ok(Err(Refused::Busy(why))) => Response::unavailable(&why),
        Err(e) => Response::unavailable(&e.to_string()),
    }
}

fn progress(engine: &Engine) -> String {
    let progress = engine.replay();
    match progress.phase {
        ReplayPhase::Failed => "recovery failed; see the server's log".to_owned(),
        _ => format!(
            "recovery: read {} of {} bytes of the log",
            progress.bytes_done, progress.bytes_total
        ),
    }
}
