//! Looking after those who wait: whoever runs their lane may have died, an answer may have been lost on its way, Redis
//! may have been emptied. Everything here is found out by looking, and may be done any number of times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use booking::SlotId;
use fairlane::lanes::{Look, Message};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::{EARLY, Shared, key, lock, place, slot_of, wire};
use crate::chance;
use crate::desk::{Answer, Desk, Ticket};

/// How often this process looks at the lanes in which people of its own wait.
const LOOK: Duration = Duration::from_millis(400);
/// An answer that is on its way needs this long at most.
const ON_ITS_WAY: Duration = Duration::from_millis(250);
/// Those who wait in the call are let go when the store has not answered for so long.
const TROUBLE: Duration = Duration::from_millis(800);
/// How often lanes are looked for that nobody runs and nobody here waits in, or whether Redis is back.
const RESCUE: Duration = Duration::from_millis(1_500);
const PROBE: Duration = Duration::from_millis(250);
/// Lanes that are looked at side by side.
const SIDE_BY_SIDE: usize = 16;
/// Tickets that are asked for one by one in one round.
const ONE_BY_ONE: usize = 64;

fn about(time: Duration) -> Duration {
    time.mul_f64(chance::within(0.75..1.25))
}

pub(super) async fn watch(desk: Arc<Desk>) {
    let Some(shared) = &desk.shared else { return };
    loop {
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            () = shared.alarm.notified() => {}
            () = tokio::time::sleep(about(LOOK)) => {}
        }
        if !shared.is_up() {
            continue;
        }
        let mut lines: BTreeMap<SlotId, Vec<Arc<Ticket>>> = BTreeMap::new();
        for ticket in desk.tickets.undecided() {
            if ticket.stands_elsewhere() {
                lines.entry(ticket.id().slot).or_default().push(ticket);
            }
        }
        desk.let_go_in_trouble(&lines).await;
        let looks = stream::iter(lines);
        looks.for_each_concurrent(SIDE_BY_SIDE, |(slot, people)| desk.look_after(shared, slot, people)).await;
    }
}

/// Hears what other processes decided.
pub(super) async fn listen(desk: Arc<Desk>) {
    let Some(shared) = &desk.shared else { return };
    let mut messages = shared.lanes.messages();
    loop {
        let message = tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            message = messages.recv() => message,
        };
        match message {
            Some(Message::Said(text)) => desk.hear(shared, &text),
            Some(Message::Connected) => shared.alarm.notify_one(),
            None => return,
        }
    }
}

/// Runs lanes that nobody runs, and comes back when Redis does.
pub(super) async fn rescue(desk: Arc<Desk>) {
    let Some(shared) = &desk.shared else { return };
    loop {
        let pause = if shared.is_up() { RESCUE } else { PROBE };
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            () = tokio::time::sleep(about(pause)) => {}
        }
        if !shared.is_up() {
            desk.rise(shared).await;
        } else if let Ok(lanes) = desk.ask(shared, shared.lanes.unattended()).await {
            lanes.iter().filter_map(|key| slot_of(&key.lane)).for_each(|slot| shared.ready.push(slot));
        }
    }
}

impl Desk {
    fn hear(&self, shared: &Shared, text: &str) {
        for said in wire::heard(text).unwrap_or_default() {
            let id = said.ticket;
            let Some(answer) = said.answer() else { continue };
            // Looked for with the early ones held: whoever is just keeping the ticket looks there afterwards.
            let mut early = lock(&shared.early);
            match self.tickets.get(id) {
                Some(ticket) => {
                    drop(early);
                    self.settle(&ticket, answer);
                }
                None if early.len() < EARLY => drop(early.insert(id, answer)),
                None => {}
            }
        }
    }

    /// The runner of a lane lets go of its own people when the store is in trouble; this is for those whose runner is
    /// elsewhere.
    async fn let_go_in_trouble(&self, lines: &BTreeMap<SlotId, Vec<Arc<Ticket>>>) {
        let long = || lines.values().flatten().filter(|ticket| ticket.since.elapsed() > TROUBLE / 2);
        if long().next().is_none() {
            return;
        }
        let answered = tokio::time::timeout(TROUBLE / 2, self.store.ping()).await;
        if !matches!(answered, Ok(Ok(()))) {
            long().filter(|ticket| ticket.since.elapsed() > TROUBLE).for_each(|ticket| ticket.stall());
        }
    }

    async fn look_after(&self, shared: &Shared, slot: SlotId, people: Vec<Arc<Ticket>>) {
        let asked = Instant::now();
        let Ok(look) = self.ask(shared, shared.lanes.look(&key(slot))).await else { return };
        let Some(look) = shared.looked(slot, look) else {
            return self.find_again(shared, slot, people).await;
        };
        if look.waiting + look.deciding > 0 {
            shared.saw(slot, look.born);
        }
        if !look.has_runner {
            shared.ready.push(slot);
        }
        let mut lost = Vec::new();
        let mut unclear = Vec::new();
        for ticket in people {
            match stands(&look, &ticket, asked) {
                Stands::InLine => {}
                Stands::Left => self.settle(&ticket, Answer::Left),
                Stands::Lost => lost.push(ticket),
                Stands::Unclear => unclear.push(ticket),
            }
        }
        self.answer_from(&mut unclear).await;
        // Drawn and not decided yet, most likely; what is nowhere is lost.
        for ticket in unclear.into_iter().take(ONE_BY_ONE) {
            let id = ticket.id();
            match self.ask(shared, shared.lanes.find(&key(slot), place(id))).await {
                Ok(None) => lost.push(ticket),
                Ok(Some(found)) if found.left => self.settle(&ticket, Answer::Left),
                Ok(Some(_)) => {}
                Err(_) => return,
            }
        }
        self.find_again(shared, slot, lost).await;
    }

    /// These stand in no line: they were decided, or are entered again where they stood.
    async fn find_again(&self, shared: &Shared, slot: SlotId, mut people: Vec<Arc<Ticket>>) {
        if self.answer_from(&mut people).await && !people.is_empty() {
            tracing::info!(?slot, people = people.len(), "Redis has lost people; they are entered again");
            metrics::counter!("maitred_reentered_total").increment(people.len() as u64);
            self.bring_back(shared, slot, people).await;
        }
    }

    /// Answers whoever was decided, and leaves them out; whether the log could be read.
    async fn answer_from(&self, people: &mut Vec<Arc<Ticket>>) -> bool {
        people.retain(|ticket| ticket.answer().is_none());
        people.is_empty() || self.answer_decided(people).await.is_ok()
    }
}

enum Stands {
    InLine,
    /// Somebody left the line with this ticket, at another process.
    Left,
    /// The line knows nothing of it.
    Lost,
    /// It was drawn, or it stands where a look does not tell.
    Unclear,
}

fn stands(look: &Look, ticket: &Ticket, asked: Instant) -> Stands {
    use std::sync::atomic::Ordering::Acquire;
    let (number, life) = (ticket.id().number(), ticket.life.load(Acquire));
    if ticket.since >= asked {
        return Stands::InLine;
    }
    if life != 0 && life != look.born {
        return Stands::Lost;
    }
    // Numbers tell only of those who entered in this life of the lane, and whose life is known.
    let of_another = life == 0 || ticket.id().epoch() != look.epoch;
    let apart = of_another || ticket.again.load(Acquire) || ticket.command.action.is_owners();
    if !apart {
        if number > look.last {
            return Stands::Lost;
        }
        if look.gone.binary_search(&number).is_ok() {
            return Stands::Left;
        }
        if number >= look.first {
            return Stands::InLine;
        }
    }
    if ticket.since.elapsed() < ON_ITS_WAY { Stands::InLine } else { Stands::Unclear }
}
