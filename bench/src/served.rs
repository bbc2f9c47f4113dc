//! A server in a process of its own, and what it is asked.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use booking::{PersonId, SlotId, VenueId};
use jiff::{SignedDuration, Timestamp};
use maitred::server::Server;
use maitred::signing::{Claims, Signer};
use tokio::net::TcpListener;

use crate::Result;
use crate::rows::scattered;

/// This program started once more, as a server; ended by its id.
pub struct Served {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Served {
    /// Starts this program with these arguments, which make it [`serve`].
    pub fn start(arguments: &[&str]) -> Result<Self> {
        Self::of(Command::new(std::env::current_exe()?).args(arguments))
    }

    /// Starts a program that says in its first line where it listens: just so, or in a sentence as maitred does.
    pub fn of(command: &mut Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let said = line.split("http://").nth(1).unwrap_or(&line).split_whitespace().next();
        match said.and_then(|address| address.parse().ok()) {
            Some(address) => Ok(Self { process, address }),
            None => {
                let _ = process.kill();
                let _ = process.wait();
                Err(format!("a server did not start; it said {line:?}").into())
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Says where the server listens, and serves until whoever started this program closes the pipe, or kills it.
pub async fn serve(server: Server) -> Result<()> {
    println!("{}", server.address());
    told_to_end().await?;
    server.stop().await;
    Ok(())
}

/// The same for a server that is not maitred.
pub async fn serve_router(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // Without it an answer may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        served = axum::serve(listener, router).into_future() => Ok(served?),
        told = told_to_end() => told,
    }
}

async fn told_to_end() -> Result<()> {
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

/// The hot slot: tomorrow at noon, at the first venue.
pub fn slot() -> Result<SlotId> {
    let seoul = jiff::tz::TimeZone::get("Asia/Seoul")?;
    let tomorrow = (Timestamp::now() + SignedDuration::from_hours(24)).to_zoned(seoul).date();
    SlotId::new(VenueId(1), tomorrow, jiff::civil::time(12, 0, 0, 0)).ok_or_else(|| "no such slot".into())
}

/// Requests of so many different guests for the hot slot.
pub fn requests(signer: &Signer, people: u64, prefer: &str) -> Result<Arc<[Vec<u8>]>> {
    let date = slot()?.date();
    let exp = Timestamp::now().as_second() + 3_600;
    let body =
        format!(r#"{{"venueId":"1","date":"{date}","time":"12:00","partySize":2,"payment":"deposit"}}"#);
    let request = |n: u64| {
        let token = signer.sign(&Claims { sub: PersonId(scattered(n)), name: "Kim Guest".into(), exp });
        format!(
            "POST /api/reservations HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nprefer: {prefer}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    Ok((0..people).map(request).collect())
}
