//! Sweeps what is between us and a provider: refunds that are due, payments that nobody has asked for or that are past
//! their deadline. Bounded, and woken by need as well as by period.
//!
//! Rows are claimed, so that several processes share the work; a claim ends by itself, so that what a process had in hand
//! when it died is done by another. Everything is asked for under the id of the payment or the refund, and so done once.

use std::time::Duration;

use booking::{PaymentStatus, What};
use futures_util::{StreamExt, stream};
use jiff::SignedDuration;
use store::{DueRefund, Error, ToLookAt};
use tokio_util::sync::CancellationToken;

use crate::payments::{Seen, Till};

const PERIOD: Duration = Duration::from_secs(1);
/// Rows that one sweep takes on.
const BOUND: u32 = 64;
/// Providers that are asked at the same time.
const AT_ONCE: usize = 8;
/// How long a refund that was not made waits at most until it is asked for again.
const LONGEST: i64 = 600;
/// A payment past its deadline of which a provider says nothing is given up after so many looks.
const LOOKS: u32 = 8;

/// Sweeps until the server stops.
pub async fn run(till: Till<'_>, stopping: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = till.payments.woken() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        // What is in hand when the server stops is claimed for a while, and then another's.
        let swept = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            swept = sweep(till) => swept,
        };
        if let Err(error) = swept {
            tracing::warn!(%error, "a sweep of payments was cut short; the next one goes on");
        }
    }
}

async fn sweep(till: Till<'_>) -> Result<(), Error> {
    if till.desk.is_in_trouble() {
        return Ok(());
    }
    let due = till.store.refunds_to_ask_for(till.clock.now(), BOUND).await?;
    stream::iter(due).for_each_concurrent(AT_ONCE, |due| refund(till, due)).await;
    let open = till.store.payments_to_look_at(till.clock.now(), BOUND).await?;
    stream::iter(open).for_each_concurrent(AT_ONCE, |open| look(till, open)).await;
    let (refunds, won) = till.store.refunds_due().await?;
    #[expect(clippy::cast_precision_loss, reason = "a gauge; nobody owes 2^52 won")]
    {
        metrics::gauge!("maitred_refunds_due").set(refunds as f64);
        metrics::gauge!("maitred_refunds_due_won").set(won.0 as f64);
    }
    Ok(())
}

/// Asks for a refund, and tells the lane once it is made.
async fn refund(till: Till<'_>, due: DueRefund) {
    let (payment, provider) = (due.payment.id, &due.payment.provider);
    let Some(outside) = till.payments.outside(provider) else {
        tracing::error!(refund = %due.id, %payment, %provider, "a refund is due from a provider that is not configured");
        return again(till, &due).await;
    };
    match outside.refund(&due).await {
        Ok(true) => {
            let what = What::Returned { refund: due.id };
            if let Err(error) = till.tell(provider, payment, what, None).await {
                tracing::warn!(refund = %due.id, %payment, %error, "a refund was made and not written down; it is asked for again");
            }
        }
        // The provider will say so, and is asked again if he forgets.
        Ok(false) => again(till, &due).await,
        Err(why) => {
            let (asked, amount) = (due.asked, due.amount.0);
            tracing::warn!(refund = %due.id, %payment, %provider, asked, amount, %why, "a refund was not made; it is asked for again");
            again(till, &due).await;
        }
    }
}

/// The refund is asked for again, later each time.
async fn again(till: Till<'_>, due: &DueRefund) {
    let seconds = (1_i64 << due.asked.saturating_sub(1).min(16)).min(LONGEST);
    let at = till.clock.now().saturating_add(SignedDuration::from_secs(seconds)).unwrap_or_default();
    if let Err(error) = till.store.ask_again(due.id, at).await {
        tracing::warn!(refund = %due.id, %error, "a refund keeps its claim until that ends");
    }
}

/// Looks after an open payment: nobody has asked the provider for it yet, or its time is over.
async fn look(till: Till<'_>, ToLookAt { payment, looks }: ToLookAt) {
    let over = payment.deadline <= till.clock.now();
    let Some(outside) = till.payments.outside(&payment.provider) else {
        tracing::error!(payment = %payment.id, provider = %payment.provider, "a payment is open with a provider that is not configured");
        return;
    };
    if payment.status == PaymentStatus::Ready && !over {
        // Whoever began it may have died before the provider heard of it. Why it failed is in the log.
        let _ = till.request(&payment).await;
        return;
    }
    let what = match outside.look(&payment).await {
        Ok(Seen::Paid(amount)) => What::Paid { amount },
        // Paid after all, it is a payment that came too late.
        Ok(Seen::Over | Seen::Open) => What::Cancelled,
        Err(why) => {
            tracing::warn!(payment = %payment.id, provider = %payment.provider, looks, %why, "a provider does not say what became of a payment");
            if looks < LOOKS {
                return;
            }
            What::Cancelled
        }
    };
    if let Err(error) = till.tell(&payment.provider, payment.id, what, None).await {
        tracing::warn!(payment = %payment.id, %error, "what became of a payment was not written down; it is looked at again");
    }
}
