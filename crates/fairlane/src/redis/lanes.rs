//! Lanes in Redis.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::{Value, cmd};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::config::Topology;
use super::link::{Call, unavailable};
use super::queue::answer;
use super::script::{Script, script};
use super::wakeups::shrink;
use super::{Redis, micros};
use crate::Client;
use crate::backend::Backend;
use crate::error::Result;
use crate::lane::{Position, Side};
use crate::lanes::{
    self, Answer, Drawee, Drawn, Entered, Entering, Entry, Found, LaneKey, Look, Message, Place, Settlement,
    Terms,
};

script!(ENTER = "lane_shared.lua" "lane_enter.lua");
script!(DRAW = "lane_shared.lua" "lane_draw.lua");
script!(RENEW = "lane_shared.lua" "lane_renew.lua");
script!(LOOK = "lane_shared.lua" "lane_look.lua");
script!(FIND = "lane_shared.lua" "lane_find.lua");
script!(LEAVE = "lane_shared.lua" "lane_leave.lua");
script!(WAITING = "lane_waiting.lua");
script!(MARK = "lane_mark.lua");
script!(GROUPS = "lane_groups.lua");
script!(UNATTENDED = "lane_unattended.lua");

/// How often a group is entered in the list of those that are active. They are dropped from it after 15 minutes.
const MARKED_FOR: Duration = Duration::from_secs(60);
/// Groups, and lanes of a group, that are looked at for being unattended.
const LOOKED_AT: u32 = 1000;
/// How many groups are asked at once.
const AT_ONCE: usize = 16;
/// How a script says of somebody that they have left.
const LEFT: i64 = -2;
/// Messages that wait to be read.
const UNREAD: usize = 4096;

/// What a client remembers of the lanes it uses.
#[derive(Debug, Default)]
pub(super) struct LaneDesk {
    /// The batch that was drawn from each lane that this client runs, by the lane's key.
    drawn: Mutex<HashMap<Box<str>, u64>>,
    /// When each group was last marked as active, by its base.
    marked: Mutex<HashMap<Box<str>, Instant>>,
    ears: Mutex<Ears>,
}

/// Who hears messages.
#[derive(Debug, Default)]
struct Ears {
    listening: bool,
    by_kind: HashMap<Box<str>, Ear>,
}

#[derive(Debug)]
struct Ear {
    sender: mpsc::Sender<Message>,
    /// Something could not be delivered; the reader is told so as soon as there is room.
    missed: bool,
}

impl Ear {
    fn connected(&mut self) {
        self.missed = self.sender.try_send(Message::Connected).is_err();
    }

    fn hear(&mut self, text: &str) {
        if self.missed {
            self.connected();
        }
        if self.missed || self.sender.try_send(Message::Said(text.to_owned())).is_err() {
            self.missed = true;
            tracing::debug!("a message to this client was dropped: too many are unread");
        }
    }
}

/// Nothing here panics half-way through a change.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LaneDesk {
    pub(super) fn connected(&self) {
        let mut ears = open(&self.ears);
        ears.listening = true;
        ears.by_kind.values_mut().for_each(Ear::connected);
    }

    pub(super) fn disconnected(&self) {
        open(&self.ears).listening = false;
    }

    /// A message is the kind of lanes it is about, and the text.
    pub(super) fn hear(&self, message: &str) {
        let Some((kind, text)) = message.split_once(' ') else { return };
        if let Some(ear) = open(&self.ears).by_kind.get_mut(kind) {
            ear.hear(text);
        }
    }

    fn ear(&self, kind: &str) -> mpsc::Receiver<Message> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let mut ear = Ear { sender, missed: false };
        let mut ears = open(&self.ears);
        if ears.listening {
            ear.connected();
        }
        ears.by_kind.insert(kind.into(), ear);
        receiver
    }

    fn is_marked(&self, base: &str) -> bool {
        open(&self.marked).get(base).is_some_and(|at| at.elapsed() < MARKED_FOR)
    }

    fn mark(&self, base: &str) {
        let mut marked = open(&self.marked);
        if marked.len() >= 1024 {
            marked.retain(|_, at| at.elapsed() < MARKED_FOR);
            shrink(&mut marked);
        }
        marked.insert(base.into(), Instant::now());
    }

    fn drawn(&self, lane: &str) -> Option<u64> {
        open(&self.drawn).get(lane).copied()
    }

    fn remember(&self, lane: &str, batch: Option<u64>) {
        let mut drawn = open(&self.drawn);
        match batch {
            Some(batch) => drop(drawn.insert(lane.into(), batch)),
            None => {
                drawn.remove(lane);
                shrink(&mut drawn);
            }
        }
    }
}

/// The lanes of one kind in Redis.
#[derive(Debug)]
pub(crate) struct Lanes {
    client: Client,
    kind: Box<str>,
}

impl Lanes {
    pub(crate) fn new(client: Client, kind: &str) -> Self {
        assert!(matches!(client.backend(), Backend::Redis(_)), "shared lanes are kept in Redis");
        // A space ends the kind in messages, and braces would begin a hash tag.
        Self { client, kind: kind.replace(['{', '}', ' '], "_").into() }
    }

    fn redis(&self) -> &Redis {
        match self.client.backend() {
            Backend::Redis(redis) => redis,
            Backend::Memory(_) => unreachable!("checked when this was made"),
        }
    }

    fn at<'a>(&'a self, key: &'a LaneKey) -> LaneAt<'a> {
        LaneAt { base: self.client.base(&self.kind, &key.group), kind: &self.kind, key }
    }
}

impl lanes::Backend for Lanes {
    fn client(&self) -> &str {
        &self.redis().shared.client
    }

    fn generation(&self) -> u64 {
        self.redis().shared.link.generation()
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(self.redis().ping(&self.kind))
    }

    fn enter<'a>(&'a self, key: &'a LaneKey, terms: &'a Terms, entries: &'a [Entry]) -> Answer<'a, Entering> {
        Box::pin(async move { self.redis().enter_lane(&self.at(key), terms, entries).await })
    }

    fn draw<'a>(
        &'a self,
        key: &'a LaneKey,
        limit: usize,
        settle: Option<&'a Settlement>,
    ) -> Answer<'a, Drawn> {
        Box::pin(async move { self.redis().draw_lane(&self.at(key), limit, settle).await })
    }

    fn renew<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, bool> {
        Box::pin(async move { self.redis().renew_lane(&self.at(key)).await })
    }

    fn look<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, Option<Look>> {
        Box::pin(async move { self.redis().look_at_lane(&self.at(key)).await })
    }

    fn find<'a>(&'a self, key: &'a LaneKey, place: Place) -> Answer<'a, Option<Found>> {
        Box::pin(async move { self.redis().find_in_lane(&self.at(key), place).await })
    }

    fn leave<'a>(
        &'a self,
        key: &'a LaneKey,
        place: Place,
        guard: Option<&'a str>,
        claim: Option<&'a str>,
        tell: Option<(&'a str, &'a str)>,
    ) -> Answer<'a, bool> {
        Box::pin(async move { self.redis().leave_lane(&self.at(key), place, guard, claim, tell).await })
    }

    fn waiting<'a>(&'a self, group: &'a str, lanes: &'a [Box<str>]) -> Answer<'a, Vec<usize>> {
        let base = self.client.base(&self.kind, group);
        Box::pin(async move { self.redis().waiting_in_lanes(&base, lanes).await })
    }

    fn unattended(&self) -> Answer<'_, Vec<LaneKey>> {
        let base_of = |group: &str| self.client.base(&self.kind, group);
        Box::pin(self.redis().unattended_lanes(&self.kind, base_of))
    }

    fn messages(&self) -> mpsc::Receiver<Message> {
        self.redis().shared.lanes.ear(&self.kind)
    }
}

/// A lane and where its group is kept.
struct LaneAt<'a> {
    base: Arc<str>,
    kind: &'a str,
    key: &'a LaneKey,
}

impl LaneAt<'_> {
    /// Tells this lane from all others.
    fn name(&self) -> String {
        format!("{}:{}", self.base, self.key.lane)
    }
}

fn millis(duration: Duration) -> u128 {
    duration.as_millis().max(1)
}

/// The empty text is no name.
fn name(name: Option<&str>) -> &str {
    name.unwrap_or_default()
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.number)
    }
}

impl Redis {
    /// Every server answers, and one of them takes writes: one that is full does not.
    async fn ping(&self, kind: &str) -> Result<()> {
        let link = &self.shared.link;
        link.command(&cmd("PING")).await.map_err(unavailable)?;
        let mut write = cmd("SET");
        write.arg(format!("{}:{kind}:ping", self.shared.config.prefix)).arg(1).arg("PX").arg(1000);
        link.command(&write).await.map(drop).map_err(unavailable)
    }

    /// What every script of a lane begins with.
    fn call<'a>(&self, script: &'a Script, at: &LaneAt<'_>) -> Call<'a> {
        Call::new(script)
            .key(&at.base, "")
            .arg(&at.key.lane)
            .arg(&self.shared.client)
            .arg(millis(self.shared.config.lane_lease))
    }

    /// Which server there is, or that a cluster knows it itself.
    async fn server(&self) -> Result<Arc<str>> {
        match self.shared.config.topology {
            Topology::Cluster(_) => Ok("cluster".into()),
            _ => self.shared.link.server().await,
        }
    }

    async fn enter_lane(&self, at: &LaneAt<'_>, terms: &Terms, entries: &[Entry]) -> Result<Entering> {
        let (limit, window) = terms.rate.unwrap_or_default();
        let server = self.server().await?;
        let call = self
            .call(&ENTER, at)
            .arg(terms.bound)
            .arg(limit)
            .arg(micros(window))
            .arg(terms.floor)
            .arg(terms.epoch.map_or(-1, i64::from))
            .arg(u8::from(terms.known))
            .arg(server)
            .arg(micros(self.shared.config.lane_grace))
            .arg(entries.len());
        let call = entries.iter().fold(call, |call, entry| {
            let call = call
                .arg(if entry.side == Side::Owner { "o" } else { "g" })
                .arg(entry.request)
                .arg(name(entry.guard.as_deref()))
                .arg(name(entry.claim.as_deref()))
                .arg(u8::from(entry.limited));
            let call = match entry.before {
                Some(before) => call.arg(before),
                None => call.arg(""),
            };
            call.arg(&entry.payload)
        });
        let mut reply = Reply::of(self.shared.link.call_on(&call, terms.generation).await?)?;
        if reply.next::<String>()? == "epoch" {
            return Ok(Entering::NeedsEpoch);
        }
        let (born, run, reborn): (u32, bool, bool) = (reply.next()?, reply.next()?, reply.next()?);
        let entered = entries.iter().map(|_| reply.entered()).collect::<Result<_>>()?;
        self.mark_group(at, reborn).await;
        Ok(Entering::Done { entered, born, run })
    }

    /// Lets others find the group. What goes wrong here is done with the next call.
    async fn mark_group(&self, at: &LaneAt<'_>, anew: bool) {
        if !anew && self.shared.lanes.is_marked(&at.base) {
            return;
        }
        let call = Call::new(&MARK).key(&self.registry(at.kind), "").arg(&at.key.group);
        match self.shared.link.call_once(&call).await {
            Ok(_) => self.shared.lanes.mark(&at.base),
            Err(error) => tracing::debug!(%error, "a group could not be marked as active"),
        }
    }

    fn registry(&self, kind: &str) -> String {
        format!("{}:{kind}:groups", self.shared.config.prefix)
    }

    async fn draw_lane(&self, at: &LaneAt<'_>, limit: usize, settle: Option<&Settlement>) -> Result<Drawn> {
        let lanes = &self.shared.lanes;
        let lane = at.name();
        let call = self.call(&DRAW, at).arg(limit).arg(self.server().await?);
        let call = match (settle, lanes.drawn(&lane)) {
            (Some(settle), Some(batch)) => {
                settlement(call.arg(batch), settle, &self.shared.config.lane_channel(), at.kind)
            }
            _ => call.arg(""),
        };
        let mut reply = Reply::of(self.shared.link.call_once(&call).await?)?;
        let word: String = reply.next()?;
        if word == "batch" {
            let batch = reply.next()?;
            let note = Some(reply.next::<String>()?).filter(|note| !note.is_empty());
            let again: bool = reply.next()?;
            let people = reply.rest.map(|entry| drawee(entry, again)).collect::<Result<_>>()?;
            lanes.remember(&lane, Some(batch));
            self.mark_group(at, false).await;
            return Ok(Drawn::Batch { people, note });
        }
        if word == "grace" {
            return Ok(Drawn::Grace(Duration::from_micros(reply.next()?)));
        }
        lanes.remember(&lane, None);
        Ok(if word == "taken" { Drawn::Taken } else { Drawn::Nobody })
    }

    async fn renew_lane(&self, at: &LaneAt<'_>) -> Result<bool> {
        answer(self.shared.link.call_once(&self.call(&RENEW, at)).await?)
    }

    async fn look_at_lane(&self, at: &LaneAt<'_>) -> Result<Option<Look>> {
        let mut reply = Reply::of(self.shared.link.call_once(&self.call(&LOOK, at)).await?)?;
        if reply.rest.len() == 0 {
            return Ok(None);
        }
        let (born, epoch): (_, u32) = (reply.next()?, reply.next()?);
        let (last, length): (u64, u64) = (reply.next()?, reply.next()?);
        let (back, deciding, has_runner): (usize, _, _) = (reply.next()?, reply.next()?, reply.next()?);
        let pace = reply.pace()?;
        let gone = reply.rest.len().saturating_sub(back);
        let gone = reply.rest.by_ref().take(gone).map(answer).collect::<Result<Vec<u64>>>()?;
        let returned =
            reply.rest.map(|place| place_in(&answer::<String>(place)?)).collect::<Result<Vec<_>>>()?;
        let waiting = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(gone.len()) + back;
        let first = (last + 1).saturating_sub(length);
        Ok(Some(Look { born, epoch, last, first, waiting, deciding, returned, gone, pace, has_runner }))
    }

    async fn find_in_lane(&self, at: &LaneAt<'_>, place: Place) -> Result<Option<Found>> {
        let mut reply = Reply::of(self.shared.link.call_once(&self.call(&FIND, at).arg(place)).await?)?;
        if reply.rest.len() == 0 {
            return Ok(None);
        }
        let payload = drawee(reply.value(), false)?.payload;
        let (ahead, waiting): (i64, usize) = (reply.next()?, reply.next()?);
        let pace = reply.pace()?;
        let position = usize::try_from(ahead).ok().map(|ahead| Position { ahead, waiting, pace });
        Ok(Some(Found { payload, position, left: ahead == LEFT }))
    }

    async fn leave_lane(
        &self,
        at: &LaneAt<'_>,
        place: Place,
        guard: Option<&str>,
        claim: Option<&str>,
        tell: Option<(&str, &str)>,
    ) -> Result<bool> {
        let call = self.call(&LEAVE, at).arg(place).arg(name(guard)).arg(name(claim));
        let (to, text) = tell.unwrap_or_default();
        let channel = self.shared.config.lane_channel();
        let call =
            call.arg(format_args!("{channel}{to}")).arg(format_args!("{} {text}", at.kind)).arg(to.len());
        answer(self.shared.link.call_once(&call).await?)
    }

    async fn waiting_in_lanes(&self, base: &str, lanes: &[Box<str>]) -> Result<Vec<usize>> {
        let call = Call::new(&WAITING).key(base, "").arg(lanes.len());
        answer(self.shared.link.call_once(&lanes.iter().fold(call, Call::arg)).await?)
    }

    /// `base_of` says where a group is kept.
    async fn unattended_lanes(&self, kind: &str, base_of: impl Fn(&str) -> Arc<str>) -> Result<Vec<LaneKey>> {
        let call = Call::new(&GROUPS).key(&self.registry(kind), "").arg(LOOKED_AT);
        let groups: Vec<String> = answer(self.shared.link.call_once(&call).await?)?;
        let asked = groups.into_iter().map(|group| {
            let base = base_of(&group);
            async move {
                let call = Call::new(&UNATTENDED).key(&base, "").arg(LOOKED_AT);
                let lanes: Vec<String> = answer(self.shared.link.call_once(&call).await?)?;
                let key = |lane: String| LaneKey { group: group.as_str().into(), lane: lane.into() };
                Ok(lanes.into_iter().map(key).collect::<Vec<_>>())
            }
        });
        let found: Vec<Vec<LaneKey>> = stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

fn settlement<'a>(call: Call<'a>, settle: &Settlement, channel: &str, kind: &str) -> Call<'a> {
    let call = call.arg(settle.decided).arg(&settle.note).arg(millis(settle.keep)).arg(channel);
    let call = settle.guards.iter().fold(call.arg(settle.guards.len()), Call::arg);
    let call = settle.claims.iter().fold(call.arg(settle.claims.len()), Call::arg);
    let kept = |call: Call<'a>, (guard, place): &(Box<str>, Place)| call.arg(guard).arg(place);
    let call = settle.kept.iter().fold(call.arg(settle.kept.len()), kept);
    let forget = |call: Call<'a>, (lane, guard): &(Box<str>, Box<str>)| call.arg(lane).arg(guard);
    let call = settle.forget.iter().fold(call.arg(settle.forget.len()), forget);
    let message =
        |call: Call<'a>, (to, text): &(Box<str>, String)| call.arg(to).arg(format_args!("{kind} {text}"));
    settle.messages.iter().fold(call.arg(settle.messages.len()), message)
}

/// `epoch.number`.
fn place_in(text: &str) -> Result<Place> {
    let place = text
        .split_once('.')
        .and_then(|(epoch, number)| Some(Place { epoch: epoch.parse().ok()?, number: number.parse().ok()? }));
    place.ok_or_else(|| {
        unavailable((::redis::ErrorKind::UnexpectedReturnType, "not a place in a lane").into())
    })
}

/// `epoch.number side request payload`; an upper-case side may have been served before.
fn drawee(entry: Value, again: bool) -> Result<Drawee> {
    let text: String = answer(entry)?;
    let parts = || {
        let mut parts = text.splitn(4, ' ');
        let (epoch, number) = parts.next()?.split_once('.')?;
        let place = Place { epoch: epoch.parse().ok()?, number: number.parse().ok()? };
        let side = parts.next()?;
        parts.next()?;
        let again = again || side.chars().all(char::is_uppercase);
        Some(Drawee { place, payload: parts.next()?.to_owned(), again })
    };
    parts().ok_or_else(|| {
        unavailable((::redis::ErrorKind::UnexpectedReturnType, "not an entry of a lane").into())
    })
}

/// An answer, read value by value.
struct Reply {
    rest: std::vec::IntoIter<Value>,
}

impl Reply {
    fn of(value: Value) -> Result<Self> {
        Ok(Self { rest: answer::<Vec<Value>>(value)?.into_iter() })
    }

    fn value(&mut self) -> Value {
        self.rest.next().unwrap_or(Value::Nil)
    }

    fn next<T: ::redis::FromRedisValue>(&mut self) -> Result<T> {
        answer(self.value())
    }

    fn pace(&mut self) -> Result<Option<f64>> {
        Ok(self.next::<String>()?.parse().ok())
    }

    fn entered(&mut self) -> Result<Entered> {
        let word: u8 = self.next()?;
        if word == 5 {
            let (place, lane): (String, String) = (self.next()?, self.next()?);
            return Ok(Entered::InProgressIn(lane.into(), place_in(&place)?));
        }
        let (first, second): (u64, u64) = (self.next()?, self.next()?);
        let place = || Place { epoch: u32::try_from(first).unwrap_or(u32::MAX), number: second };
        Ok(match word {
            0 => Entered::In(place()),
            1 => Entered::InProgress(place()),
            2 => Entered::Limited(Duration::from_micros(first)),
            4 => Entered::Left,
            _ => Entered::Full { waiting: usize::try_from(first).unwrap_or(usize::MAX) },
        })
    }
}
