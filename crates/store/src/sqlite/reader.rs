//! Reading threads: each has a connection and a queue, questions go to them in turn.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// Questions that wait for one thread before callers wait to ask.
const QUEUE: usize = 1_024;

type Question = Box<dyn FnOnce(&Connection) + Send>;

pub(super) struct Readers {
    threads: Mutex<Vec<(mpsc::Sender<Question>, JoinHandle<()>)>>,
    turn: AtomicUsize,
}

impl Readers {
    pub(super) fn start(
        count: usize,
        connect: impl Fn() -> Result<Connection, Error>,
    ) -> Result<Self, Error> {
        let threads = (0..count)
            .map(|n| {
                let connection = connect()?;
                let (queue, mut questions) = mpsc::channel::<Question>(QUEUE);
                let thread = std::thread::Builder::new()
                    .name(format!("store-reader-{n}"))
                    .spawn(move || {
                        while let Some(question) = questions.blocking_recv() {
                            // A fault in one question must not end the thread that answers everybody's.
                            let _ = catch_unwind(AssertUnwindSafe(|| question(&connection)));
                        }
                    })
                    .map_err(Error::unavailable)?;
                Ok((queue, thread))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { threads: Mutex::new(threads), turn: AtomicUsize::new(0) })
    }

    /// Asks a question in one read transaction.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |connection| {
            // A deferred transaction: every statement of the question sees the same instant.
            let result = connection
                .unchecked_transaction()
                .map_err(Error::from)
                .and_then(|transaction| question(&transaction));
            let _ = reply.send(result);
        });
        let queue = {
            let threads = self.threads.lock().map_err(|_| Error::Closed)?;
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            threads.get(turn % threads.len().max(1)).map(|(queue, _)| queue.clone()).ok_or(Error::Closed)?
        };
        queue.send(question).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    pub(super) fn close(&self) {
        let threads =
            self.threads.lock().map(|mut threads| std::mem::take(&mut *threads)).unwrap_or_default();
        let (queues, threads): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        drop(queues);
        for thread in threads {
            let _ = thread.join();
        }
    }
}
