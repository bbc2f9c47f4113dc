//! A line of tickets in Redis: of fair locks and semaphores.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::redis::{Value, from_redis_value};
use tokio::time::Instant;

use super::chores::Chore;
use super::link::{Call, unavailable};
use super::script::{Script, script};
use super::{Redis, Shared, micros};
use crate::Position;
use crate::backend::{Enter, Entered, Intent, Left, QueueKey, Target};
use crate::error::Result;
use crate::lease::{Grant, Grip};
use crate::ticket::TicketId;

script!(ENTER = "queue_enter_free.lua" "queue_shared.lua" "queue_enter.lua");
script!(LEAVE = "queue_leave_free.lua" "queue_shared.lua" "queue_leave.lua");
script!(RENEW = "queue_shared.lua" "queue_renew.lua");
script!(HEARTBEAT = "queue_shared.lua" "queue_heartbeat.lua");
script!(POSITION = "queue_shared.lua" "queue_position.lua");

/// Longer graces are cut to this: the scripts let an idle line be forgotten after twice as long.
const LONGEST_GRACE: Duration = Duration::from_secs(300);

/// How a renewal went.
#[derive(Debug)]
pub(super) enum Renewed {
    /// Still held, in this life of the line.
    Until(u64),
    /// Redis knows nothing of it, nor that it ended.
    Forgotten,
    Lost,
}

fn call<'a>(script: &'a Script, key: &QueueKey) -> Call<'a> {
    let parts = ["", ":queue", ":called", ":held", ":parked", ":ends"];
    parts.iter().fold(Call::new(script), |call, part| call.key(&key.base, part))
}

/// The words and numbers of an answer.
pub(super) fn answer<T: ::redis::FromRedisValue>(value: Value) -> Result<T> {
    from_redis_value(value).map_err(|error| unavailable(error.into()))
}

impl Redis {
    pub(crate) async fn enter(&self, key: &QueueKey, step: &Enter<'_>) -> Result<Entered> {
        let shared = &self.shared;
        let intent = match step.intent {
            Intent::NoWait => "nowait",
            Intent::Queue => "queue",
            Intent::Resume => "resume",
            Intent::Park => "park",
        };
        if matches!(step.intent, Intent::Queue | Intent::Resume) {
            // Before the request is sent: the turn may come before the answer does.
            shared.watches.seat(key, step.ticket, step.bell);
        }
        let (epoch, number) = step.known.unwrap_or_default();
        let call = call(&ENTER, key)
            .arg(&step.ticket.0)
            .arg(&shared.client)
            .arg(step.permits)
            .arg(key.capacity)
            .arg(micros(step.lease.length()))
            .arg(micros(step.grace.min(LONGEST_GRACE)))
            .arg(intent)
            .arg(epoch)
            .arg(number)
            .arg(shared.highest_token.load(Ordering::Relaxed))
            .arg(micros(shared.config.liveness()))
            .arg(shared.config.longest_line)
            .arg(&shared.channel);
        let sent = Instant::now();
        let value = shared.link.call(&call).await?;
        let (word, first, second): (String, Option<u64>, Option<u64>) = padded(value)?;
        let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
        Ok(match word.as_str() {
            "granted" => {
                shared.saw_token(first);
                Entered::Granted(Grant {
                    token: first,
                    epoch: second,
                    valid_until: Some(sent + step.lease.length()),
                })
            }
            "queued" => {
                shared.watches.queued(key, first);
                Entered::Queued { epoch: first, number: second, look: None }
            }
            "parked" => Entered::Parked,
            "busy" => Entered::Busy,
            "full" => Entered::Full,
            _ => Entered::Gone,
        })
    }

    pub(crate) async fn leave(&self, key: &QueueKey, grip: &Grip) -> Result<Left> {
        self.shared.leave_line(key, &grip.ticket, grip.epoch(), false).await
    }

    pub(crate) fn abandon(&self, key: &QueueKey, ticket: &TicketId) {
        self.send(Chore::Leave(key.clone(), ticket.clone()));
    }

    pub(crate) fn unseat(&self, key: &QueueKey, ticket: &TicketId) {
        self.shared.watches.unseat(key, ticket);
    }

    pub(crate) async fn position(&self, key: &QueueKey, ticket: &TicketId) -> Result<Option<Position>> {
        let numbers: Vec<u64> = answer(self.shared.link.call(&call(&POSITION, key).arg(&ticket.0)).await?)?;
        Ok(match numbers[..] {
            [waiting, number, ahead] => Some(Position { number, ahead, waiting }),
            _ => None,
        })
    }

    pub(crate) async fn waiting(&self, key: &QueueKey) -> Result<u64> {
        let numbers: Vec<u64> = answer(self.shared.link.call(&call(&POSITION, key).arg("")).await?)?;
        Ok(numbers.first().copied().unwrap_or_default())
    }
}

impl Shared {
    /// `uncertain`: nobody knows whether the ticket has come; if it comes later, it must not stay.
    pub(super) async fn leave_line(
        &self,
        key: &QueueKey,
        ticket: &TicketId,
        epoch: u64,
        uncertain: bool,
    ) -> Result<Left> {
        let call = call(&LEAVE, key)
            .arg(&ticket.0)
            .arg(epoch)
            .arg(u8::from(uncertain))
            .arg(key.capacity)
            .arg(micros(self.config.liveness()))
            .arg(&self.channel);
        let word: String = answer(self.link.call(&call).await?)?;
        Ok(if word == "released" { Left::Released } else { Left::Lost })
    }

    pub(super) async fn renew_grip(&self, grip: &Grip, lease: Duration, adopt: bool) -> Result<Renewed> {
        let value = match &grip.target {
            Target::Queue(key) => {
                let call = call(&RENEW, key)
                    .arg(&grip.ticket.0)
                    .arg(micros(lease))
                    .arg(grip.epoch())
                    .arg(grip.token)
                    .arg(grip.permits)
                    .arg(key.capacity)
                    .arg(u8::from(adopt))
                    .arg(&self.client);
                self.link.call_once(&call).await?
            }
            Target::Lock(key) => self.renew_lock(key, &grip.ticket, lease, grip.token, adopt).await?,
        };
        let (word, epoch, _): (String, Option<u64>, Option<u64>) = padded(value)?;
        Ok(match word.as_str() {
            "renewed" => Renewed::Until(epoch.unwrap_or_default()),
            "forgotten" => Renewed::Forgotten,
            _ => Renewed::Lost,
        })
    }

    /// Shows that this client lives; says which life the line is in and which of the client's tickets are called.
    pub(super) async fn heartbeat(&self, key: &QueueKey) -> Result<(u64, Vec<TicketId>)> {
        let call = call(&HEARTBEAT, key)
            .arg(&self.client)
            .arg(key.capacity)
            .arg(micros(self.config.liveness()))
            .arg(&self.channel);
        let mut values = answer::<Vec<Value>>(self.link.call_once(&call).await?)?.into_iter();
        let epoch = answer(values.next().unwrap_or(Value::Int(0)))?;
        let called = values
            .map(|value| answer::<String>(value).map(|id| TicketId(id.into())))
            .collect::<Result<_>>()?;
        Ok((epoch, called))
    }
}

/// An answer of one word and up to two more values.
pub(super) fn padded<A, B>(value: Value) -> Result<(String, Option<A>, Option<B>)>
where
    A: ::redis::FromRedisValue,
    B: ::redis::FromRedisValue,
{
    let mut values = answer::<Vec<Value>>(value)?.into_iter();
    let mut next = || values.next().unwrap_or(Value::Nil);
    Ok((answer(next())?, answer(next())?, answer(next())?))
}
