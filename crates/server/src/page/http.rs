//! As much of HTTP/1.1 (RFC 9112) as the page needs: one GET or HEAD per connection, Basic authentication (RFC 7617).
//!
//! Neighbours: [`super`] answers what is read here.
//! **Invariants**: a request is bounded by [`MAX_REQUEST`]; every response closes the connection and forbids scripts
//! and frames from elsewhere.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of a request, bytes.
pub(super) const MAX_REQUEST: usize = 8 * 1024;
/// Most header fields.
const MAX_FIELDS: usize = 64;

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// A GET, or a HEAD.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Only the head of the response is wanted.
    pub(super) is_head: bool,
    /// Without the query.
    pub(super) path: String,
    pub(super) credentials: Option<Credentials>,
    /// The client names OpenMetrics among the formats that it takes.
    pub(super) takes_openmetrics: bool,
}

/// What is sent back.
pub(super) struct Response {
    status: &'static str,
    kind: &'static str,
    extra: &'static str,
    body: String,
}

impl Response {
    fn new(status: &'static str, kind: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            extra: "",
            body: body.into(),
        }
    }

    pub(super) fn html(body: &str) -> Self {
        Self::new("200 OK", "text/html; charset=utf-8", body)
    }

    pub(super) fn json(body: String) -> Self {
        Self::new("200 OK", "application/json", body)
    }

    pub(super) fn metrics(content_type: &'static str, body: String) -> Self {
        Self::new("200 OK", content_type, body)
    }

    pub(super) fn login() -> Self {
        Self {
            extra: "WWW-Authenticate: Basic realm=\"Esker\", charset=\"UTF-8\"\r\n",
            ..Self::new(
                "401 Unauthorized",
                "text/plain",
                "Log in with an account of the database.\n",
            )
        }
    }

    pub(super) fn not_found() -> Self {
        Self::new(
            "404 Not Found",
            "text/plain",
            "There is /, /panels.json, /details.json and /metrics.\n",
        )
    }

    pub(super) fn unavailable(why: &str) -> Self {
        Self {
            extra: "Retry-After: 1\r\n",
            ..Self::new("503 Service Unavailable", "text/plain", format!("{why}\n"))
        }
    }

    fn bad(status: &'static str) -> Self {
        Self::new(status, "text/plain", format!("{status}\n"))
    }
}

/// Reads one request; the inner error is the response to a bad one.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Result<Request, Response>> {
    let mut head = Vec::new();
    loop {
        match parse(&head) {
            Ok(Some(request)) => return Ok(Ok(request)),
            Ok(None) if head.len() >= MAX_REQUEST => {
                let refusal = Response::bad("431 Request Header Fields Too Large");
                return Ok(Err(refusal));
            }
            Ok(None) => (),
            Err(status) => return Ok(Err(Response::bad(status))),
        }
        let room = (MAX_REQUEST - head.len()) as u64;
        if (&mut *stream).take(room).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A whole head, or None; the error is a status.
fn parse(head: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => (),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("400 Bad Request"),
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err("405 Method Not Allowed"),
    };
    let path = path_of(request.path.unwrap_or("/")).to_owned();
    let field = |name: &str| {
        let found = request
            .headers
            .iter()
            .find(|f| f.name.eq_ignore_ascii_case(name));
        found.and_then(|f| std::str::from_utf8(f.value).ok())
    };
    let takes_openmetrics =
        field("accept").is_some_and(|formats| formats.contains("application/openmetrics-text"));
    Ok(Some(Request {
        is_head,
        path,
        credentials: field("authorization").and_then(basic),
        takes_openmetrics,
    }))
}

/// The path of a target in origin form, or in absolute form, without the query.
fn path_of(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or("/");
    match path.split_once("://") {
        Some((scheme, rest)) if !scheme.starts_with('/') => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => path,
    }
}

/// What `Basic` carries.
fn basic(value: &str) -> Option<Credentials> {
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = BASE64_STANDARD.decode(token.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    // The login of clients ends them with a NUL.
    let are_sendable = !text.contains('\0');
    are_sendable.then(|| Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}

/// Writes a response, or the head of one alone.
pub(super) async fn write(
    stream: &mut TcpStream,
    response: &Response,
    is_head: bool,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nContent-Security-Policy: default-src 'none'; \
         connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'\r\n{}\r\n",
        response.status,
        response.kind,
        response.body.len(),
        response.extra
    );
    stream.write_all(head.as_bytes()).await?;
    if !is_head {
        stream.write_all(response.body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_when_they_are_whole() {
        let text =
            "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nauthorization: basic cm9vdDpwOnc=\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{end}");
        }
        let request = parse(text.as_bytes()).expect("good").expect("whole");
        let credentials = Credentials {
            user: "root".into(),
            password: "p:w".into(),
        };
        assert_eq!(request.path, "/metrics");
        assert_eq!(request.credentials, Some(credentials));
        assert!(!request.is_head && !request.takes_openmetrics);
    }

    #[test]
    fn heads_formats_and_absolute_targets_are_understood() {
        let text = "HEAD http://db1:8306/metrics?x HTTP/1.1\r\nAccept: text/plain;q=0.5, \
                    application/openmetrics-text;version=1.0.0\r\n\r\n";
        let request = parse(text.as_bytes()).expect("good").expect("whole");
        assert!(request.is_head && request.takes_openmetrics);
        assert_eq!(request.path, "/metrics");
        for (target, path) in [("/", "/"), ("http://db1", "/"), ("/a?b://c", "/a")] {
            assert_eq!(path_of(target), path, "{target}");
        }
    }

    #[test]
    fn what_is_no_get_or_no_login_is_told_apart() {
        assert_eq!(
            parse(b"POST / HTTP/1.1\r\n\r\n"),
            Err("405 Method Not Allowed")
        );
        assert_eq!(parse(b"\0\x01\r\n\r\n"), Err("400 Bad Request"));
        // The last one is "a\0:b".
        for bad in [
            "Bearer x",
            "Basic ???",
            "Basic cm9vdA==",
            "Basic",
            "Basic YQA6Yg==",
        ] {
            assert_eq!(basic(bad), None, "{bad}");
        }
    }
}
