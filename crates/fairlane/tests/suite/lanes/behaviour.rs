//! What lanes do, on one server and on a cluster.

use std::time::Duration;

use fairlane::RedisConfig;
use fairlane::lanes::{Drawn, Entered, Entry, Message, Settlement, Terms};
use testkit::{RedisCluster, RedisServer};
use tokio::time::timeout;

use super::*;

async fn numbers_are_given_in_order_and_owners_go_first(config: RedisConfig) {
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    let entries = [guest(1), owner(2), guest(3), guest(4), owner(5), owner(6), guest(7)];
    let entered = enter_all(&lanes, &key, &entries).await;
    assert_eq!(entered.iter().map(|place| place.number).collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
    let look = lanes.look(&key).await.unwrap().unwrap();
    assert_eq!((look.first, look.last, look.waiting, look.gone), (1, 7, 4, vec![2, 5, 6]));

    let first = batch(&lanes, &key, 2, None).await;
    assert_eq!(payloads(&first), ["2", "5"], "no guest while an owner is left behind");
    let second = batch(&lanes, &key, 3, Some(&Settlement::default())).await;
    assert_eq!(payloads(&second), ["6", "1", "3"]);
    assert!(second.iter().all(|drawee| !drawee.again));
    let found = lanes.find(&key, entered[6]).await.unwrap().unwrap();
    assert_eq!(found.payload, "7");
    let position = found.position.unwrap();
    assert_eq!((position.ahead, position.waiting), (3, 4), "those being decided are ahead");
    assert!(lanes.find(&key, entered[2]).await.unwrap().unwrap().position.is_none());
    enter_all(&lanes, &key, &[guest(8), owner(9), guest(10)]).await;
    assert_eq!(drain(&lanes, &key, Some(Settlement::default())).await, ["9", "4", "7", "8", "10"]);
    assert!(lanes.find(&key, entered[6]).await.unwrap().is_none());

    // Owners alone, while nobody stands there, leave no gaps behind.
    enter_all(&lanes, &key, &[owner(11), guest(12)]).await;
    let look = lanes.look(&key).await.unwrap().unwrap();
    assert_eq!((look.first, look.last, look.waiting, look.gone), (12, 12, 1, vec![]));
}

async fn exactly_one_is_told_to_run(config: RedisConfig) {
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    assert!(enter_as(&one, &key, &TERMS, &[guest(1)]).await.1);
    assert!(!enter_as(&one, &key, &TERMS, &[guest(2)]).await.1);
    assert!(!enter_as(&other, &key, &TERMS, &[guest(3)]).await.1);
    assert!(matches!(other.draw(&key, 10, None).await.unwrap(), Drawn::Taken));
    assert!(one.renew(&key).await.unwrap() && !other.renew(&key).await.unwrap());
    assert_eq!(payloads(&batch(&one, &key, 2, None).await), ["1", "2"]);
    one.give_back(&key, Some(&Settlement::default())).await.unwrap();
    assert!(!one.look(&key).await.unwrap().unwrap().has_runner);
    assert!(enter_as(&other, &key, &TERMS, &[guest(4)]).await.1);
    assert_eq!(drain(&other, &key, None).await, ["3", "4"]);
    assert!(enter_as(&one, &key, &TERMS, &[guest(5)]).await.1, "an empty lane was given back");
    // What is given back without being settled is drawn again by the next.
    assert_eq!(payloads(&batch(&one, &key, 2, None).await), ["5"]);
    one.give_back(&key, None).await.unwrap();
    let again = batch(&other, &key, 2, None).await;
    assert!(again.len() == 1 && again[0].again && again[0].payload == "5");
}

async fn a_guard_admits_one_request_and_knows_it_again(config: RedisConfig) {
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    let place = enter_all(&one, &key, &[guarded(1, "ann")]).await[0];
    let entered = enter(&other, &key, &[guarded(1, "ann"), guarded(2, "ann"), guarded(3, "bob")]).await;
    assert_eq!(entered[..2], [Entered::In(place), Entered::InProgress(place)]);
    let bob = places(&entered[2..])[0];
    let twice = enter(&other, &key, &[guarded(4, "cid"), guarded(5, "cid"), guarded(4, "cid")]).await;
    let cid = places(&twice[..1])[0];
    assert_eq!(twice[1..], [Entered::InProgress(cid), Entered::In(cid)], "also within one call");

    batch(&one, &key, 2, None).await;
    let settle = Settlement {
        guards: vec!["bob".into()],
        kept: vec![("ann".into(), place)],
        keep: LONG,
        ..Settlement::default()
    };
    batch(&one, &key, 2, Some(&settle)).await;
    let entered = enter(&one, &key, &[guarded(6, "ann"), guarded(1, "ann"), guarded(7, "bob")]).await;
    assert_eq!(
        entered[..2],
        [Entered::InProgress(place), Entered::InProgress(place)],
        "a winner's guard stands for a while"
    );
    assert!(places(&entered[2..])[0] > bob);

    let forget = Settlement { forget: vec![("a".into(), "ann".into())], ..Settlement::default() };
    batch(&one, &key, 10, Some(&forget)).await;
    places(&enter(&one, &key, &[guarded(8, "ann")]).await);
    // The guard of a lane is no guard of another one.
    places(&enter(&one, &lane("g", "b"), &[guarded(9, "ann")]).await);
    assert_eq!(drain(&one, &key, Some(Settlement::default())).await, ["8"]);
    places(&enter(&one, &key, &[guarded(10, "ann")]).await);
}

async fn a_claim_is_of_the_whole_group(config: RedisConfig) {
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    let claiming = |request, claim: &str| Entry { claim: Some(claim.into()), ..guest(request) };
    let place = enter_all(&lanes, &key, &[claiming(1, "ann")]).await[0];
    let elsewhere = lane("g", "b");
    let entered = enter(&lanes, &elsewhere, &[claiming(2, "ann"), claiming(3, "bob")]).await;
    assert_eq!(entered[0], Entered::InProgressIn("a".into(), place));
    let bob = places(&entered[1..])[0];
    assert_eq!(enter(&lanes, &key, &[claiming(1, "ann")]).await, [Entered::In(place)]);
    places(&enter(&lanes, &lane("h", "a"), &[claiming(4, "ann")]).await);

    assert!(lanes.leave(&elsewhere, bob, None, Some("bob"), None).await.unwrap());
    places(&enter(&lanes, &elsewhere, &[claiming(5, "bob")]).await);
    batch(&lanes, &key, 1, None).await;
    let settle = Settlement { claims: vec!["ann".into()], ..Settlement::default() };
    assert!(matches!(lanes.draw(&key, 1, Some(&settle)).await.unwrap(), Drawn::Nobody));
    places(&enter(&lanes, &elsewhere, &[claiming(6, "ann")]).await);
}

async fn a_leaver_frees_its_place_and_its_names(config: RedisConfig) {
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    let entries: Vec<_> = (1..=6).map(|n| guarded(n, &format!("guest {n}"))).collect();
    let entered = enter_all(&lanes, &key, &entries).await;
    assert!(lanes.leave(&key, entered[2], Some("guest 3"), None, None).await.unwrap());
    assert!(!lanes.leave(&key, entered[2], Some("guest 3"), None, None).await.unwrap());
    assert!(
        lanes.leave(&key, entered[0], Some("guest 2"), None, None).await.unwrap(),
        "with another's guard"
    );
    let look = lanes.look(&key).await.unwrap().unwrap();
    assert_eq!((look.first, look.waiting, look.gone.clone()), (2, 4, vec![3]));
    let at = |number| Place { epoch: look.born, number };
    assert_eq!(look.position(at(4)).unwrap().ahead, 1);
    assert!(
        look.position(at(3)).is_none() && look.position(at(1)).is_none() && look.position(at(7)).is_none()
    );
    assert_eq!(lanes.find(&key, entered[3]).await.unwrap().unwrap().position.unwrap().ahead, 1);
    let entered_again = enter(&lanes, &key, &[guarded(7, "guest 2"), guarded(8, "guest 3")]).await;
    assert_eq!(entered_again[0], Entered::InProgress(entered[1]));
    assert!(matches!(entered_again[1], Entered::In(place) if place.number == 7));
    assert_eq!(payloads(&batch(&lanes, &key, 2, None).await), ["2", "4"]);
    assert!(!lanes.leave(&key, entered[3], None, None, None).await.unwrap(), "its turn has come");
    for place in [entered[4], entered[5]] {
        assert!(lanes.leave(&key, place, None, None, None).await.unwrap());
    }
    assert_eq!(lanes.waiting("g", &["a".into(), "b".into()]).await.unwrap(), [1, 0]);
    assert_eq!(drain(&lanes, &key, Some(Settlement::default())).await, ["8"]);
}

async fn past_the_bound_guests_are_refused_and_owners_are_not(config: RedisConfig) {
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    let terms = Terms { bound: 2, ..TERMS };
    let entries = [guest(1), guest(2), guest(3), owner(4)];
    let (entered, _) = enter_as(&lanes, &key, &terms, &entries).await;
    assert_eq!(entered[2], Entered::Full { waiting: 2 });
    assert!(lanes.leave(&key, places(&entered[..1])[0], None, None, None).await.unwrap());
    let (entered, _) = enter_as(&lanes, &key, &terms, &[guest(5), guest(6)]).await;
    assert_eq!(entered[1], Entered::Full { waiting: 2 });
    assert_eq!(drain(&lanes, &key, None).await, ["4", "2", "5"]);
}

async fn the_rate_is_of_the_group_whoever_enters_where(config: RedisConfig) {
    let (one, other) = (process(&config).await, process(&config).await);
    let terms = Terms { rate: Some((5, Duration::from_secs(3))), ..TERMS };
    let limited = |request| Entry { limited: true, ..guarded(request, &format!("{request}")) };
    let first: Vec<_> = (1..=3).map(limited).collect();
    places(&enter_as(&one, &lane("g", "a"), &terms, &first).await.0);
    let mut second: Vec<_> = (4..=7).map(limited).collect();
    second.push(owner(8));
    let (entered, _) = enter_as(&other, &lane("g", "b"), &terms, &second).await;
    places(&[entered[0].clone(), entered[1].clone(), entered[4].clone()]);
    let Entered::Limited(wait) = entered[2] else { panic!("{:?}", entered[2]) };
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs(3), "{wait:?}");
    assert_eq!(entered[2], entered[3]);
    // Known requests do not count again.
    places(&enter_as(&one, &lane("g", "a"), &terms, &first).await.0);
    places(&enter_as(&one, &lane("h", "a"), &terms, &first).await.0);
    tokio::time::sleep(wait).await;
    places(&enter_as(&one, &lane("g", "a"), &terms, &[limited(9)]).await.0);
}

async fn messages_reach_the_client_they_are_for(config: RedisConfig) {
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    let (mut ours, mut theirs) = (one.messages(), other.messages());
    for heard in [&mut ours, &mut theirs] {
        assert!(matches!(timeout(LONG, heard.recv()).await.unwrap(), Some(Message::Connected)));
    }
    enter_all(&one, &key, &[guest(1)]).await;
    batch(&one, &key, 1, None).await;
    let messages = vec![
        (other.client().into(), "to them".to_owned()),
        (one.client().into(), "to us".to_owned()),
        ("nobody".into(), "lost".to_owned()),
    ];
    one.give_back(&key, Some(&Settlement { messages, ..Settlement::default() })).await.unwrap();
    for (heard, expected) in [(&mut ours, "to us"), (&mut theirs, "to them")] {
        match timeout(LONG, heard.recv()).await.unwrap() {
            Some(Message::Said(text)) => assert_eq!(text, expected),
            other => panic!("{other:?}"),
        }
    }
}

async fn the_unattended_are_found(config: RedisConfig) {
    let (one, other) = (process(&config).await, process(&config).await);
    assert!(other.unattended().await.unwrap().is_empty());
    let left = [lane("g{1}", "a"), lane("g{1}", "b:c"), lane("h", "a")];
    let attended = lane("h", "b");
    for key in left.iter().chain([&attended]) {
        enter_all(&one, key, &[guest(1)]).await;
    }
    assert!(other.unattended().await.unwrap().is_empty());
    for key in &left {
        one.give_back(key, None).await.unwrap();
    }
    let mut found = other.unattended().await.unwrap();
    found.sort_by(|a, b| (&a.group, &a.lane).cmp(&(&b.group, &b.lane)));
    assert_eq!(found, left);
    for key in &left {
        assert_eq!(drain(&other, key, None).await, ["1"]);
    }
    assert!(one.unattended().await.unwrap().is_empty());
}

async fn notes_and_the_pace_are_passed_on(config: RedisConfig) {
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    enter_all(&one, &key, &(1..=30).map(guest).collect::<Vec<_>>()).await;
    assert!(one.look(&key).await.unwrap().unwrap().pace.is_none());
    let Drawn::Batch { note: None, .. } = one.draw(&key, 10, None).await.unwrap() else {
        panic!("nothing has been noted")
    };
    let settle = Settlement { note: "version 7".into(), decided: 10, ..Settlement::default() };
    one.give_back(&key, Some(&settle)).await.unwrap();
    let pace = one.look(&key).await.unwrap().unwrap().pace.unwrap();
    assert!(pace > 0.0);
    let Drawn::Batch { note, .. } = other.draw(&key, 10, None).await.unwrap() else { panic!("20 are left") };
    assert_eq!(note.as_deref(), Some("version 7"));
    let look = other.look(&key).await.unwrap().unwrap();
    assert_eq!((look.waiting, look.deciding), (10, 10));
    let at = |number| Place { epoch: look.born, number };
    assert_eq!(look.position(at(30)).unwrap().ahead, 19);
    assert_eq!(look.position(at(30)).unwrap().pace, Some(pace));
    other.give_back(&key, Some(&Settlement { decided: 10, ..Settlement::default() })).await.unwrap();
    assert!(other.look(&key).await.unwrap().unwrap().pace.unwrap() != pace);
}

/// Runs each on a server of its own; and lists them for the cluster.
macro_rules! behaviours {
    ($($name:ident),+ $(,)?) => {
        mod redis {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                let server = RedisServer::start();
                super::$name(on(&server)).await;
            })+
        }

        /// All of them on one cluster, each under a prefix of its own.
        #[tokio::test]
        async fn everything_holds_on_a_cluster() {
            let cluster = RedisCluster::start();
            $($name(unhurried(RedisConfig::cluster(cluster.urls()).with_prefix(stringify!($name)))).await;)+
        }
    };
}

behaviours!(
    numbers_are_given_in_order_and_owners_go_first,
    exactly_one_is_told_to_run,
    a_guard_admits_one_request_and_knows_it_again,
    a_claim_is_of_the_whole_group,
    a_leaver_frees_its_place_and_its_names,
    past_the_bound_guests_are_refused_and_owners_are_not,
    the_rate_is_of_the_group_whoever_enters_where,
    messages_reach_the_client_they_are_for,
    the_unattended_are_found,
    notes_and_the_pace_are_passed_on,
);
