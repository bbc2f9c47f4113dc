//! Money on its way back.

use booking::policy::Policy;
use booking::venue::Settings;
use serde_json::{Value, json};

use super::in_both_settings;
use super::shop::Shop;
use crate::app::{noon, places};
use crate::steps::until;

in_both_settings! {
    a_refund_is_pending_until_the_provider_says_so
    a_refund_is_asked_for_until_it_is_made
    staff_hands_out_what_a_provider_returns
    a_smaller_party_gets_its_share_back_and_a_larger_one_pays_with_points
}

async fn a_refund_is_pending_until_the_provider_says_so(shop: Shop) {
    let (venue, _) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    let payment = shop.paid(&guest, &held).await;
    shop.provider.books().mood.refunds_take_time = true;
    let cancelled = shop.at(&guest).cancel(&held).await.expect(200).json();
    assert_eq!((&cancelled["status"], &cancelled["refundDue"]), (&json!("REFUND_PENDING"), &json!(10_000)));
    let asked = || async { shop.provider.books().refunds.keys().next().cloned() };
    let refund = until("it is asked for", asked).await;
    assert_eq!(shop.apps[0].remaining(venue, "12:00").await, 0, "places are held while money is due");
    shop.at(&guest).cancel(&held).await.refused(409, "illegal-transition");

    let another = json!({"payment": payment, "refund": refund, "amount": 1});
    let another = shop.provider.says("refund.succeeded", another);
    shop.provider.send(&shop.client(), &another).await.refused(422, "invalid-request");
    shop.provider.books().refunds.get_mut(&refund).unwrap().made = true;
    let made = json!({"payment": payment, "refund": refund, "amount": 10_000});
    let made = shop.provider.says("refund.succeeded", made);
    for _ in 0..3 {
        shop.provider.deliver(&shop.client(), &made).await;
    }
    let now = shop.at(&guest).look(&held).await;
    assert_eq!((&now["status"], &now["amountRefunded"]), (&json!("REFUNDED"), &json!(10_000)));
    assert_eq!(shop.apps[0].remaining(venue, "12:00").await, 2);
    assert_eq!((shop.provider.keeps(), guest.balance().await), (0, 0));
    shop.close().await;
}

async fn a_refund_is_asked_for_until_it_is_made(shop: Shop) {
    let (venue, staff) = shop.open(places(2)).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    shop.paid(&guest, &held).await;
    shop.provider.books().mood.fail_refunds = 3;
    staff.cancel(&held).await.expect(200);
    let refunded = || async {
        let now = shop.at(&guest).look(&held).await;
        // Each time it waits longer: one second, two, four.
        let failed = shop.provider.books().failed_refunds;
        if now["status"] == "REFUND_PENDING" && failed > 0 {
            shop.wait(1);
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        (now["status"] == "REFUNDED").then_some(now)
    };
    let now = until("it is made", refunded).await;
    assert_eq!(now["amountRefunded"], 10_000);
    {
        let books = shop.provider.books();
        assert_eq!((books.failed_refunds, books.refunds.len()), (3, 1));
    }
    assert_eq!(shop.provider.keeps(), 0);
    shop.close().await;
}

async fn staff_hands_out_what_a_provider_returns(shop: Shop) {
    let policy = Policy { refunds_by_staff: true, ..Policy::default() };
    let (venue, staff) = shop.open(Settings { policy, ..places(2) }).await;
    let guest = shop.guest();
    let held = guest.seated(noon(venue, 2)).await;
    shop.paid(&guest, &held).await;
    let pending = shop.at(&guest).cancel(&held).await.expect(200).json();
    assert_eq!((&pending["status"], &pending["refundDue"]), (&json!("REFUND_PENDING"), &json!(10_000)));
    assert_eq!(shop.at(&guest).look(&held).await["providerPayments"][0]["refundDue"], 0, "nobody was asked");
    shop.provider.books().mood.refunds_take_time = true;
    let handed_out = shop.at(&staff).act(&held, "refund").await.expect(200).json();
    assert_eq!(handed_out["status"], "REFUND_PENDING");
    shop.at(&staff).act(&held, "refund").await.refused(409, "illegal-transition");
    let refund =
        until("it is asked for", || async { shop.provider.books().refunds.keys().next().cloned() }).await;
    shop.provider.books().refunds.get_mut(&refund).unwrap().made = true;
    // Nobody says so, and it is found by asking again.
    let refunded = || async {
        shop.wait(1);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        Some(shop.at(&guest).look(&held).await).filter(|now| now["status"] == "REFUNDED")
    };
    until("it is made", refunded).await;
    assert_eq!(shop.provider.keeps(), 0);
    shop.close().await;
}

async fn a_smaller_party_gets_its_share_back_and_a_larger_one_pays_with_points(shop: Shop) {
    let (venue, _) = shop.open(places(6)).await;
    let guest = shop.apps[0].rich().await;
    let held = guest.seated(noon(venue, 4)).await;
    shop.paid(&guest, &held).await;
    shop.at(&guest).change(&held, json!({"partySize": 3})).await.expect(200);
    let share = || async {
        let now: Value = shop.at(&guest).look(&held).await;
        (now["amountRefunded"] == 5_000).then_some(now)
    };
    let now = until("the share", share).await;
    assert_eq!((&now["status"], &now["refundDue"]), (&json!("CONFIRMED"), &json!(0)));
    assert_eq!((shop.provider.keeps(), guest.balance().await), (15_000, 1_000_000));
    shop.at(&guest).change(&held, json!({"partySize": 5})).await.expect(200);
    assert_eq!(guest.balance().await, 990_000);
    // Everything goes back where it came from.
    shop.at(&guest).cancel(&held).await.expect(200);
    shop.once(&guest, &held, "REFUNDED").await;
    assert_eq!((shop.provider.keeps(), guest.balance().await), (0, 1_000_000));
    shop.close().await;
}
