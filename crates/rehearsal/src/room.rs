//! The waiting room in front of a sale, as a guest passes it.

use crate::answer::{Answer, strange};
use crate::guest::{Guest, IsOver};
use crate::said::Said;

/// Where somebody stands in a waiting room.
enum Pass {
    Inside(Box<str>),
    Waiting,
    Again(Option<u64>),
    Over(Box<str>),
}

impl IsOver for Pass {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting)
    }
}

impl Pass {
    fn read(status: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let said = Said::read(body).unwrap_or_default();
        match (status, said.state(), &said.token) {
            (200 | 201, "inside", Some(token)) => Self::Inside((&**token).into()),
            // Whoever has a token already is told so.
            (200 | 201, "waiting", _) | (409, ..) => Self::Waiting,
            (429 | 503, ..) => Self::Again(retry_after),
            _ => Self::Over(strange(status, body)),
        }
    }
}

impl Guest<'_> {
    /// Gets inside the waiting room; an answer where that is not possible.
    pub(crate) async fn enter_room(&mut self) -> Option<Answer> {
        self.in_room = true;
        let (tokens, current) = (self.room(""), self.room("/current"));
        let mut has_token = false;
        loop {
            let pass = if has_token {
                self.follow(&current, Pass::read).await
            } else {
                let request = self.request("POST", &tokens, "", "{}");
                self.call(request, Pass::read).await
            };
            match pass {
                Ok(Pass::Inside(token)) => {
                    self.pass = Some(token);
                    self.in_room = false;
                    return None;
                }
                Ok(Pass::Over(text)) => return Some(Answer::Strange(text)),
                Ok(Pass::Waiting) => has_token = true,
                Ok(Pass::Again(after)) => self.pause(after).await,
                Err(_) => self.pause(None).await,
            }
        }
    }

    /// Makes room for the next. Whether that is heard does not matter to whoever goes.
    pub(crate) async fn leave_room(&mut self) {
        let request = self.request("DELETE", &self.room("/current"), "", "");
        let _ = self.call(request, |status, _, _| status).await;
    }

    fn room(&self, rest: &str) -> String {
        format!("/api/venues/{}/queue-tokens{rest}", self.crowd.plan.venue)
    }
}
