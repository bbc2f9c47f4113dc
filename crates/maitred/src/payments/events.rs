//! Events of a provider: signed as the Standard Webhooks specification says, over the very bytes that arrived.
//!
//! The signature is over `id.timestamp.body`, so that neither can be changed; the timestamp must be within five minutes of
//! our clock, so that what somebody recorded is of no use later; and the lane hears each id once.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use booking::{PaymentId, RefundId, Won};
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::Sha256;

/// How far a timestamp may be from our clock, in seconds, to either side.
const WINDOW: u64 = 5 * 60;
/// Signatures that are looked at: one for each key that is being replaced is enough.
const SIGNATURES: usize = 8;
const LONGEST_ID: usize = 255;

/// Why an event is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// A header is missing or makes no sense.
    #[error("webhook-id, webhook-timestamp and webhook-signature must be there")]
    Headers,
    /// It was signed too long ago, or in the future.
    #[error("webhook-timestamp must be within five minutes of now")]
    Time,
    /// No signature is by a key that we know.
    #[error("no signature is by the provider's key")]
    Signature,
    /// It is signed, and cannot be read.
    #[error("the body is not an event")]
    Body,
}

/// A key with which a provider signs.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// A key as it is written: `whsec_` and base64 of 24 to 64 bytes.
    pub fn from_text(text: &str) -> anyhow::Result<Self> {
        let text = text.strip_prefix("whsec_").context("it must begin with whsec_")?;
        let key = STANDARD.decode(text).ok().context("after whsec_ it must be base64")?;
        ensure!((24..=64).contains(&key.len()), "it must have 24 to 64 bytes, and has {}", key.len());
        Ok(Self(Hmac::new_from_slice(&key).context("it is not usable")?))
    }
}

/// What a provider says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Names it, however often it is sent.
    pub id: String,
    /// What it says.
    pub said: Said,
}

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// A payment was paid.
    Paid {
        /// Which.
        payment: PaymentId,
        /// How much was taken.
        amount: Won,
    },
    /// A payment failed.
    Failed(PaymentId),
    /// A payment was given up.
    Cancelled(PaymentId),
    /// Money was returned.
    Returned {
        /// Of which payment.
        payment: PaymentId,
        /// By which refund.
        refund: RefundId,
        /// How much, if it says so.
        amount: Option<Won>,
    },
    /// Something that is of no interest here.
    Nothing,
}

/// The members that matter; a provider may send more.
#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: serde_json::Value,
}

#[derive(Deserialize)]
struct Data {
    payment: PaymentId,
    amount: Option<i64>,
    refund: Option<RefundId>,
}

/// The event, if one of these keys has signed it.
pub(super) fn hear(
    keys: &[SigningKey],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Event, Unsigned> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).ok_or(Unsigned::Headers);
    let (id, at, signatures) =
        (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
    if !(1..=LONGEST_ID).contains(&id.len()) {
        return Err(Unsigned::Headers);
    }
    let second: i64 = at.parse().map_err(|_| Unsigned::Headers)?;
    let signed = |key: &SigningKey| {
        let mac = key.0.clone().chain_update(id).chain_update(".").chain_update(at).chain_update(".");
        let mac = mac.chain_update(body);
        let signatures = signatures.split(' ').take(SIGNATURES).filter_map(|one| one.strip_prefix("v1,"));
        // `verify_slice` takes the same time wherever the first difference is.
        signatures
            .filter_map(|one| STANDARD.decode(one).ok())
            .any(|one| mac.clone().verify_slice(&one).is_ok())
    };
    if !keys.iter().any(signed) {
        return Err(Unsigned::Signature);
    }
    if second.abs_diff(now.as_second()) > WINDOW {
        return Err(Unsigned::Time);
    }
    Ok(Event { id: id.to_owned(), said: read(body).ok_or(Unsigned::Body)? })
}

fn read(body: &[u8]) -> Option<Said> {
    let Body { kind, data } = serde_json::from_slice(body).ok()?;
    let data = || serde_json::from_value::<Data>(data).ok();
    Some(match kind.as_str() {
        "payment.paid" => {
            let data = data()?;
            Said::Paid { payment: data.payment, amount: Won(data.amount.filter(|amount| *amount > 0)?) }
        }
        "payment.failed" => Said::Failed(data()?.payment),
        "payment.cancelled" => Said::Cancelled(data()?.payment),
        "refund.succeeded" => {
            let data = data()?;
            Said::Returned { payment: data.payment, refund: data.refund?, amount: data.amount.map(Won) }
        }
        _ => Said::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let key = SigningKey::from_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let headers: HeaderMap = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ]
        .into_iter()
        .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
        let at = |second| Timestamp::from_second(second).unwrap();
        let hear = |body: &str, now| hear(std::slice::from_ref(&key), &headers, body.as_bytes(), at(now));
        // It is signed, and says nothing that we know.
        assert_eq!(hear(r#"{"test": 2432232314}"#, 1_614_265_330), Err(Unsigned::Body));
        assert_eq!(hear(r#"{"test": 2432232315}"#, 1_614_265_330), Err(Unsigned::Signature));
        assert_eq!(hear(r#"{"test": 2432232314}"#, 1_614_265_330 + 301), Err(Unsigned::Time));
        assert_eq!(hear(r#"{"test": 2432232314}"#, 1_614_265_330 - 301), Err(Unsigned::Time));
        assert_eq!(hear(r#"{"test": 2432232314}"#, 1_614_265_330 - 300), Err(Unsigned::Body));
    }

    #[test]
    fn keys_are_written_in_one_way() {
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_?", "whsec_AAAA"] {
            assert!(SigningKey::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_event_is_read_strictly_where_it_matters_and_not_elsewhere() {
        let payment = PaymentId(7);
        let said = |text: String| read(text.as_bytes());
        let data = |more: &str| {
            format!(r#"{{"type": "payment.paid", "x": 1, "data": {{"payment": "{payment}", {more}}}}}"#)
        };
        let paid = Said::Paid { payment, amount: Won(5) };
        assert_eq!(said(data(r#""amount": 5, "y": 2"#)), Some(paid));
        assert_eq!(said(data(r#""amount": 0"#)), None);
        assert_eq!(said(data(r#""amount": -5"#)), None);
        assert_eq!(said(data(r#""amount": 5.5"#)), None);
        assert_eq!(said(r#"{"type": "payment.paid", "data": {"payment": "7"}}"#.into()), None);
        assert_eq!(said(r#"{"type": "customer.updated"}"#.into()), Some(Said::Nothing));
    }
}
