//! The listener: a bounded number of connections, deadlines against idlers, and an orderly end.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What the listener bears.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at the same time; further ones wait to be accepted.
    pub connections: usize,
    /// How long the head of a request may take to arrive.
    pub head: Duration,
    /// How long requests under way are waited for when the server stops.
    pub farewell: Duration,
}

/// Serves until it is told to stop, then answers what is under way.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stopping: CancellationToken) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let connections = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(64 * 1_024);
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.farewell, connections.shutdown()).await.is_err() {
        tracing::warn!("some requests were still under way when the server stopped");
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(tokio::net::TcpStream, Place)> {
    let place = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            // A caller that has gone costs nothing; out of file descriptors, the next one would fail as well.
            if !matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            None
        }
    }
}
