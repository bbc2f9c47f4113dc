//! Lanes that Redis forgot, or may have forgotten in part.

use std::time::Duration;

use fairlane::RedisConfig;
use fairlane::lanes::{Drawn, Entering, Message, Place, Settlement, Terms};
use testkit::{RedisCluster, RedisServer, until};

use super::*;

const GRACE: Duration = Duration::from_millis(300);

/// Everybody in flight and in line, as `(place, payload, again)`.
async fn everybody(lanes: &SharedLanes, key: &LaneKey) -> Vec<(Place, String, bool)> {
    let (mut all, mut settle) = (Vec::new(), None);
    loop {
        match lanes.draw(key, 3, settle.as_ref()).await.unwrap() {
            Drawn::Batch { people, .. } => {
                all.extend(people.into_iter().map(|it| (it.place, it.payload, it.again)))
            }
            Drawn::Grace(left) => sleep(left).await,
            Drawn::Nobody => return all,
            Drawn::Taken => panic!("another has it"),
        }
        settle = Some(Settlement::default());
    }
}

async fn needs_epoch(lanes: &SharedLanes, key: &LaneKey, terms: &Terms) -> bool {
    matches!(lanes.enter(key, terms, &[guest(0)]).await.unwrap(), Entering::NeedsEpoch)
}

#[tokio::test]
async fn a_lane_is_born_with_an_epoch_and_raised_with_a_higher_one_only() {
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server).with_lane_grace(GRACE)).await, lane("g", "a"));
    let with = |floor, epoch| Terms { floor, epoch, ..TERMS };
    assert!(needs_epoch(&lanes, &key, &TERMS).await);
    assert!(needs_epoch(&lanes, &key, &with(5, Some(4))).await);
    assert_eq!(keys(&server), [""; 0], "nothing is changed");
    let enter =
        async |terms: Terms, request| match lanes.enter(&key, &terms, &[guest(request)]).await.unwrap() {
            Entering::Done { entered, born, .. } => (places(&entered)[0], born),
            Entering::NeedsEpoch => panic!("it needs an epoch"),
        };
    let place = |epoch, number| Place { epoch, number };
    assert_eq!(enter(with(5, Some(5)), 1).await, (place(5, 1), 5));
    assert_eq!(payloads(&batch(&lanes, &key, 1, None).await), ["1"], "new to everybody: no grace");
    assert_eq!(enter(with(4, Some(9)), 2).await, (place(5, 2), 5), "it needs none");
    assert!(needs_epoch(&lanes, &key, &with(7, Some(6))).await);
    assert_eq!(enter(with(7, Some(8)), 3).await, (place(8, 3), 5), "numbers go on");
    assert!(matches!(
        lanes.draw(&key, 5, Some(&Settlement::default())).await.unwrap(),
        Drawn::Grace(left) if left <= GRACE
    ));
    let found = lanes.find(&key, place(8, 3)).await.unwrap().unwrap();
    assert_eq!(found.position.unwrap().ahead, 1);
    assert!(lanes.find(&key, place(5, 3)).await.unwrap().is_none());
    let drawn = everybody(&lanes, &key).await;
    // The copy that goes on may be an old one, in which those who stand there have been served.
    assert_eq!(drawn, [(place(5, 2), "2".into(), true), (place(8, 3), "3".into(), false)]);
}

#[tokio::test]
async fn those_who_come_back_go_in_their_old_order_ahead_of_everybody_new() {
    let server = RedisServer::start();
    let config = on(&server).with_lane_grace(GRACE);
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    let entries: Vec<_> = (1..=12).map(|n| guarded(n, &format!("{n}"))).collect();
    let mut old = enter_all(&one, &key, &entries).await;
    let owners_place = enter_all(&one, &key, &[owner(13)]).await[0];
    old.push(owners_place);
    assert_eq!(payloads(&batch(&one, &key, 3, None).await), ["13", "1", "2"]);
    server.command(&["FLUSHALL"]);

    let again = |n: u64| Entry {
        before: Some(old[usize::try_from(n).unwrap() - 1]),
        side: if n == 13 { Side::Owner } else { Side::Guest },
        ..guarded(n, &format!("{n}"))
    };
    // Somebody new is first, and belongs to a process that knows that the group was there.
    let (new, run) = enter_as(&other, &key, &Terms { known: true, ..TERMS }, &[guarded(99, "99")]).await;
    assert!(run, "the lease is gone with the rest");
    assert!(matches!(other.draw(&key, 5, None).await.unwrap(), Drawn::Grace(_)));
    let settled = one.draw(&key, 5, Some(&Settlement::default())).await.unwrap();
    assert!(matches!(settled, Drawn::Taken));
    assert_eq!(enter_all(&one, &key, &[again(11), again(3), again(7), again(13)]).await[1], old[2]);
    enter_all(&other, &key, &[again(12), again(1), again(2)]).await;
    enter_all(&one, &key, &[again(3), again(7), again(4)]).await;
    enter_all(&other, &key, &[again(13), again(3)]).await;
    let look = other.look(&key).await.unwrap().unwrap();
    assert_eq!((look.waiting, look.returned.len(), look.first), (8, 7, 1));
    assert_eq!(look.position(Place { epoch: look.born, number: 1 }).unwrap().ahead, 7);
    let positions = [(3, 2), (12, 6), (1, 0)];
    for (n, ahead) in positions {
        let found = other.find(&key, old[n - 1]).await.unwrap().unwrap();
        assert_eq!((found.payload, found.position.unwrap().ahead), (format!("{n}"), ahead));
    }
    assert_eq!(other.find(&key, places(&new)[0]).await.unwrap().unwrap().position.unwrap().ahead, 7);
    let refused = enter(&one, &key, &[guarded(100, "4")]).await;
    assert_eq!(refused, [Entered::InProgress(old[3])], "guards came back with them");
    assert!(one.leave(&key, old[6], Some("7"), None, None).await.unwrap());

    let drawn = everybody(&other, &key).await;
    let order: Vec<_> = drawn.iter().map(|(_, payload, _)| payload.as_str()).collect();
    assert_eq!(order, ["13", "1", "2", "3", "4", "11", "12", "99"]);
    assert!(drawn[..7].iter().all(|(_, _, again)| *again) && !drawn[7].2);
}

#[tokio::test]
async fn there_is_a_grace_only_when_somebody_may_come_back() {
    let server = RedisServer::start();
    let lanes = process(&on(&server).with_lane_grace(GRACE)).await;
    let waits = async |key: &LaneKey, known, entry| {
        enter_as(&lanes, key, &Terms { known, ..TERMS }, &[entry]).await;
        matches!(lanes.draw(key, 1, None).await.unwrap(), Drawn::Grace(_))
    };
    assert!(!waits(&lane("g", "a"), false, guest(1)).await, "nobody knew the lane");
    assert!(!waits(&lane("g", "a"), true, guest(2)).await, "it is there");
    assert!(waits(&lane("g", "b"), true, guest(1)).await, "it should be there, and is not");
    let before = Place { epoch: 1, number: 9 };
    assert!(waits(&lane("i", "a"), false, back(1, before)).await, "somebody came back");
    assert!(!waits(&lane("g", "a"), false, back(1, before)).await, "it extends nothing");
}

/// A replica takes over that had not heard of the last draws and entries: who is known there and who comes back are drawn
/// in one order.
#[tokio::test]
async fn an_older_copy_and_those_it_never_knew_are_put_in_one_order() {
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server)).await, lane("g", "a"));
    let known = enter_all(&lanes, &key, &(1..=4).map(guest).collect::<Vec<_>>()).await;
    let epoch = known[0].epoch;
    let unknown = |number| Place { epoch, number };
    let terms = Terms { floor: new_epoch(), ..TERMS };
    let (new, _) = enter_as(&lanes, &key, &terms, &[guest(50), back(6, unknown(6)), guest(51)]).await;
    enter_all(&lanes, &key, &[back(5, unknown(5))]).await;
    let ahead = async |place| lanes.find(&key, place).await.unwrap().unwrap().position.unwrap().ahead;
    assert_eq!((ahead(known[3]).await, ahead(unknown(5)).await, ahead(unknown(6)).await), (3, 4, 5));
    assert_eq!(ahead(places(&new[2..])[0]).await, 7);
    let drawn = everybody(&lanes, &key).await;
    let order: Vec<_> = drawn.iter().map(|(_, payload, _)| payload.as_str()).collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6", "50", "51"]);
    assert!(drawn[..6].iter().all(|(_, _, again)| *again) && drawn[6..].iter().all(|(_, _, again)| !*again));
}

/// In a cluster the lane itself notices that another node has it.
#[tokio::test]
async fn another_node_of_a_cluster_asks_for_an_epoch() {
    let mut cluster = RedisCluster::start();
    let config = unhurried(RedisConfig::cluster(cluster.urls())).with_call_timeout(Duration::from_secs(1));
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    enter_all(&lanes, &key, &[guest(1), guest(2)]).await;
    let list = "fairlane:slot:{g}:guests:a";
    let has_line =
        |node: &RedisServer| matches!(node.try_command(&["LLEN", list]), Ok(testkit::Reply::Number(2)));
    let owner = (0..3).find(|n| has_line(&cluster.nodes()[*n])).expect("one of the primaries has the line");
    let replica = &cluster.nodes()[owner + 3];
    until("the replica has heard of it", LONG, || {
        replica.command(&["INFO", "keyspace"]).to_string().contains("keys=")
    });
    cluster.nodes()[owner].kill();
    until_true("the replica took over", async || lanes.look(&key).await.is_ok()).await;
    assert!(needs_epoch(&lanes, &key, &TERMS).await);
    let first = batch(&lanes, &key, 1, None).await;
    assert!(first[0].again && first[0].payload == "1", "it may have been served since the copy was made");
    let (entered, _) = enter_as(&lanes, &key, &TERMS, &[guest(3)]).await;
    assert_eq!(places(&entered)[0].number, 3);
    assert!(!needs_epoch(&lanes, &key, &TERMS).await);
}

#[tokio::test]
async fn whoever_left_is_not_brought_back() {
    let server = RedisServer::start();
    let config = on(&server);
    let (one, other, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    let mut messages = one.messages();
    let stood = enter_all(&one, &key, &[guarded(1, "1"), guarded(2, "2")]).await;
    // Left at a process that tells the one where the request came in.
    assert!(other.leave(&key, stood[0], Some("1"), None, Some((one.client(), "gone"))).await.unwrap());
    let found = other.find(&key, stood[0]).await.unwrap().unwrap();
    assert_eq!((found.payload.as_str(), found.position, found.left), ("1", None, true));
    assert!(!other.find(&key, stood[1]).await.unwrap().unwrap().left);
    loop {
        match timeout(LONG, messages.recv()).await.unwrap().unwrap() {
            Message::Said(text) => break assert_eq!(text, "gone"),
            Message::Connected => {}
        }
    }
    // One that has not heard of it takes it for lost.
    let again = Entry { before: Some(stood[0]), ..guarded(1, "1") };
    assert_eq!(enter(&one, &key, &[again]).await, [Entered::Left]);
    assert_eq!(payloads(&batch(&one, &key, 9, None).await), ["2"]);
}

/// A server that was started anew from an old file: its last numbers may have been given out before.
#[tokio::test]
async fn a_server_that_has_started_anew_needs_a_new_epoch() {
    let mut server = RedisServer::with_options(&["--appendonly", "yes"]);
    let config = on(&server);
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    let old = enter_all(&lanes, &key, &[guest(1), guest(2)]).await;
    server.kill();
    server.restart();
    let lanes = process(&config).await;
    let needs = lanes.enter(&key, &TERMS, &[guest(3)]).await.unwrap();
    assert!(matches!(needs, Entering::NeedsEpoch));
    let new = enter_all(&lanes, &key, &[guest(3)]).await[0];
    assert!(new.epoch > old[1].epoch && new.number == 3);
    server.command(&["DEL", "fairlane:slot:{g}:runner:a"]);
    let drawn = batch(&lanes, &key, 9, None).await;
    assert_eq!(drawn.iter().map(|drawee| drawee.again).collect::<Vec<_>>(), [true, true, false]);
}
