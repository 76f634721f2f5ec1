//! The admin page and `/metrics`: what a running server does, over HTTP on an address of its own.
//!
//! Neighbours: `http` reads requests and writes responses, `inside` logs the viewer in and asks, `metrics` and `panels`
//! make text of the answers; `listener` starts it. `index.html` is the page: one file that asks for
//! `panels.json` and `details.json`.
//! **Invariants**
//! - Off unless `esker_http_address` is set. A viewer is an account with its password (HTTP Basic), checked by the same
//!   login as every client's, and sees what the account may see. Nothing can be changed from here.
//! - Before the log is read everything is answered with 503 and how far the recovery is.
//! - A viewer needs no free connection if the account may use the door of administrators.
//! - At most [`MAX_VIEWERS`] connections, one request each, [`http::MAX_REQUEST`] bytes, [`TIMEOUT`].

mod http;
mod inside;
mod metrics;
mod panels;

use std::sync::Arc;
use std::time::Duration;

use esker_engine::{Engine, ReplayPhase};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::listener::{ACCEPT_PAUSE, Shared};
use crate::socket::Peer;
use http::{Request, Response};
use inside::Refused;

/// Most connections at a time.
const MAX_VIEWERS: usize = 16;
/// Longest request, and longest answer.
const TIMEOUT: Duration = Duration::from_secs(10);

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
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                tracing::warn!("admin page: accept failed: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // One too many is hung up on.
        let Ok(permit) = viewers.clone().try_acquire_owned() else {
            continue;
        };
        let stage = stage.borrow().clone();
        tokio::spawn(async move {
            let served = timeout(TIMEOUT, view(stream, Peer::Tcp(address), stage)).await;
            if !matches!(served, Ok(Ok(()))) {
                tracing::debug!("admin page: {address} left or was too slow");
            }
            drop(permit);
        });
    }
}

async fn view(mut stream: TcpStream, peer: Peer, stage: Stage) -> std::io::Result<()> {
    let response = match http::read(&mut stream).await? {
        Ok(request) => answer(request, peer, stage).await,
        Err(refusal) => refusal,
    };
    http::write(&mut stream, &response).await
}

async fn answer(request: Request, peer: Peer, stage: Stage) -> Response {
    let shared = match stage {
        Stage::Serving(shared) => shared,
        Stage::Recovering(engine) => return Response::unavailable(&progress(&engine)),
    };
    let body: fn(&mut inside::Viewer) -> Result<Response, Refused> = match request.path.as_str() {
        "/" => |_| Ok(Response::html(include_str!("index.html"))),
        "/panels.json" => panels::now,
        "/details.json" => panels::details,
        "/metrics" => metrics::respond,
        _ => return Response::not_found(),
    };
    let Some(credentials) = request.credentials else {
        return Response::login();
    };
    // The login waits for the thread that serves the other end, and a statement may take long.
    let asked = tokio::task::spawn_blocking(move || {
        let mut viewer = inside::enter(&shared, peer, credentials)?;
        body(&mut viewer)
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
