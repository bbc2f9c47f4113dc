//! The one writer, and the transaction that carries whatever has queued up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// Pieces that wait for the writer before callers wait to hand theirs in.
const QUEUE: usize = 1_024;
/// Pieces in one transaction: enough to share an fsync widely, few enough that nobody waits long for it.
const GROUP: usize = 256;

pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Piece>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Something to write: run inside a savepoint, told afterwards whether it was committed.
trait Piece: Send {
    /// Whether it wants to be kept.
    fn run(&mut self, connection: &Connection) -> bool;
    fn tell(self: Box<Self>, committed: Result<(), Error>);
}

struct Work<F, T, E> {
    work: Option<F>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Piece for Work<F, T, E>
where
    F: FnOnce(&Connection) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        // A fault of the caller's is answered like one; it must not end the thread that writes for everybody.
        let work = self.work.take();
        let result = catch_unwind(AssertUnwindSafe(|| work.map(|work| work(connection)))).unwrap_or(None);
        let keep = matches!(result, Some(Ok(_)));
        self.result = result;
        keep
    }

    fn tell(self: Box<Self>, committed: Result<(), Error>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => Err(Error::Unreadable { what: "what it was given to write" }.into()),
            // A refusal falls with the transaction too: what it came from may have been written by a piece before it.
            (Err(error), _) => Err(error.into()),
        };
        // Whoever asked may have gone; what was committed stays committed.
        let _ = self.reply.send(result);
    }
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, Error> {
        let (queue, pieces) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write_all(connection, pieces))
            .map_err(Error::unavailable)?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` in the next transaction and waits until that is on disk.
    pub(super) async fn run<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let piece = Box::new(Work { work: Some(work), result: None, reply });
        let queue = self.queue.lock().ok().and_then(|queue| queue.clone()).ok_or(Error::Closed)?;
        queue.send(piece).await.map_err(|_| Error::Closed)?;
        drop(queue);
        answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }

    /// Ends the thread once its queue is empty, and waits for it.
    pub(super) fn close(&self) {
        drop(self.queue.lock().ok().and_then(|mut queue| queue.take()));
        if let Some(thread) = self.thread.lock().ok().and_then(|mut thread| thread.take()) {
            let _ = thread.join();
        }
    }
}

fn write_all(connection: Connection, mut pieces: mpsc::Receiver<Box<dyn Piece>>) {
    let mut group = Vec::new();
    while pieces.blocking_recv_many(&mut group, GROUP) > 0 {
        let committed = write_group(&connection, &mut group);
        if let Err(error) = &committed {
            tracing::warn!(%error, pieces = group.len(), "a transaction was not committed");
        }
        for piece in group.drain(..) {
            piece.tell(committed.clone());
        }
    }
}

fn write_group(connection: &Connection, group: &mut [Box<dyn Piece>]) -> Result<(), Error> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let result = write_pieces(connection, group);
    if result.is_err() && !connection.is_autocommit() {
        // The error that led here is the one to report; a file that cannot roll back fails the next BEGIN too.
        let _ = connection.execute_batch("ROLLBACK");
    }
    result
}

fn write_pieces(connection: &Connection, group: &mut [Box<dyn Piece>]) -> Result<(), Error> {
    for piece in group {
        connection.prepare_cached("SAVEPOINT piece")?.execute([])?;
        if !piece.run(connection) {
            connection.prepare_cached("ROLLBACK TO piece")?.execute([])?;
        }
        connection.prepare_cached("RELEASE piece")?.execute([])?;
    }
    // Whatever the reason, it was not any one piece's doing.
    connection.prepare_cached("COMMIT")?.execute([]).map_err(Error::unavailable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(
        work: impl FnOnce(&Connection) -> Result<(), Error> + Send + 'static,
    ) -> (Box<dyn Piece>, oneshot::Receiver<Result<(), Error>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Work { work: Some(work), result: None, reply }), answer)
    }

    /// A stand-in for what a piece finds out by reading what the piece before it has written.
    fn refuse_if_any_row(connection: &Connection) -> Result<(), Error> {
        let rows: u32 = connection.query_row("SELECT count(*) FROM child", [], |row| row.get(0))?;
        if rows > 0 { Err(Error::Unreadable { what: "a refusal" }) } else { Ok(()) }
    }

    #[test]
    fn a_refusal_falls_with_the_transaction_in_which_it_was_found() {
        let connection = Connection::open_in_memory().unwrap();
        // A reference that is checked at COMMIT makes COMMIT itself fail.
        let schema = "PRAGMA foreign_keys = ON; CREATE TABLE parent (id INTEGER PRIMARY KEY); \
                      CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);";
        connection.execute_batch(schema).unwrap();
        let orphan = |connection: &Connection| {
            connection.execute("INSERT INTO child VALUES (7)", [])?;
            Ok(())
        };
        let ((first, told_first), (second, told_second)) = (piece(orphan), piece(refuse_if_any_row));
        let mut group = vec![first, second];

        let committed = write_group(&connection, &mut group);
        group.into_iter().for_each(|piece| piece.tell(committed.clone()));

        for told in [told_first, told_second] {
            let told = told.blocking_recv().unwrap();
            assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
        }
        assert!(connection.is_autocommit(), "the next transaction can begin");
        refuse_if_any_row(&connection).unwrap();
    }
}
