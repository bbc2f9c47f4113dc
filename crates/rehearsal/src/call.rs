//! One call: a request as it travels, and its answer, over a connection that may turn out to be closed.

use std::io::Result;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::connections::Borrowed;

/// A call that takes longer is given up.
pub(crate) const CALL: Duration = Duration::from_secs(30);

/// What reads an answer: its status, when to come back, and the body.
pub(crate) type Read<T> = fn(u16, Option<u64>, &[u8]) -> T;

/// A request, as it travels.
pub(crate) fn request(
    host: &str,
    token: Option<&str>,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> String {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let content = match body {
        "" => String::new(),
        body => format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{token}{headers}{content}\r\n{body}")
}

/// Sends a request and reads its answer. A kept connection that the server has closed meanwhile is replaced, once.
pub(crate) async fn call<T>(
    mut borrowed: Borrowed<'_>,
    request: String,
    read: Read<T>,
    patience: Duration,
) -> Result<T> {
    let until = Instant::now() + patience;
    loop {
        let called = timeout_at(until, async {
            let head = borrowed.connection.send(request.as_bytes()).await?;
            let body = borrowed.connection.body(head).await?;
            Result::Ok(read(head.status, head.retry_after, body))
        });
        match called.await {
            Ok(Ok(answer)) => {
                borrowed.give_back();
                return Ok(answer);
            }
            // New, it is not replaced again.
            Ok(Err(_)) if borrowed.used => timeout_at(until, borrowed.renew()).await??,
            Ok(Err(error)) => return Err(error),
            Err(late) => return Err(late.into()),
        }
    }
}
