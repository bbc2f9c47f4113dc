//! One exchange with the server, over a connection borrowed for it.
//!
//! A transaction is sent whole: BEGIN, every statement, COMMIT, without waiting for an answer in between. Once a statement
//! fails, the server refuses those after it and takes the COMMIT for a ROLLBACK. So a caller who goes away in the middle
//! leaves no transaction open: its end has been sent with its beginning.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool::managed::Object;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::Connector;
use crate::backend::Answer;
use crate::error::Failed;

/// How long an exchange may take. The server gives up on a statement before that (`connect.rs`), so whatever takes
/// longer is a server that does not answer at all.
const PATIENCE: Duration = Duration::from_millis(1_750);

pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A statement of a transaction.
pub(super) struct Step<'a> {
    pub sql: &'static str,
    pub values: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Step<'a> {
    pub(super) fn new(sql: &'static str, values: &[&'a (dyn ToSql + Sync)]) -> Self {
        Self { sql, values: values.to_vec() }
    }
}

pub(super) struct Session {
    connection: Object<Connector>,
}

type Rows = Result<Vec<Row>, tokio_postgres::Error>;

impl Session {
    pub(super) fn new(connection: Object<Connector>) -> Self {
        Self { connection }
    }

    /// One statement, alone in its transaction.
    pub(super) async fn ask(self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Failed> {
        let client = &*self.connection;
        let exchange = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, values).await
        };
        let done = timeout(PATIENCE, exchange).await;
        self.end(done)
    }

    /// All statements in one transaction; what each returned.
    pub(super) async fn transact(self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Failed> {
        let client = &*self.connection;
        let exchange = async {
            let mut prepared = Vec::with_capacity(steps.len());
            for step in steps {
                prepared.push(client.prepare_cached(step.sql).await?);
            }
            let control = |sql| -> Answer<'_, Rows> {
                Box::pin(async move { client.batch_execute(sql).await.map(|()| vec![]) })
            };
            let mut sent = Sent::default();
            sent.push(control("BEGIN"));
            for (step, statement) in steps.iter().zip(&prepared) {
                sent.push(Box::pin(client.query(statement, &step.values)));
            }
            // The first look at a query sends it. One that could not even be written down was not sent: the rest must
            // not be committed without it.
            poll_fn(|context| {
                let _ = sent.look(context);
                Poll::Ready(())
            })
            .await;
            sent.push(control(if sent.any_failed() { "ROLLBACK" } else { "COMMIT" }));
            poll_fn(|context| sent.look(context)).await;
            // What failed first is why; what came after failed because of it.
            let mut answers = sent.answers.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
            answers.pop();
            answers.remove(0);
            Ok(answers)
        };
        let done = timeout(PATIENCE, exchange).await;
        self.end(done)
    }

    fn end<T>(self, done: Result<Result<T, tokio_postgres::Error>, Elapsed>) -> Result<T, Failed> {
        match done {
            Ok(done) => done.map_err(Failed::Server),
            Err(_) => {
                // Nobody knows what the connection is doing: it is closed, not given back.
                drop(Object::take(self.connection));
                Err(Failed::Late)
            }
        }
    }
}

/// Queries under way on one connection, in the order in which they were sent.
#[derive(Default)]
struct Sent<'a> {
    queries: Vec<Answer<'a, Rows>>,
    answers: Vec<Option<Rows>>,
}

impl<'a> Sent<'a> {
    fn push(&mut self, query: Answer<'a, Rows>) {
        self.queries.push(query);
        self.answers.push(None);
    }

    /// Looks at all that have not been answered; ready once all are.
    fn look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut all = Poll::Ready(());
        for (query, answer) in self.queries.iter_mut().zip(&mut self.answers) {
            if answer.is_none() {
                match query.as_mut().poll(context) {
                    Poll::Ready(rows) => *answer = Some(rows),
                    Poll::Pending => all = Poll::Pending,
                }
            }
        }
        all
    }

    fn any_failed(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Some(Err(_))))
    }
}
