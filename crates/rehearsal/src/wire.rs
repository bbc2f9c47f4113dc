//! HTTP/1.1 as thin as it can be: one keep-alive connection, one request at a time, bodies and events read as they come.
//!
//! The crowd often shares a machine with the server it is meant to try, so what it costs itself counts.

use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Address;

/// No answer of ours is as long; whatever is longer is not read on.
const LONGEST: usize = 4 << 20;
/// What a connection keeps room for between answers.
const KEPT: usize = 4_096;

/// One keep-alive connection.
pub(crate) struct Connection {
    stream: Stream,
    read: Vec<u8>,
    /// Where what has not been looked at begins.
    next: usize,
    /// Whether the server will take another request on it.
    pub usable: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub status: u16,
    pub retry_after: Option<u64>,
    /// Whether the server hangs up after it.
    closes: bool,
    body: Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
    UntilClosed,
}

impl Connection {
    /// Connects.
    pub async fn open(address: &Address, tls: Option<&Arc<rustls::ClientConfig>>) -> Result<Self> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
        tcp.set_nodelay(true)?;
        let stream = match tls.filter(|_| address.tls) {
            None => Stream::Plain(tcp),
            Some(tls) => {
                let name = rustls::pki_types::ServerName::try_from(address.host.clone()).map_err(|_| {
                    Error::new(ErrorKind::InvalidInput, "no certificate can be for this host")
                })?;
                Stream::Tls(Box::new(TlsConnector::from(tls.clone()).connect(name, tcp).await?))
            }
        };
        Ok(Self { stream, read: Vec::new(), next: 0, usable: true })
    }

    /// Whether the server has closed it, as far as is known: of an encrypted one it is not.
    pub fn is_closed(&self) -> bool {
        match &self.stream {
            // Nothing may come while nothing was asked: not even the end.
            Stream::Plain(stream) => {
                !matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
            }
            Stream::Tls(_) => false,
        }
    }

    /// Sends a request and reads the head of its answer.
    pub async fn send(&mut self, request: &[u8]) -> Result<Head> {
        // Not usable again until the answer has been read to its end.
        self.usable = false;
        self.read.clear();
        self.read.shrink_to(KEPT);
        self.next = 0;
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(request).await?,
            Stream::Tls(stream) => {
                stream.write_all(request).await?;
                stream.flush().await?;
            }
        }
        loop {
            self.more().await?;
            if let Some(head) = self.head()? {
                return Ok(head);
            }
        }
    }

    /// The whole body of an answer.
    pub async fn body(&mut self, head: Head) -> Result<&[u8]> {
        let range = match head.body {
            Body::Length(length) => {
                let end = self.next + length;
                while self.read.len() < end {
                    self.more().await?;
                }
                self.next..end
            }
            Body::Chunked => {
                let mut body = Vec::new();
                while let Some(part) = self.chunk().await? {
                    body.extend_from_slice(&self.read[part]);
                }
                self.read = body;
                0..self.read.len()
            }
            Body::UntilClosed => {
                return Err(Error::new(ErrorKind::InvalidData, "an answer without a length"));
            }
        };
        self.usable = !head.closes;
        Ok(&self.read[range])
    }

    /// The next part of a body that comes in parts; none when it is over.
    pub async fn chunk(&mut self) -> Result<Option<Range<usize>>> {
        // What has been handed out is not needed any more.
        self.read.drain(..self.next);
        self.next = 0;
        loop {
            match httparse::parse_chunk_size(&self.read) {
                Ok(httparse::Status::Complete((start, size))) => {
                    let size =
                        usize::try_from(size).ok().filter(|size| *size <= LONGEST).ok_or_else(strange)?;
                    while self.read.len() < start + size + 2 {
                        self.more().await?;
                    }
                    self.next = start + size + 2;
                    self.usable = size == 0;
                    return Ok((size > 0).then_some(start..start + size));
                }
                Ok(httparse::Status::Partial) => self.more().await?,
                Err(_) => return Err(strange()),
            }
        }
    }

    /// The text of a part that `chunk` has just handed out.
    pub fn text(&self, part: Range<usize>) -> &[u8] {
        &self.read[part]
    }

    async fn more(&mut self) -> Result<()> {
        if self.read.len() > LONGEST {
            return Err(strange());
        }
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read_buf(&mut self.read).await?,
            Stream::Tls(stream) => stream.read_buf(&mut self.read).await?,
        };
        if read == 0 { Err(Error::new(ErrorKind::UnexpectedEof, "the server hung up")) } else { Ok(()) }
    }

    fn head(&mut self) -> Result<Option<Head>> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let end = match response.parse(&self.read).map_err(|_| strange())? {
            httparse::Status::Partial => return Ok(None),
            httparse::Status::Complete(end) => end,
        };
        let find = |name: &str| {
            let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(header.value).ok().map(str::trim)
        };
        let body = match find("content-length") {
            Some(length) => Body::Length(length.parse().ok().filter(|l| *l <= LONGEST).ok_or_else(strange)?),
            None if find("transfer-encoding").is_some() => Body::Chunked,
            None if response.code == Some(204) => Body::Length(0),
            None => Body::UntilClosed,
        };
        let head = Head {
            status: response.code.ok_or_else(strange)?,
            closes: find("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
            retry_after: find("retry-after").and_then(|seconds| seconds.parse().ok()),
            body,
        };
        self.next = end;
        Ok(Some(head))
    }
}

fn strange() -> Error {
    Error::new(ErrorKind::InvalidData, "an answer that is not HTTP/1.1")
}
