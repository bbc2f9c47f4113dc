//! Load over HTTP: keep-alive connections that each send the next guest's request as soon as they have an answer.
//!
//! The client is as thin as possible, because it shares the machine with the server that it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// One keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends one request and reads its answer to the end; the status.
    pub async fn send(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server hung up".into());
            }
            if let Some(head) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
                let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                break (head + 4, length.unwrap_or("0").trim().parse::<usize>()?);
            }
        };
        while self.buffer.len() < head + length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server hung up".into());
            }
        }
        Ok(std::str::from_utf8(&self.buffer[9..12])?.parse()?)
    }
}

/// What a load came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many answers had the expected status.
    pub expected: usize,
    /// How many had another.
    pub others: usize,
    /// From the first request to the last answer.
    pub took: Duration,
}

impl Outcome {
    /// Expected answers a second.
    pub fn rate(&self) -> f64 {
        self.expected as f64 / self.took.as_secs_f64()
    }
}

/// Sends every request once, over so many connections, spread over the servers, each as soon as its connection is free.
pub async fn closed_loop(
    servers: &[SocketAddr],
    connections: usize,
    requests: Arc<[Vec<u8>]>,
    expected: u16,
) -> Result<Outcome> {
    let mut open = Vec::with_capacity(connections);
    for server in servers.iter().cycle().take(connections) {
        open.push(Connection::open(*server).await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let sending = open.into_iter().map(|mut connection| {
        let (next, requests) = (next.clone(), requests.clone());
        tokio::spawn(async move {
            let (mut fine, mut others) = (0, 0);
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                if connection.send(request).await? == expected { fine += 1 } else { others += 1 }
            }
            Result::Ok((fine, others))
        })
    });
    let sending: Vec<_> = sending.collect();
    let mut outcome = Outcome::default();
    for connection in sending {
        let (fine, others) = connection.await??;
        outcome.expected += fine;
        outcome.others += others;
    }
    outcome.took = start.elapsed();
    Ok(outcome)
}
