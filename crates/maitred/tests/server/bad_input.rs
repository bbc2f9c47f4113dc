//! What makes no sense gets the contract's answer and changes nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use booking::VenueId;
use hyper::Method;
use hyper::header::HeaderValue;
use maitred::signing::{Claims, Signer};
use serde_json::{Value, json};

use crate::app::{MORNING, TOMORROW, TestApp, noon, places};
use crate::client::{Answer, Guest};

/// For answers that a busy machine may take a while to give.
const PATIENT: [(&str, &str); 1] = [("prefer", "wait=10")];

/// A venue with a menu, and a guest who has a reservation tomorrow at one and points.
struct Scene {
    app: TestApp,
    venue: VenueId,
    staff: Guest,
    guest: Guest,
    held: Value,
}

impl Scene {
    async fn set() -> Self {
        let app = TestApp::start().await;
        let (venue, staff) = app.open(places(20)).await;
        let menu = json!({"items": [{"name": "Noodles", "price": 11_000}]});
        staff.put(&format!("/api/venues/{venue}/menu"), menu).await.expect(200);
        let guest = app.rich().await;
        let held = guest.seated(crate::steps::wish(venue, "13:00", 2)).await;
        Self { app, venue, staff, guest, held }
    }

    /// Everything that a request might have changed.
    async fn all(&self) -> Value {
        let venue = format!("/api/venues/{}", self.venue);
        let day = format!("{venue}/availability?date={TOMORROW}");
        let mut all = vec![json!(self.app.rows())];
        for path in [&venue, &day, &format!("{venue}/menu"), "/api/reservations", "/api/wallet/entries"] {
            all.push(self.guest.get(path).await.expect(200).json());
        }
        all.into()
    }

    /// A wish for noon with one member changed; `null` leaves it out.
    fn but(&self, member: &str, value: Value) -> Value {
        let mut wish = noon(self.venue, 2);
        if value.is_null() {
            wish.as_object_mut().unwrap().remove(member);
        } else {
            wish[member] = value;
        }
        wish
    }

    fn reservation(&self) -> String {
        format!("/api/reservations/{}", self.held["id"].as_str().unwrap())
    }
}

/// A refused request whose errors point to this place.
#[track_caller]
fn points_to(answer: &Answer, pointer: &str) {
    let problem = answer.clone().refused(422, "invalid-request").json();
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no errors in {problem}"));
    assert!(errors.iter().any(|error| error["pointer"] == pointer), "{pointer} in {problem}");
    assert!(errors.iter().all(|error| error["message"].as_str().is_some_and(|m| !m.is_empty())), "{problem}");
}

#[tokio::test]
async fn a_wish_that_cannot_be_is_refused_with_the_place_that_is_wrong() {
    let scene = Scene::set().await;
    // Eleven today has just begun.
    scene.app.wait(3_600);
    // The hold of the scene would run out with the clock.
    let held = || async { (scene.guest.look(&scene.held).await["status"] == "EXPIRED").then_some(()) };
    crate::steps::until("the sweep", held).await;
    let before = scene.all().await;
    let wrong = [
        (
            "partySize",
            vec![json!(0), json!(101), json!(10_000), json!(-1), json!(2.5), json!(2.0), json!("2")],
        ),
        ("partySize", vec![json!(4_294_967_298_u64), json!(true), json!([2]), json!({}), Value::Null]),
        ("date", ["2026-11-30", "2027-01-31", "9999-12-31", "0000-01-01"].map(Value::from).to_vec()),
        (
            "date",
            ["", "tomorrow", "2026-13-01", "2026-02-30", "2026-12-2", "20261202"].map(Value::from).to_vec(),
        ),
        ("date", vec![json!("2026-12-02T12:00"), json!("+002026-12-02"), json!(20261202), Value::Null]),
        ("time", ["", "12:30", "10:00", "21:00", "24:00", "12:0", "12", "noon"].map(Value::from).to_vec()),
        ("time", vec![json!("12:00:00"), json!(" 12:00"), json!("１２:00"), json!(12), Value::Null]),
        ("payment", vec![json!("cash"), json!("Deposit"), json!(1), Value::Null]),
        ("venueId", vec![json!(1), json!([]), Value::Null]),
        ("seats", vec![json!(["A1"]), json!("A1")]),
        ("items", vec![json!([{"menuItemId": "1", "quantity": 1}]), json!("1"), json!({"menuItemId": "1"})]),
        ("note", vec![json!("x".repeat(501)), json!(7)]),
        ("remaining", vec![json!(20)]),
        ("status", vec![json!("CONFIRMED")]),
    ];
    for (member, values) in wrong {
        for value in values {
            let answer = scene.guest.book(scene.but(member, value.clone())).await;
            // What is missing is missed in the whole, not in a place; but a party may be as many as its seats.
            let whole = value.is_null() && member != "partySize";
            let pointer = if whole { String::new() } else { format!("/{member}") };
            points_to(&answer, &pointer);
        }
    }
    let mut today = scene.but("time", json!("11:00"));
    today["date"] = MORNING[..10].into();
    points_to(&scene.guest.book(today.clone()).await, "/date");
    let both = json!({"venueId": scene.venue.to_string(), "date": "x", "time": "y", "partySize": 0, "payment": "deposit"});
    let answer = scene.guest.book(both).await;
    for pointer in ["/date", "/time", "/partySize"] {
        points_to(&answer, pointer);
    }
    for (pointer, item) in [
        ("/items", json!({"menuItemId": "2", "quantity": 1})),
        ("/items", json!({"menuItemId": "x", "quantity": 1})),
        ("/items", json!({"menuItemId": "1", "quantity": 0})),
        ("/items", json!({"menuItemId": "1", "quantity": 100})),
        ("/items/0/quantity", json!({"menuItemId": "1", "quantity": -1})),
        ("/items/0/menuItemId", json!({"menuItemId": 1, "quantity": 1})),
        ("/items/0/price", json!({"menuItemId": "1", "quantity": 1, "price": 1})),
    ] {
        let mut wish = scene.but("payment", json!("prepay"));
        wish["items"] = json!([item]);
        points_to(&scene.guest.book(wish).await, pointer);
    }
    let mut feast = scene.but("payment", json!("prepay"));
    feast["items"] = vec![json!({"menuItemId": "1", "quantity": 1}); 51].into();
    points_to(&scene.guest.book(feast).await, "/items");
    assert_eq!(scene.all().await, before);

    // The edges of what is right.
    today["time"] = json!("12:00");
    scene.guest.seated(today).await;
    scene.guest.seated(scene.but("date", json!("2027-01-30"))).await;
    scene.guest.seated(scene.but("note", json!("예".repeat(500)))).await;
    scene.app.stop().await;
}

#[tokio::test]
async fn a_body_that_is_not_one_json_object_is_refused() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let good = noon(scene.venue, 2).to_string();
    let bodies = [
        String::new(),
        " ".into(),
        "{".into(),
        "null".into(),
        "7".into(),
        "\"a wish\"".into(),
        format!("[{good}]"),
        format!("{good}{good}"),
        format!("{good} and more"),
        good.replace("\"partySize\":2", "\"partySize\":2,\"partySize\":3"),
        good.replace("12:00", "12:\u{0}00"),
        format!("\u{feff}{good}"),
        "[".repeat(10_000),
    ];
    for body in bodies {
        let answer = scene.guest.call(Method::POST, "/api/reservations", &[], body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "invalid-request"), "{body:.80}");
    }
    let not_utf8 = [good.as_bytes(), &[0xff]].concat();
    scene.guest.call(Method::POST, "/api/reservations", &[], not_utf8).await.refused(422, "invalid-request");

    let large = format!("{good}{}", " ".repeat(64 * 1_024 + 1 - good.len()));
    let too_large = scene.guest.call(Method::POST, "/api/reservations", &[], large.clone()).await;
    too_large.refused(413, "payload-too-large");
    let streamed = axum::body::Body::new(http_body_util::StreamBody::new(futures_util::stream::iter(
        [good.clone(), " ".repeat(64 * 1_024)]
            .map(|part| Ok::<_, std::io::Error>(hyper::body::Frame::data(part.into()))),
    )));
    scene
        .guest
        .call(Method::POST, "/api/reservations", &[], streamed)
        .await
        .refused(413, "payload-too-large");
    assert_eq!(scene.all().await, before);
    // One byte less is large enough for anybody.
    scene
        .guest
        .call(Method::POST, "/api/reservations", &[], large[..64 * 1_024].to_owned())
        .await
        .expect(201);
    scene.app.stop().await;
}

#[tokio::test]
async fn unknown_members_are_refused_everywhere() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let venue = format!("/api/venues/{}", scene.venue);
    let (reservation, guest, staff) = (scene.reservation(), &scene.guest, &scene.staff);
    let account = json!({"email": "a@example.org", "password": "long enough", "name": "A", "role": "staff"});
    let session = json!({"email": "a@example.org", "password": "long enough", "extra": 1});
    let cases = [
        (guest, Method::POST, "/api/accounts".to_owned(), account, "/role"),
        (guest, Method::POST, "/api/sessions".into(), session, "/extra"),
        (guest, Method::POST, "/api/wallet/charges".into(), json!({"amount": 1, "to": "me"}), "/to"),
        (
            guest,
            Method::POST,
            format!("{reservation}/payment"),
            json!({"method": "points", "amount": 1}),
            "/amount",
        ),
        (
            guest,
            Method::PATCH,
            reservation.clone(),
            json!({"partySize": 3, "status": "CONFIRMED"}),
            "/status",
        ),
        (guest, Method::POST, format!("{reservation}/cancel"), json!({"refund": 100}), "/refund"),
        (staff, Method::POST, format!("{reservation}/complete"), json!({"early": true}), "/early"),
        (staff, Method::POST, format!("{reservation}/no-show"), json!({"why": "late"}), "/why"),
        (staff, Method::POST, format!("{reservation}/refund"), json!({"amount": 1}), "/amount"),
        (staff, Method::POST, "/api/venues".into(), json!({"name": "B", "owner": "me"}), "/owner"),
        (staff, Method::POST, "/api/venues".into(), json!({"name": "B", "kind": "cinema"}), "/kind"),
        (
            staff,
            Method::PATCH,
            venue.clone(),
            json!({"policy": {"depositPerHead": 1}}),
            "/policy/depositPerHead",
        ),
        (staff, Method::PATCH, venue.clone(), json!({"times": {"someday": []}}), "/times/someday"),
        (staff, Method::PUT, format!("{venue}/tables"), json!({"tables": [], "x": 1}), "/x"),
        (
            staff,
            Method::PUT,
            format!("{venue}/tables"),
            json!({"tables": [{"number": 1, "seats": 2, "x": 1}]}),
            "/tables/0/x",
        ),
        (
            staff,
            Method::PUT,
            format!("{venue}/menu"),
            json!({"items": [{"name": "A", "price": 1, "id": "7"}]}),
            "/items/0/id",
        ),
    ];
    for (who, method, path, body, pointer) in cases {
        let answer = who.call(method, &path, &[], body.to_string()).await;
        points_to(&answer, pointer);
    }
    for path in [
        format!("{venue}/availability?date={TOMORROW}&party=2"),
        format!("{venue}/availability"),
        format!("{venue}/availability?date=soon"),
        format!("{venue}/reservations?date=2026-12-2"),
        "/api/reservations?page=2".into(),
        "/api/reservations?cursor=x".into(),
        "/api/wallet/entries?cursor=x".into(),
    ] {
        staff.get(&path).await.refused(422, "invalid-request");
    }
    assert_eq!(scene.all().await, before);
    scene.app.stop().await;
}

#[tokio::test]
async fn values_out_of_range_are_refused_everywhere() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let venue = format!("/api/venues/{}", scene.venue);
    let (reservation, guest, staff) = (scene.reservation(), &scene.guest, &scene.staff);
    for amount in
        [json!(0), json!(-1), json!(10_000_001), json!(1.5), json!("1"), json!(i64::MAX), Value::Null]
    {
        guest.post("/api/wallet/charges", json!({"amount": amount})).await.refused(422, "invalid-request");
    }
    for method in [json!("cash"), json!(1), Value::Null] {
        let answer = guest.post(&format!("{reservation}/payment"), json!({"method": method})).await;
        answer.refused(422, "invalid-request");
    }
    for change in [
        json!({}),
        json!({"partySize": 0}),
        json!({"partySize": 101}),
        json!({"date": "2026-11-30"}),
        json!({"date": "soon"}),
        json!({"time": "12:30"}),
        json!([]),
    ] {
        guest.patch(&reservation, change).await.refused(422, "invalid-request");
    }
    for settings in [
        json!({"name": " "}),
        json!({"name": "x".repeat(101)}),
        json!({"capacity": 0}),
        json!({"inventory": "tables"}),
        json!({"inventory": "seats"}),
        json!({"tables": [{"number": 1, "seats": 0}]}),
        json!({"timeZone": "Nowhere/Land"}),
        json!({"times": {"monday": ["25:00"]}}),
        json!({"bookAheadDays": 0}),
        json!({"policy": {"refundSameDay": 101}}),
        json!({"policy": {"depositPerPerson": -1}}),
        json!({"policy": {"holdSeconds": 1}}),
    ] {
        staff.patch(&venue, settings).await.refused(422, "invalid-request");
    }
    for item in [json!({"name": "", "price": 1}), json!({"name": "A", "price": -1}), json!({"name": "A"})] {
        staff.put(&format!("{venue}/menu"), json!({"items": [item]})).await.refused(422, "invalid-request");
    }
    for account in [
        json!({"email": "nobody", "password": "long enough", "name": "A"}),
        json!({"email": "a@example.org", "password": "short", "name": "A"}),
        json!({"email": "a@example.org", "password": "long enough", "name": " "}),
    ] {
        guest.post("/api/accounts", account).await.refused(422, "invalid-request");
    }
    for (method, path, body) in [
        (Method::PATCH, venue.clone(), json!({"name": "Mine"})),
        (Method::PUT, format!("{venue}/menu"), json!({"items": []})),
        (Method::PUT, format!("{venue}/tables"), json!({"tables": [{"number": 1, "seats": 2}]})),
        (Method::GET, format!("{venue}/reservations?date={TOMORROW}"), Value::Null),
    ] {
        guest.call(method, &path, &[], body.to_string()).await.refused(403, "forbidden");
    }
    assert_eq!(scene.all().await, before);
    scene.app.stop().await;
}

/// A character that PostgreSQL cannot keep.
#[tokio::test]
async fn a_nul_is_refused_wherever_a_text_may_stand() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let venue = format!("/api/venues/{}", scene.venue);
    let (guest, staff) = (&scene.guest, &scene.staff);
    let account = |member: &str, value: &str| {
        let mut account = json!({"email": "a@example.org", "password": "long enough", "name": "A"});
        account[member] = value.into();
        account
    };
    let items = json!({"items": [{"name": "Tea", "price": 1}, {"name": "\0", "price": 1}]});
    let sign_in = json!({"email": "a@example.org\0", "password": "long enough"});
    let cases = [
        (guest, Method::POST, "/api/reservations".to_owned(), scene.but("note", "a\0b".into()), "/note"),
        (guest, Method::POST, "/api/accounts".into(), account("name", "Al\0"), "/name"),
        (guest, Method::POST, "/api/accounts".into(), account("email", "a\0@example.org"), "/email"),
        (guest, Method::POST, "/api/accounts".into(), account("password", "long\0enough"), "/password"),
        (guest, Method::POST, "/api/sessions".into(), sign_in, "/email"),
        (staff, Method::POST, "/api/venues".into(), json!({"name": "\0Here"}), "/name"),
        (staff, Method::PATCH, venue.clone(), json!({"name": "He\0re"}), "/name"),
        (staff, Method::PUT, format!("{venue}/menu"), items, "/items/1/name"),
    ];
    for (who, method, path, body, pointer) in cases {
        let body = body.to_string();
        assert!(body.contains("\\u0000"), "{body}");
        points_to(&who.call(method, &path, &[], body).await, pointer);
    }
    assert_eq!(scene.all().await, before);
    // Whoever writes about it may.
    let note = "what does \\u0000 mean?";
    let booked = guest.book(scene.but("note", note.into())).await.expect(201).json();
    assert_eq!(booked["note"], note);
    scene.app.stop().await;
}

#[tokio::test]
async fn a_key_is_short_visible_and_for_one_request() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let wish = noon(scene.venue, 2).to_string();
    let book = |key: &[u8], body: &str| {
        let mut request = scene.guest.request(Method::POST, "/api/reservations", &PATIENT, body.to_owned());
        request.headers_mut().insert("idempotency-key", HeaderValue::from_bytes(key).unwrap());
        scene.guest.client.send(request)
    };
    // A NUL never gets this far: it is no part of a header.
    assert!(HeaderValue::from_bytes(b"a\0b").is_err());
    for key in [b"".as_slice(), b"   ", &[b'x'; 256], "열쇠".as_bytes(), &[0xff]] {
        points_to(&book(key, &wish).await, "Idempotency-Key:");
    }
    assert_eq!(scene.all().await, before);

    let longest = [b'x'; 255];
    let booked = book(&longest, &wish).await.expect(201).json();
    let after = scene.all().await;
    assert_eq!(book(&longest, &wish).await.expect(201).json(), booked);
    book(&longest, &noon(scene.venue, 3).to_string()).await.refused(422, "idempotency-mismatch");
    let elsewhere = crate::steps::wish(scene.venue, "18:00", 2).to_string();
    book(&longest, &elsewhere).await.refused(422, "idempotency-mismatch");
    assert_eq!(scene.all().await, after);
    // Somebody else's key is another key.
    let mut request = scene.app.guest().request(Method::POST, "/api/reservations", &PATIENT, wish);
    request.headers_mut().insert("idempotency-key", HeaderValue::from_bytes(&longest).unwrap());
    assert_ne!(scene.app.client.send(request).await.expect(201).json()["id"], booked["id"]);
    scene.app.stop().await;
}

#[tokio::test]
async fn a_key_in_line_is_for_one_request_too() {
    let scene = Scene::set().await;
    let jam = scene.app.jam();
    let headers = [("idempotency-key", "lunch"), ("prefer", "wait=0")];
    let book = |party| {
        let wish = noon(scene.venue, party).to_string();
        let guest = &scene.guest;
        async move { guest.call(Method::POST, "/api/reservations", &headers, wish).await }
    };
    book(2).await.expect(202);
    book(3).await.refused(422, "idempotency-mismatch");
    jam.release();
    scene.app.stop().await;
}

#[tokio::test]
async fn only_tokens_of_ours_that_are_still_good_open_anything() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let app = scene.app.server().app();
    let (person, good) = scene.app.person();
    let good = good.token.unwrap();
    let claims = |exp| Claims { sub: person, name: "Mallory".into(), exp };
    let now = app.clock.now().as_second();
    let [header, payload, signature]: [&str; 3] =
        good.split('.').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{good}"));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let longer = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims(now + 999_999_999)).unwrap());
    let tokens = [
        String::new(),
        "nonsense".into(),
        Signer::new(&[9; 32]).unwrap().sign(&claims(now + 60)),
        app.signer.sign(&claims(now)),
        good[..good.len() - 1].to_owned(),
        format!("{header}.{payload}"),
        format!("{header}.{payload}."),
        format!("{none}.{payload}."),
        format!("{none}.{payload}.{signature}"),
        format!("{header}.{longer}.{signature}"),
        format!("{good}{}", "A".repeat(4_096)),
    ];
    let everybody = tokens.into_iter().map(|token| scene.app.client.guest(token));
    for guest in everybody.chain([scene.app.client.anybody()]) {
        let wish = noon(scene.venue, 2);
        for answer in
            [guest.get("/api/reservations").await, guest.book(wish).await, guest.book(json!({})).await]
        {
            let answer = answer.refused(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{answer:?}");
        }
    }
    let basic = [("authorization", "Basic YTpi")];
    let anybody = scene.app.client.anybody();
    anybody.call(Method::GET, "/api/wallet", &basic, "").await.refused(401, "unauthenticated");
    assert_eq!(scene.all().await, before);
    scene.app.client.guest(good).get("/api/wallet").await.expect(200);
    scene.app.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let scene = Scene::set().await;
    let before = scene.all().await;
    let nobody = "00000000000000000000000000";
    for path in [
        "/nothing".to_owned(),
        "/api".into(),
        "/api/nothing".into(),
        "/api/reservations/".into(),
        "/docs/nothing".into(),
        "/api/venues/999".into(),
        "/api/venues/abc".into(),
        "/api/venues/01".into(),
        "/api/venues/-1".into(),
        "/api/venues/%ff".into(),
        "/api/venues/99999999999999999999/menu".into(),
        format!("/api/venues/999/availability?date={TOMORROW}"),
        "/api/venues/999/dates".into(),
        format!("/api/venues/999/reservations?date={TOMORROW}"),
        format!("/api/reservations/{nobody}"),
        "/api/reservations/x".into(),
        format!("/api/tickets/{nobody}"),
        format!("/api/tickets/{nobody}/events"),
        "/api/tickets/x".into(),
    ] {
        scene.guest.get(&path).await.refused(404, "not-found");
    }
    for venue in ["999", "abc", "", " 1"] {
        scene.guest.book(scene.but("venueId", venue.into())).await.refused(404, "not-found");
    }
    for (method, path, allow) in [
        (Method::DELETE, "/api/reservations", "GET,HEAD,POST"),
        (Method::POST, "/api/wallet", "GET,HEAD"),
        (Method::GET, "/api/sessions", "POST"),
        (Method::PUT, "/health/live", "GET,HEAD"),
        (Method::POST, "/", "GET,HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), "/api/venues", "GET,HEAD,POST"),
    ] {
        let answer = scene.guest.call(method, path, &[], "").await.refused(405, "method-not-allowed");
        let mut allowed: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{path}");
    }
    assert_eq!(scene.all().await, before);
    scene.app.stop().await;
}

#[tokio::test]
async fn a_preference_that_makes_no_sense_is_ignored() {
    let scene = Scene::set().await;
    for preference in ["wait=-1", "wait=soon", "wait=", "wait", "respond-async", "=;,", "wait=1.5"] {
        let guest = scene.app.guest();
        let body = noon(scene.venue, 1).to_string();
        let answer = guest.call(Method::POST, "/api/reservations", &[("prefer", preference)], body).await;
        assert!(answer.status.is_success(), "{preference}: {answer:?}");
        assert_eq!(answer.header("preference-applied"), "", "{preference}");
    }
    let guest = scene.app.guest();
    let several = [("prefer", "respond-async, wait=7")];
    let body = noon(scene.venue, 1).to_string();
    let answer = guest.call(Method::POST, "/api/reservations", &several, body).await.expect(201);
    assert_eq!(answer.header("preference-applied"), "wait=7");
    scene.app.stop().await;
}

#[tokio::test]
async fn details_are_told_in_the_readers_language() {
    let scene = Scene::set().await;
    let guest = &scene.guest;
    let korean = [("accept-language", "ko-KR,ko;q=0.9,en;q=0.5"), ("prefer", "wait=10")];
    let crowd = noon(scene.venue, 21).to_string();
    let refused = guest.call(Method::POST, "/api/reservations", &korean, crowd.clone()).await;
    let refused = refused.refused(409, "not-enough-places").json();
    assert_eq!(refused["detail"], "남은 자리는 20석입니다.");
    let path = format!("/api/tickets/{}", refused["ticket"]["id"].as_str().unwrap());
    let ticket = guest.call(Method::GET, &path, &korean, "").await.expect(200).json();
    assert_eq!(ticket["outcome"]["problem"]["detail"], refused["detail"]);
    let english = guest.book(noon(scene.venue, 21)).await.refused(409, "not-enough-places").json();
    assert_eq!(english["detail"], "Only 20 places are left.");

    let anybody = scene.app.client.anybody();
    let hangul = |answer: &Answer| {
        answer.json()["detail"].as_str().unwrap().chars().any(|c| ('가'..='힣').contains(&c))
    };
    let booking = "/api/reservations";
    for answer in [
        anybody.call(Method::GET, booking, &korean, "").await.refused(401, "unauthenticated"),
        guest.call(Method::GET, "/nothing", &korean, "").await.refused(404, "not-found"),
        guest.call(Method::PUT, booking, &korean, "").await.refused(405, "method-not-allowed"),
        guest.call(Method::POST, booking, &korean, "{").await.refused(422, "invalid-request"),
        guest
            .call(Method::POST, booking, &korean, " ".repeat(70_000))
            .await
            .refused(413, "payload-too-large"),
    ] {
        assert!(hangul(&answer), "{answer:?}");
    }
    assert!(!hangul(&guest.get("/nothing").await));
    scene.app.stop().await;
}
