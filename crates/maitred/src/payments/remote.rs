//! A provider behind HTTP, driven by signed events. docs/operations.md has its side of the conversation.
//!
//! Every call has a deadline, a bounded answer, and an `Idempotency-Key`: the payment's id, or the refund's.

use std::time::Duration;

use anyhow::{Context, ensure};
use booking::{Action, ProviderPayment, Reservation, Won};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::{Value, json};
use store::DueRefund;

use super::events::{self, Event, SigningKey, Unsigned};
use super::{Answer, Checkout, Outside, Provider, Seen, Unasked};
use crate::config::PaymentProvider;
use crate::fresh;

/// How long a provider may take to answer: less than others keep away from what one has in hand.
const PATIENCE: Duration = Duration::from_secs(8);
/// The longest answer that makes sense.
const LONGEST: usize = 64 * 1_024;

/// A provider behind HTTP.
pub struct Remote {
    name: String,
    base: String,
    keys: Vec<SigningKey>,
    authorization: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

#[derive(Deserialize)]
struct CheckoutAnswer {
    id: String,
    url: String,
}

#[derive(Deserialize)]
struct StatusAnswer {
    status: String,
    amount: Option<i64>,
}

impl Remote {
    /// A provider of this name.
    pub fn new(name: &str, settings: &PaymentProvider) -> anyhow::Result<Self> {
        let wrong = || format!("payments.{name}");
        let base = settings.url.trim_end_matches('/').to_owned();
        let url: Uri = base.parse().ok().with_context(|| format!("{}.url is not a URL", wrong()))?;
        let scheme = url.scheme_str().unwrap_or_default();
        ensure!(
            ["http", "https"].contains(&scheme) && url.host().is_some() && !base.contains(['@', '?', '#']),
            "{}.url must be written https://HOST/PATH",
            wrong()
        );
        ensure!(!settings.secret.0.is_empty(), "{}.secret must have one key at least", wrong());
        let keys = settings.secret.0.iter().map(|key| SigningKey::from_text(key.reveal()));
        let keys = keys.collect::<Result<_, _>>().with_context(|| format!("{}.secret is wrong", wrong()))?;
        let authorization = settings.key.as_ref().map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()))?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let authorization = authorization
            .transpose()
            .with_context(|| format!("{}.key has a character that no header can carry", wrong()))?;
        Ok(Self { name: name.to_owned(), base, keys, authorization, client: client(scheme == "https")? })
    }

    /// Asks, and reads the answer.
    async fn ask(
        &self,
        call: &'static str,
        method: Method,
        path: String,
        key: Option<String>,
        body: Option<Value>,
    ) -> Result<(StatusCode, Bytes), Unasked> {
        let unknown = |error: &dyn std::fmt::Display| Unasked::Unknown(error.to_string());
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(body));
        let request = request.map_err(|error| unknown(&error))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| unknown(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            Ok((status, body.map_err(|error| unknown(&error))?.to_bytes()))
        };
        let answer = match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(Unasked::Unknown("it did not answer in time".into())),
        };
        let outcome = match &answer {
            Ok((status, _)) if status.is_success() => "done",
            Ok(_) => "refused",
            Err(_) => "unknown",
        };
        let provider = self.name.clone();
        metrics::counter!("maitred_provider_calls_total", "provider" => provider, "call" => call, "outcome" => outcome)
            .increment(1);
        answer
    }
}

/// An answer of this form, or why there is none.
fn read<T: for<'de> Deserialize<'de>>((status, body): &(StatusCode, Bytes)) -> Result<T, Unasked> {
    if status.is_success() {
        return serde_json::from_slice(body)
            .map_err(|error| Unasked::Unknown(format!("it answered {error}")));
    }
    // Whoever is too early, too late or too many is not refused for good.
    let passing = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    if status.is_client_error() && !passing.contains(status) {
        return Err(Unasked::Refused(status.as_u16()));
    }
    Err(Unasked::Unknown(format!("it answered {status}")))
}

fn client(secure: bool) -> anyhow::Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>> {
    let builder = HttpsConnectorBuilder::new();
    let builder = if secure {
        builder
            .with_provider_and_native_roots(ring::default_provider())
            .context("this machine has no certificates to know a provider by; install ca-certificates")?
    } else {
        let config = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .context("TLS is not usable")?;
        let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        builder.with_tls_config(config)
    };
    let connector = builder.https_or_http().enable_http1().build();
    let mut client = Client::builder(TokioExecutor::new());
    client
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(16);
    Ok(client.build(connector))
}

impl Provider for Remote {
    fn begin(&self, reservation: &Reservation, now: Timestamp) -> Action {
        let (id, payment) = (reservation.id, fresh::payment_id(now));
        // What costs nothing is paid here.
        if reservation.amount_due() == Won::ZERO {
            return Action::Pay { reservation: id };
        }
        Action::StartPayment { reservation: id, payment, provider: self.name.as_str().into() }
    }

    fn outside(&self) -> Option<&dyn Outside> {
        Some(self)
    }
}

impl Outside for Remote {
    fn check_out<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Checkout, Unasked>> {
        Box::pin(async move {
            let body = json!({"payment": payment.id, "reservation": payment.reservation, "amount": payment.amount,
                "currency": "KRW", "expiresAt": payment.deadline});
            let key = Some(payment.id.to_string());
            let answer = self.ask("checkout", Method::POST, "/checkouts".into(), key, Some(body)).await?;
            let CheckoutAnswer { id, url } = read(&answer)?;
            if id.len() > 255 || url.len() > 2_048 {
                return Err(Unasked::Unknown("it answered with more than anybody can keep".into()));
            }
            Ok(Checkout { reference: id, url })
        })
    }

    fn look<'a>(&'a self, payment: &'a ProviderPayment) -> Answer<'a, Result<Seen, Unasked>> {
        Box::pin(async move {
            let answer =
                self.ask("look", Method::GET, format!("/checkouts/{}", payment.id), None, None).await?;
            if answer.0 == StatusCode::NOT_FOUND {
                return Ok(Seen::Over);
            }
            let StatusAnswer { status, amount } = read(&answer)?;
            match (status.as_str(), amount) {
                ("paid", Some(amount)) if amount > 0 => Ok(Seen::Paid(Won(amount))),
                ("open", _) => Ok(Seen::Open),
                ("failed" | "cancelled", _) => Ok(Seen::Over),
                (other, _) => Err(Unasked::Unknown(format!("it answered {other:?}"))),
            }
        })
    }

    fn refund<'a>(&'a self, refund: &'a DueRefund) -> Answer<'a, Result<bool, Unasked>> {
        Box::pin(async move {
            let payment = &refund.payment;
            let body = json!({"refund": refund.id, "payment": payment.id, "reference": payment.reference,
                "amount": refund.amount, "currency": "KRW"});
            let key = Some(refund.id.to_string());
            let answer = self.ask("refund", Method::POST, "/refunds".into(), key, Some(body)).await?;
            let StatusAnswer { status, .. } = read(&answer)?;
            match status.as_str() {
                "succeeded" => Ok(true),
                "pending" => Ok(false),
                other => Err(Unasked::Unknown(format!("it answered {other:?}"))),
            }
        })
    }

    fn hear(&self, headers: &hyper::HeaderMap, body: &[u8], now: Timestamp) -> Result<Event, Unsigned> {
        events::hear(&self.keys, headers, body, now)
    }
}
