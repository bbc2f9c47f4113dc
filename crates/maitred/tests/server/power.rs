//! A power cut under SQLite. kill -9 cannot show what one loses: the kernel still writes what the program had not synced. So a
//! library in front of libc (`shim.c`) keeps, beside each file of the database, only what was synced, and that is what is
//! left when the server is killed.

use std::path::Path;
use std::time::Instant;

use crate::process::{Program, maitred};
use crate::shared::{Embedded, rounds};
use crate::shim;

const FILES: [&str; 2] = ["maitred.db", "maitred.db-wal"];

/// A server of which only what it synced survives; `deaf`: not even that, as far as the log is concerned.
fn serve(folder: &Path, deaf: bool) -> Program {
    let mut command = maitred(folder);
    command.env("LD_PRELOAD", shim::library()).env("SHIM_SYNC", "1");
    if deaf {
        command.env("SHIM_DEAF", "1");
    }
    Program::try_serve_by(command, folder, &[]).unwrap()
}

/// The files as the power cut leaves them; how many bytes it took.
fn cut(data: &Path) -> u64 {
    let mut lost = 0;
    for name in FILES {
        let (file, synced) = (data.join(name), data.join(format!("{name}.synced")));
        let had = std::fs::metadata(&file).map_or(0, |file| file.len());
        if synced.exists() {
            let differs = std::fs::read(&file).unwrap() != std::fs::read(&synced).unwrap();
            lost += u64::from(differs) + had.saturating_sub(std::fs::metadata(&synced).unwrap().len());
            std::fs::copy(&synced, &file).unwrap();
        } else if file.exists() {
            lost += had;
            std::fs::remove_file(&file).unwrap();
        }
    }
    let _ = std::fs::remove_file(data.join("maitred.db-shm"));
    lost
}

/// What is there now counts as synced.
fn keep(data: &Path) {
    for name in FILES {
        let (file, synced) = (data.join(name), data.join(format!("{name}.synced")));
        let _ = std::fs::remove_file(&synced);
        if file.exists() {
            std::fs::copy(file, synced).unwrap();
        }
    }
}

/// Power cuts under load, so many; how many answered reservations were lost, and how many bytes that nobody had synced.
async fn power_cuts(cuts: usize, deaf: bool) -> (usize, u64) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut embedded = Embedded::new(folder.path(), 100_000).await;
    keep(&data);
    let (mut lost, mut unsynced) = (0, 0);
    for _ in 0..cuts {
        let program = serve(folder.path(), deaf);
        let load = embedded.load(&program, 1_500, if deaf { 0 } else { 10 });
        load.flows().await;
        let struck = Instant::now();
        embedded.close();
        program.kill();
        let heard = std::fs::metadata(data.join(format!("{}.synced", FILES[1]))).map_or(0, |file| file.len());
        assert!(deaf || heard > 100_000, "void: only {heard} bytes of the log were synced");
        unsynced += cut(&data);
        load.flowed_until(struck);
        let program = Program::serve(folder.path(), &[]);
        embedded.open(&program);
        let visits = load.ended().await;
        lost += embedded.lost(visits).await;
        drop(program);
        keep(&data);
    }
    (lost, unsynced)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_nothing_that_was_answered() {
    for cuts in rounds(3, 3) {
        let (lost, unsynced) = power_cuts(cuts, false).await;
        println!("{cuts} power cuts took {unsynced} bytes and {lost} answered reservations");
        assert_eq!(lost, 0);
    }
}

/// The control: had the database not asked for its log to be synced, the same cuts would lose what was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_syncs_the_same_power_cut_loses_reservations() {
    let (lost, unsynced) = power_cuts(1, true).await;
    println!("a power cut without syncs took {unsynced} bytes and {lost} answered reservations");
    assert!(
        lost > 0 && unsynced > 0,
        "the shim keeps what was never synced, so the test above proves nothing"
    );
}
