//! Tokens of the waiting room: who gets in with which, and who never does.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use booking::VenueId;
use maitred::signing::{Claims, QueueClaims, Signer};
use serde_json::{Value, json};

use crate::app::{TestApp, noon, places};
use crate::client::Guest;
use crate::house::{House, told_to_both};
use crate::process::{complaint, stdout};
use crate::rooms::wish_for;
use crate::steps::until;

told_to_both!(keys_are_replaced_while_tokens_are_out, a_tampered_draw_is_found);

async fn with_room(app: &TestApp) -> (VenueId, Guest) {
    let (venue, staff) = app.open(places(100)).await;
    let on = json!({"enabled": true, "size": 2});
    staff.put(&format!("/api/venues/{venue}/waiting-room"), on).await.expect(200);
    (venue, staff)
}

async fn token(guest: &Guest, venue: VenueId) -> String {
    let told = guest.ask_for_token(&venue.to_string()).await.expect(201).json();
    assert_eq!(told["state"], "inside");
    told["token"].as_str().unwrap().to_owned()
}

/// The payload of a token.
fn payload(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn only_the_own_good_token_of_the_venue_gets_in() {
    let app = TestApp::start().await;
    let (venue, _) = with_room(&app).await;
    let (elsewhere, _) = with_room(&app).await;
    let ((id, guest), (_, other)) = (app.person(), app.person());
    let good = token(&guest, venue).await;
    let (others, abroad) = (token(&other, venue).await, token(&guest, elsewhere).await);

    let said = payload(&good);
    assert_eq!((&said["number"], &said["venue"]), (&json!(1), &json!(venue.to_string())));
    assert_eq!((&said["sub"], &said["aud"]), (&json!(id.to_string()), &json!("queue")));
    assert!(said["exp"].is_i64() && said["nbf"].is_i64());

    let (header, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let named: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    let rsa = URL_SAFE_NO_PAD.encode(json!({"alg": "RS256", "kid": named["kid"], "typ": "JWT"}).to_string());
    let keyless = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let mut more = payload(&good);
    more["exp"] = json!(i64::MAX);
    let more = URL_SAFE_NO_PAD.encode(more.to_string());
    let (now, signer) = (app.server().app().clock.now().as_second(), &app.server().app().signer);
    let claims = QueueClaims {
        sub: id,
        venue,
        opening: said["opening"].as_i64().unwrap(),
        number: Some(1),
        iat: now,
        nbf: now,
        exp: now + 60,
    };
    let broken: String = signature.chars().rev().collect();
    let wrong = [
        ("none at all", String::new()),
        ("a wrong signature", format!("{header}.{body}.{broken}")),
        ("no signature", format!("{header}.{body}.")),
        ("alg none", format!("{none}.{body}.")),
        ("alg none, signed", format!("{none}.{body}.{signature}")),
        ("another kind of key", format!("{rsa}.{body}.{signature}")),
        ("a key without a name", format!("{keyless}.{body}.{signature}")),
        ("other claims", format!("{header}.{more}.{signature}")),
        ("another key", Signer::new(&[9; 32]).unwrap().sign(&claims)),
        ("expired", signer.sign(&QueueClaims { exp: now, ..claims.clone() })),
        ("not yet valid", signer.sign(&QueueClaims { nbf: now + 1, ..claims.clone() })),
        ("another venue", abroad),
        ("another person", others),
        ("another opening", signer.sign(&QueueClaims { opening: claims.opening + 1, ..claims.clone() })),
        ("another number", signer.sign(&QueueClaims { number: Some(2), ..claims.clone() })),
        ("an access token", guest.token.clone().unwrap()),
        ("too long", "x".repeat(4_000)),
    ];
    for (what, wrong) in wrong {
        let answer = guest.book_inside(&noon(venue, 1), &wrong).await;
        let refused = answer.refused(403, "queue-token-required").json();
        assert_eq!(refused["queue"]["state"], "inside", "{what}");
    }
    guest.post("/api/reservations", noon(venue, 1)).await.refused(403, "queue-token-required");
    // Nor is a place in line a way to sign in.
    app.client.guest(good.clone()).get("/api/wallet").await.refused(401, "unauthenticated");
    let stranger = app.guest();
    stranger.book_inside(&noon(venue, 1), &good).await.refused(403, "queue-token-required");

    let held = guest.book_inside(&noon(venue, 1), &good).await.expect(201).json();
    guest.pay(&held).await.refused(403, "queue-token-required");
    guest.change(&held, json!({"partySize": 2})).await.refused(403, "queue-token-required");
    guest.post("/api/wallet/charges", json!({"amount": 100_000})).await.expect(201);
    guest.pay_inside(&held, &good).await.expect(200);
    let refused = guest.book_inside(&noon(venue, 1), &good).await.refused(403, "queue-token-required").json();
    assert_eq!(refused["queue"]["state"], "done", "used up");
    assert_eq!(guest.place(&venue.to_string()).await.expect(200).json()["state"], "done");
    // What was paid can be given back without standing in line.
    guest.cancel(&held).await.expect(200);
    // The token of the place before is none of the next.
    token(&guest, venue).await;
    guest.book_inside(&noon(venue, 1), &good).await.refused(403, "queue-token-required");
    app.stop().await;
}

#[tokio::test]
async fn whoever_does_nothing_is_out_and_whoever_does_something_stays() {
    let app = TestApp::start().await;
    let (venue, _) = with_room(&app).await;
    let guests: Vec<_> = (0..4).map(|_| app.guest()).collect();
    let (busy, idle) = (token(&guests[0], venue).await, token(&guests[1], venue).await);
    for guest in &guests[2..] {
        let told = guest.ask_for_token(&venue.to_string()).await.expect(201).json();
        assert_eq!(told["state"], "waiting");
        let token = told["token"].as_str().unwrap();
        let refused = guest.book_inside(&noon(venue, 1), token).await.refused(403, "queue-token-required");
        // How many are ahead is as of a moment ago.
        let queue = &refused.json()["queue"];
        assert_eq!((&queue["number"], &queue["state"]), (&told["number"], &json!("waiting")));
    }
    let is = async |guest: &Guest, state: &str| {
        until(state, || async {
            let told = guest.place(&venue.to_string()).await.expect(200).json();
            (told["state"] == state).then_some(())
        })
        .await;
    };
    app.wait(100);
    let mut wish = noon(venue, 1);
    guests[0].book_inside(&wish, &busy).await.expect(201);
    app.wait(80);
    guests[1].book_inside(&wish, &idle).await.refused(403, "queue-token-required");
    is(&guests[1], "lapsed").await;
    is(&guests[2], "inside").await;
    is(&guests[0], "inside").await;
    // Ten minutes in all are enough for anybody.
    for (hour, wait) in [("13:00", 0), ("14:00", 130), ("15:00", 130), ("16:00", 130)] {
        app.wait(wait);
        wish["time"] = json!(hour);
        guests[0].book_inside(&wish, &busy).await.expect(201);
    }
    app.wait(40);
    let refused = guests[0].book_inside(&noon(venue, 2), &busy).await.refused(403, "queue-token-required");
    assert_eq!(refused.json()["queue"]["state"], "lapsed");
    is(&guests[3], "inside").await;
    app.stop().await;
}

#[tokio::test]
async fn a_draw_is_announced_kept_secret_and_checked() {
    let app = TestApp::start().await;
    let (venue, staff) = with_room(&app).await;
    let draw = format!("/api/venues/{venue}/draw");
    app.client.anybody().get(&draw).await.refused(404, "not-found");
    let opens_at = app.server().app().clock.now() + jiff::SignedDuration::from_secs(600);
    let opening = json!({"opensAt": opens_at.to_string(), "order": "draw"});
    let made = staff.put(&format!("/api/venues/{venue}/opening"), opening).await.expect(200).json();
    let hash = made["draw"]["seedHash"].as_str().unwrap().to_owned();

    let guests: Vec<_> = (0..30).map(|_| app.guest()).collect();
    let mut entries = vec![];
    for guest in &guests {
        let told = guest.ask_for_token(&venue.to_string()).await.expect(201);
        assert_eq!((&told.json()["ahead"], &told.json()["draw"]), (&Value::Null, &json!({"seedHash": hash})));
        entries.push(told.json()["entry"].as_str().unwrap().to_owned());
    }
    let before = app.client.anybody().get(&draw).await.expect(200).json();
    assert_eq!((&before["seedHash"], before.get("seed"), &before["items"]), (&json!(hash), None, &json!([])));
    let seen = app.client.anybody().get(&format!("/api/venues/{venue}")).await.expect(200);
    assert_eq!(seen.json()["opening"]["draw"], json!({"seedHash": hash}));
    let data = app.folder.path().to_str().unwrap().to_owned();
    let audit = |arguments: &[&str]| {
        let mut all = vec!["audit", "draw", "--venue"];
        let id = venue.to_string();
        all.extend([id.as_str(), "--data", data.as_str()]);
        all.extend(arguments);
        crate::process::run(app.folder.path(), &all)
    };
    assert!(complaint(&audit(&[]), 1).contains("has had no draw"));

    app.wait(600);
    until("everybody has a number", || async {
        app.client.anybody().get(&draw).await.expect(200).json()["seed"].is_string().then_some(())
    })
    .await;
    // A guest checks it alone.
    let after = app.client.anybody().get(&draw).await.expect(200).json();
    let bytes = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|n| u8::from_str_radix(&text[n..n + 2], 16).unwrap()).collect()
    };
    let sha = |parts: &[&[u8]]| -> Vec<u8> {
        use sha2::Digest;
        parts.iter().fold(sha2::Sha256::new(), |hash, part| hash.chain_update(part)).finalize().to_vec()
    };
    let seed = bytes(after["seed"].as_str().unwrap());
    assert_eq!(sha(&[&seed]), bytes(&hash));
    let mut expected = entries.clone();
    expected.sort_by_key(|entry| sha(&[&seed, &bytes(entry)]));
    let listed = after["items"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|item| item["entry"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, expected);
    let rank = expected.iter().position(|entry| *entry == entries[0]).unwrap() + 1;
    let place = guests[0].place(&venue.to_string()).await.expect(200).json();
    assert_eq!(place["number"], rank);
    let late = app.guest().ask_for_token(&venue.to_string()).await.expect(201).json();
    assert_eq!(late["number"], 31);

    let told = audit(&[]);
    assert!(told.status.success(), "{told:?}");
    assert!(stdout(&told).contains("30 drawn") && stdout(&told).contains(&hash), "{}", stdout(&told));
    app.stop().await;
}

/// The same on every database, and with somebody who tampers with what was drawn.
async fn a_tampered_draw_is_found(house: House) {
    let (venue, staff) = house.with_room(json!({"enabled": true, "size": 3})).await;
    let opens_at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
    let opening = json!({"opensAt": opens_at.to_string(), "order": "draw"});
    staff.put(&format!("/api/venues/{venue}/opening"), opening).await.expect(200);
    house.until_known(&venue, |opening| opening["draw"]["seedHash"].is_string()).await;
    let guests = house.guests(20);
    for guest in &guests {
        assert_eq!(guest.ask_for_token(&venue).await.expect(201).json()["number"], Value::Null);
    }
    until("somebody is let in", || async {
        let inside = "SELECT count(*) FROM queue_token WHERE state = 'INSIDE'";
        (house.number(inside).await == 3).then_some(())
    })
    .await;
    let audit = || house.command(&["audit", "draw", "--venue", &venue]);
    let told = audit();
    assert!(told.status.success() && stdout(&told).contains("20 drawn"), "{told:?}");
    house.audit();

    let swap = "UPDATE queue_token SET number = number + 1000 WHERE number IN (14, 19); \
                UPDATE queue_token SET number = 1033 - number WHERE number IN (1014, 1019);";
    for (lie, truth, word) in [
        (swap, swap, "is not the rank"),
        ("UPDATE opening SET seed = seed_hash", "", "is not the one whose hash"),
    ] {
        house.execute(lie).await;
        let found = audit();
        assert_eq!(found.status.code(), Some(1), "{}", stdout(&found));
        assert!(stdout(&found).contains(word), "{}", stdout(&found));
        assert_eq!(house.command(&["audit"]).status.code(), Some(1));
        house.execute(truth).await;
    }
}

async fn keys_are_replaced_while_tokens_are_out(house: House) {
    let (venue, _) = house.with_room(json!({"enabled": true, "size": 100})).await;
    let guests = house.guests(6);
    let token = async |guest: &Guest| {
        let told = guest.ask_for_token(&venue).await.expect(201).json();
        told["token"].as_str().unwrap().to_owned()
    };
    let rotate = || assert!(house.command(&["keys", "rotate"]).status.success());
    let (first, second) = (token(&guests[0]).await, token(&guests[1]).await);
    rotate();
    // The key before is good for what it signed, and new tokens are known everywhere.
    let newcomer = house.guest();
    for process in 0..house.processes() {
        let newcomer = house.client(process).guest(newcomer.token.clone().unwrap());
        until("the new key is known", || async {
            (newcomer.get("/api/wallet").await.status == 200).then_some(())
        })
        .await;
    }
    guests[0].book_inside(&wish_for(&venue, 1), &first).await.expect(201);
    let third = token(&newcomer).await;
    assert_ne!(third.split('.').next(), first.split('.').next());
    rotate();
    let latest = house.guest();
    for process in 0..house.processes() {
        let latest = house.client(process).guest(latest.token.clone().unwrap());
        until("the newest key is known", || async {
            (latest.get("/api/wallet").await.status == 200).then_some(())
        })
        .await;
    }
    newcomer.book_inside(&wish_for(&venue, 1), &third).await.expect(201);
    // Two rotations ago: neither the place nor the person is known any more.
    guests[1].book_inside(&wish_for(&venue, 1), &second).await.refused(401, "unauthenticated");
    latest.ask_for_token(&venue).await.expect(201);
    latest.book_inside(&wish_for(&venue, 1), &second).await.refused(403, "queue-token-required");
}

#[tokio::test]
async fn keys_of_the_configuration_are_replaced_there() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [[1u8; 32], [2; 32]].map(|key| URL_SAFE_NO_PAD.encode(key));
    let text = format!("[token]\nsigning_key = \"{},{}\"\n", keys[0], keys[1]);
    std::fs::write(folder.path().join("maitred.toml"), text).unwrap();
    let told = crate::process::run(folder.path(), &["keys", "rotate"]);
    assert!(complaint(&told, 1).contains("set in the configuration"));
    let program = tokio::task::spawn_blocking({
        let folder = folder.path().to_owned();
        move || crate::process::Program::serve(&folder, &[])
    });
    let program = program.await.unwrap();
    let claims = Claims {
        sub: booking::PersonId(7),
        name: "Some guest".into(),
        exp: jiff::Timestamp::now().as_second() + 60,
    };
    for (key, status) in [([1u8; 32], 200), ([2; 32], 200), ([3; 32], 401)] {
        let token = Signer::new(&key).unwrap().sign(&claims);
        program.client.guest(token).get("/api/wallet").await.expect(status);
    }
}
