//! One guest: comes, presses the button, waits, and perhaps pays. A guest who waits holds nothing but a ticket.

use std::io::Result;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::time::{sleep, timeout, timeout_at};

use crate::answer::Answer;
use crate::call::{CALL, Read, call, request};
use crate::connections::{Borrowed, Connections, Whose};
use crate::plan::{Slot, Waiting, Wish};
use crate::record::{Outcome, Record, Seating};
use crate::run::Crowd;

/// Between two questions, in milliseconds: as a browser does it (A10).
const PAUSE: std::ops::Range<u64> = 2_000..4_000;
/// How often a wish is sent again after the server forgot its ticket, or its place in the waiting room.
const FORGOTTEN: u32 = 3;
/// What guests do once they know takes no longer than this.
const AFTERWARDS: Duration = Duration::from_secs(90);

/// One guest, and where it stands.
pub(crate) struct Guest<'a> {
    pub(crate) crowd: &'a Crowd,
    server: &'a Connections,
    number: u32,
    wish: Wish,
    chance: SmallRng,
    record: Record,
    ticket: Option<Box<str>>,
    /// The token that is inside, where there is a waiting room.
    pub(crate) pass: Option<Box<str>>,
    /// Whether it waits for one.
    pub(crate) in_room: bool,
}

/// A guest's evening, from coming to knowing.
pub(crate) async fn evening(crowd: &Crowd, number: u32, arrived: Duration) -> Record {
    let mut guest = Guest::new(crowd, number, arrived);
    crowd.tally.came();
    guest.wait_to_know().await;
    crowd.tally.knows(&guest.record);
    let _ = timeout(AFTERWARDS, Box::pin(guest.afterwards())).await;
    guest.record
}

impl<'a> Guest<'a> {
    fn new(crowd: &'a Crowd, number: u32, arrived: Duration) -> Self {
        let wish = crowd.wish(number);
        let record = Record {
            guest: number,
            slot: u32::try_from(wish.slot).unwrap_or(u32::MAX),
            party: wish.party,
            arrived,
            sent: arrived,
            placed: None,
            place: None,
            outcome: Outcome::Lost,
            settled: arrived,
            code: None,
            seating: None,
            is_there: None,
            holds: None,
        };
        let (server, chance) = (crowd.server_of(number), crowd.plan.chance(number.wrapping_add(1 << 31)));
        Self { crowd, server, number, wish, chance, record, ticket: None, pass: None, in_room: false }
    }

    /// Until there is an answer, or no patience.
    async fn wait_to_know(&mut self) {
        let patience = self.crowd.plan.patience;
        let stays = self.wish.closes_page_after.unwrap_or(patience).min(patience);
        let until = self.crowd.start + self.record.arrived + stays;
        // On the heap, so that a guest is small.
        let answer = timeout_at(until, Box::pin(self.book())).await;
        match answer {
            Ok(answer) => self.settle(answer),
            Err(_) if self.wish.closes_page_after.is_some() => self.end(Outcome::Abandoned),
            Err(_) => Box::pin(self.give_up()).await,
        }
    }

    fn settle(&mut self, answer: Answer) {
        match answer {
            Answer::Seated(seating, place) => {
                self.place(place);
                self.record.seating = Some(seating);
                self.end(Outcome::Seated);
            }
            Answer::Refused(code, place) => {
                self.place(place);
                self.record.code = Some(code);
                self.end(Outcome::Refused);
            }
            Answer::Strange(text) => {
                self.crowd.note(text.into());
                self.end(Outcome::Unexplained);
            }
            Answer::Left => self.end(Outcome::Left),
            _ => self.end(Outcome::Lost),
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.record.outcome = outcome;
        self.record.settled = self.crowd.now();
    }

    fn place(&mut self, place: Option<(u32, u64)>) {
        if place.is_some() && self.record.place != place {
            self.record.place = place;
            self.record.placed = Some(self.crowd.now());
        }
    }

    /// Patience is over. Whoever is being decided at that moment gets to know.
    async fn give_up(&mut self) {
        if self.in_room {
            self.leave_room().await;
            return self.end(Outcome::Left);
        }
        let ticket = match self.ticket.clone() {
            Some(ticket) => ticket,
            // Every connection was busy.
            None if self.record.sent == self.record.arrived => return self.end(Outcome::Left),
            None if self.record.code.take().is_some() => return self.end(Outcome::TurnedAway),
            None if !self.crowd.plan.keys => return self.end(Outcome::Lost),
            // Sent and not answered: the same request with the same key has the same place, and the same answer.
            None => match self.ask(Whose::Known, CALL).await {
                Ok(Answer::InLine(ticket, place)) => {
                    self.place(place);
                    ticket
                }
                Ok(Answer::Again(_) | Answer::RoomFirst) => return self.end(Outcome::TurnedAway),
                Ok(answer) => return self.settle(answer),
                Err(_) => return self.end(Outcome::Lost),
            },
        };
        let request = self.request("DELETE", &format!("/api/tickets/{ticket}"), "", "");
        match self.call(request, Answer::of_ticket).await {
            Ok(answer @ (Answer::Seated(..) | Answer::Refused(..) | Answer::Left | Answer::Strange(_))) => {
                self.settle(answer);
            }
            // A line that cannot be left now: the guest goes all the same, and the place is decided in its turn.
            Ok(_) => self.end(Outcome::Left),
            Err(_) => self.end(Outcome::Lost),
        }
    }

    /// Asks until there is an answer.
    async fn book(&mut self) -> Answer {
        let mut forgotten = 0;
        loop {
            // What waits for long is small; the rest is on the heap while it lasts.
            let answer = match self.ticket.clone() {
                None => {
                    let patience = CALL.max(self.crowd.plan.patience);
                    Box::pin(self.ask(Whose::New, patience)).await
                }
                Some(ticket) => {
                    Box::pin(self.follow(&format!("/api/tickets/{ticket}"), Answer::of_ticket)).await
                }
            };
            match answer {
                Ok(Answer::InLine(ticket, place)) => {
                    self.place(place);
                    self.ticket = Some(ticket);
                }
                // A place inside that has lapsed is taken anew.
                Ok(Answer::RoomFirst) if forgotten < FORGOTTEN => {
                    forgotten += u32::from(self.pass.take().is_some());
                    if let Some(answer) = Box::pin(self.enter_room()).await {
                        return answer;
                    }
                }
                Ok(Answer::Forgotten) if forgotten < FORGOTTEN => {
                    forgotten += 1;
                    self.ticket = None;
                }
                Ok(Answer::Again(after)) => {
                    // Told to come back: not the same as not being told anything.
                    self.record.code = Some("come-back");
                    self.pause(after).await;
                }
                Ok(Answer::Waiting) => self.pause(None).await,
                Ok(Answer::RoomFirst | Answer::Forgotten) => {
                    return Answer::Strange("the server forgot the place again and again".into());
                }
                Ok(answer) => return answer,
                Err(_) => self.pause(None).await,
            }
        }
    }

    async fn ask(&mut self, whose: Whose, patience: Duration) -> Result<Answer> {
        let borrowed = self.server.borrow(whose).await;
        if self.record.sent == self.record.arrived {
            self.record.sent = self.crowd.now().max(self.record.arrived + Duration::from_nanos(1));
        }
        self.record.code = None;
        let (borrowed, request) = (borrowed?, self.wish());
        Box::pin(call(borrowed, request, Answer::to_wish, patience)).await
    }

    /// The wish as it is sent; written only then, so that whoever waits for a connection takes no room for it.
    fn wish(&self) -> String {
        let Slot { date, time } = self.crowd.slot(self.wish.slot);
        let (venue, party) = (&self.crowd.plan.venue, self.wish.party);
        let body = format!(
            r#"{{"venueId":"{venue}","date":"{date}","time":"{time}","partySize":{party},"payment":"deposit"}}"#
        );
        let mut headers = format!("prefer: wait={}\r\n", self.crowd.plan.wait_in_call);
        if self.crowd.plan.keys {
            headers += &format!("idempotency-key: rehearsal-{:016x}-{}\r\n", self.crowd.run, self.number);
        }
        self.request("POST", "/api/reservations", &headers, &body)
    }

    /// Waits for an answer about something by listening, where a connection is free for that, or asks for it.
    pub(crate) async fn follow<T: IsOver>(&mut self, path: &str, read: Read<T>) -> Result<T> {
        if self.crowd.plan.waiting == Waiting::Listen
            && let Some(borrowed) = self.server.try_borrow().await
        {
            if let Some(answer) = self.listen(borrowed?, path, read).await? {
                return Ok(answer);
            }
        } else {
            self.pause(None).await;
        }
        self.call(self.request("GET", path, "", ""), read).await
    }

    /// Listens until there is an answer; none where the server ends the stream before.
    async fn listen<T: IsOver>(
        &self,
        mut borrowed: Borrowed<'_>,
        path: &str,
        read: Read<T>,
    ) -> Result<Option<T>> {
        let request = self.request("GET", &format!("{path}/events"), "accept: text/event-stream\r\n", "");
        let mut head = borrowed.connection.send(request.as_bytes()).await;
        if head.is_err() && borrowed.used {
            borrowed.renew().await?;
            head = borrowed.connection.send(request.as_bytes()).await;
        }
        let head = head?;
        if head.status != 200 {
            let answer = read(head.status, head.retry_after, borrowed.connection.body(head).await?);
            borrowed.give_back();
            return Ok(Some(answer));
        }
        let mut heard = Vec::new();
        while let Some(part) = borrowed.connection.chunk().await? {
            heard.extend_from_slice(borrowed.connection.text(part));
            while let Some(end) = heard.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = heard.drain(..end + 2).collect();
                let mut lines = event.split(|byte| *byte == b'\n');
                let data = lines.find_map(|line| line.strip_prefix(b"data:"));
                if let Some(answer) = data.map(|data| read(200, None, data)).filter(IsOver::is_over) {
                    return Ok(Some(answer));
                }
            }
        }
        Ok(None)
    }

    /// What guests do once they know: pay, cancel, go home. It is not waited for by anybody.
    async fn afterwards(&mut self) {
        // A payment that is lost or refused is no answer to the wish; it shows as unpaid.
        let _ = self.spend().await;
        if self.pass.is_some() && self.record.outcome != Outcome::Abandoned {
            self.leave_room().await;
        }
    }

    async fn spend(&mut self) -> Result<()> {
        let Some((id, due)) = self.record.seating.as_ref().map(|won| (won.id.clone(), won.due)) else {
            return Ok(());
        };
        let status: Read<u16> = |status, _, _| status;
        let about = format!("/api/reservations/{id}");
        if self.wish.pays {
            let begun = self.crowd.now();
            let charge = format!(r#"{{"amount":{}}}"#, due.max(1));
            self.call(self.request("POST", "/api/wallet/charges", "", &charge), status).await?;
            let request = self.request("POST", &format!("{about}/payment"), "", r#"{"method":"points"}"#);
            let paid = self.call(request, status).await? == 200;
            let took = self.crowd.now().saturating_sub(begun);
            self.won(|seating| (seating.paid, seating.paying) = (paid, Some(took)));
        }
        if self.wish.cancels {
            let request = self.request("POST", &format!("{about}/cancel"), "", "{}");
            let cancelled = self.call(request, status).await? == 200;
            self.won(|seating| seating.cancelled = cancelled);
        }
        Ok(())
    }

    /// Notes something about what was won. It stays in the record all the time: time may run out anywhere.
    fn won(&mut self, note: impl FnOnce(&mut Seating)) {
        if let Some(seating) = &mut self.record.seating {
            note(seating);
        }
    }

    pub(crate) async fn call<T>(&self, request: String, read: Read<T>) -> Result<T> {
        let borrowed = timeout(CALL, self.server.borrow(Whose::Known)).await??;
        Box::pin(call(borrowed, request, read, CALL)).await
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let token = self.crowd.token(self.number);
        let pass = self.pass.as_ref().map(|pass| format!("queue-token: {pass}\r\n")).unwrap_or_default();
        request(&self.server.address.to_string(), Some(&token), method, path, &(pass + headers), body)
    }

    pub(crate) async fn pause(&mut self, seconds: Option<u64>) {
        let jitter = self.chance.random_range(0.0..1.0);
        let wait = match seconds {
            Some(seconds) => Duration::from_secs(seconds.clamp(1, 60)).mul_f64(1.0 + jitter),
            None => Duration::from_millis(self.chance.random_range(PAUSE)),
        };
        sleep(wait).await;
    }
}

/// Whether an answer is the last one.
pub(crate) trait IsOver {
    fn is_over(&self) -> bool;
}

impl IsOver for Answer {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Popularity};
    use crate::{Arrivals, Tally};
    use std::sync::Arc;

    #[test]
    fn a_guest_is_small() {
        let plan = Plan {
            servers: vec!["http://127.0.0.1:1".parse().unwrap()],
            venue: "1".into(),
            slots: vec!["2026-12-24 12:00".parse().unwrap()],
            popularity: Popularity::Even,
            arrivals: Arrivals::AllAtOnce,
            guests: 1,
            party: 1..=1,
            patience: CALL,
            abandon: 0.0,
            pay: 0.0,
            cancel: 0.0,
            waiting: Waiting::Poll,
            wait_in_call: 2,
            keys: true,
            look_after: true,
            connections: 1,
            seed: 1,
        };
        let crowd = Crowd::gather(plan, Arc::new(|_| String::new()), Arc::new(Tally::default())).unwrap();
        let whole = size_of_val(&evening(&crowd, 0, Duration::ZERO));
        let mut guest = Guest::new(&crowd, 0, Duration::ZERO);
        let book = size_of_val(&guest.book());
        let ask = size_of_val(&guest.ask(Whose::New, CALL));
        // 4 KiB are promised; a task and what it waits with take some of that too.
        assert!(whole + book + ask <= 2_048, "{whole} + {book} + {ask}");
    }
}
