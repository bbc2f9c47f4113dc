//! A server that may open no more files: it serves whom it has, drops nobody it has answered, and takes new ones when there is room.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::crowd::eventually;
use crate::process::{Program, maitred_with_files};
use crate::shared::Embedded;

/// Few enough to be used up, and more than the server needs for itself.
const FILES: u32 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_file_descriptors_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let mut embedded = Embedded::new(folder.path(), 100_000).await;
    let command = maitred_with_files(folder.path(), FILES);
    let program = Program::try_serve_by(command, folder.path(), &[]).unwrap();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap().count();
    let load = embedded.load(&program, 4_000, 10);
    load.flows().await;

    let struck = Instant::now();
    let address = program.client.base.strip_prefix("http://").unwrap();
    let mut idle = Vec::new();
    // Connections that say nothing; those that the server cannot accept wait in its backlog.
    for _ in 0..2 * FILES {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    eventually("no file can be opened", async || open() >= FILES as usize - 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(open() >= FILES as usize - 1, "void: {} files were open", open());
    let over = Instant::now();
    drop(idle);
    load.flowed(struck, over).await;
    eventually("it lets go of them", async || open() < FILES as usize - 20).await;
    load.flows().await;
    program.client.anybody().get("/health/ready").await.expect(200);
    let visits = load.ended().await;
    embedded.audit(visits).await.clean();
}
