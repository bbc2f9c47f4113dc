//! Runners that die, answers that get lost, servers that are not there.

use std::collections::HashSet;
use std::time::Duration;

use fairlane::RedisConfig;
use fairlane::lanes::{Drawn, Entering, Message, Settlement};
use testkit::{Proxy, RedisServer};
use tokio::time::{sleep, timeout};

use super::*;

const LEASE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn what_a_dead_runner_had_drawn_is_drawn_again_in_order() {
    let server = RedisServer::start();
    let config = on(&server).with_lane_lease(LEASE);
    let (dead, next, key) = (process(&config).await, process(&config).await, lane("g", "a"));
    enter_all(&dead, &key, &[guest(1), guest(2), owner(3), guest(4), guest(5)]).await;
    assert_eq!(payloads(&batch(&dead, &key, 3, None).await), ["3", "1", "2"]);
    until_true("nobody runs it", async || next.unattended().await.unwrap() == [key.clone()]).await;
    assert!(enter_as(&next, &key, &TERMS, &[owner(6)]).await.1);
    let people = batch(&next, &key, 1, None).await;
    assert_eq!(payloads(&people), ["3", "1", "2"], "as it was drawn, whatever came since");
    assert!(people.iter().all(|drawee| drawee.again));

    // The dead one wakes up: its settlement is of a batch that another has.
    let settle = Settlement { note: "stale".into(), ..Settlement::default() };
    assert!(matches!(dead.draw(&key, 3, Some(&settle)).await.unwrap(), Drawn::Taken));
    dead.give_back(&key, Some(&settle)).await.unwrap();
    assert!(!dead.renew(&key).await.unwrap());
    let Drawn::Batch { people, note } =
        next.draw(&key, 3, Some(&Settlement { note: "new".into(), ..Settlement::default() })).await.unwrap()
    else {
        panic!("three are left")
    };
    assert_eq!((payloads(&people), note.as_deref()), (vec!["6", "4", "5"], Some("new")));
    assert!(people.iter().all(|drawee| !drawee.again));
}

#[tokio::test]
async fn a_runner_that_was_late_and_missed_by_nobody_goes_on() {
    let server = RedisServer::start();
    let config = on(&server).with_lane_lease(LEASE);
    let (lanes, key) = (process(&config).await, lane("g", "a"));
    enter_all(&lanes, &key, &(1..=4).map(guest).collect::<Vec<_>>()).await;
    for (expected, late) in [(["1", "2"], false), (["3", "4"], true)] {
        let people = batch(&lanes, &key, 2, late.then(Settlement::default).as_ref()).await;
        assert_eq!(payloads(&people), expected);
        assert!(people.iter().all(|drawee| !drawee.again), "it was settled");
        until_true("its lease is over", async || !lanes.look(&key).await.unwrap().unwrap().has_runner).await;
    }
    assert!(lanes.renew(&key).await.unwrap());
    lanes.give_back(&key, Some(&Settlement::default())).await.unwrap();
    assert!(matches!(lanes.draw(&key, 2, None).await.unwrap(), Drawn::Nobody));
}

/// Every other answer is lost, and what was asked is asked again: everybody stands in line once, is settled only after the
/// runner has seen it, and counts once against the rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_lose_nobody() {
    const GUESTS: u64 = 600;
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let lanes = process(&unhurried(RedisConfig::single(proxy.url()))).await;
    let key = lane("g", "a");
    let terms = Terms { rate: Some((10_000, LONG)), epoch: Some(new_epoch()), ..TERMS };
    proxy.lose_replies_every(2);
    let entering = async {
        for first in (0..GUESTS).step_by(5) {
            let limited = |n| Entry { limited: true, ..guarded(n, &format!("{n}")) };
            let entries: Vec<_> = (first..first + 5).map(limited).collect();
            loop {
                match lanes.enter(&key, &terms, &entries).await {
                    Ok(Entering::Done { entered, .. }) => break drop(places(&entered)),
                    Ok(Entering::NeedsEpoch) => panic!("it has one"),
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        }
    };
    let running = async {
        let (mut seen, mut pending, mut repeated) = (HashSet::new(), None::<Settlement>, 0);
        while seen.len() < usize::try_from(GUESTS).unwrap() || pending.is_some() {
            match lanes.draw(&key, 7, pending.as_ref()).await {
                Ok(Drawn::Batch { people, .. }) => {
                    repeated += people.iter().filter(|drawee| drawee.again).count();
                    seen.extend(people.iter().map(|drawee| drawee.payload.clone()));
                    let guards = people.iter().map(|drawee| drawee.payload.as_str().into()).collect();
                    pending = Some(Settlement { guards, ..Settlement::default() });
                }
                Ok(Drawn::Nobody) => {
                    pending = None;
                    sleep(Duration::from_millis(1)).await;
                }
                Ok(other) => panic!("{other:?}"),
                Err(_) => sleep(Duration::from_millis(1)).await,
            }
        }
        repeated
    };
    let ((), repeated) =
        timeout(LONG, async { tokio::join!(entering, running) }).await.expect("all are served");
    assert!(repeated > 0 && proxy.replies_lost() > 50, "too few answers were lost to show anything");
    proxy.lose_replies_every(0);
    let look = lanes.look(&key).await.unwrap_or(None);
    let look = match look {
        Some(look) => look,
        None => lanes.look(&key).await.unwrap().unwrap(),
    };
    // Whoever was served before its enter was answered may stand there a second time, with its guard cleared in between.
    assert!(look.last >= GUESTS && look.waiting == 0, "{look:?}");
    let counted = server.command(&["ZCARD", "fairlane:slot:{g}:rate"]).number();
    assert_eq!(u64::try_from(counted), Ok(look.last));
}

#[tokio::test]
async fn a_new_subscription_says_so() {
    let server = RedisServer::start();
    let lanes = process(&on(&server)).await;
    let mut messages = lanes.messages();
    for _ in 0..2 {
        assert!(matches!(timeout(LONG, messages.recv()).await.unwrap(), Some(Message::Connected)));
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
}

#[tokio::test]
async fn a_client_may_start_before_redis() {
    let mut server = RedisServer::start();
    server.kill();
    let config = on(&server).with_call_timeout(Duration::from_millis(500));
    assert!(fairlane::Client::redis(config.clone()).await.is_err(), "the control: not unless asked to");
    let lanes = process(&config.with_connect_later()).await;
    assert!(lanes.ping().await.is_err());
    assert_eq!(lanes.generation(), 0);
    let mut messages = lanes.messages();
    server.restart();
    until_true("Redis answers", async || lanes.ping().await.is_ok()).await;
    assert!(matches!(timeout(LONG, messages.recv()).await.unwrap(), Some(Message::Connected)));
    let generation = lanes.generation();
    enter_all(&lanes, &lane("g", "a"), &[guest(1)]).await;
    server.restart();
    until_true("Redis answers again", async || lanes.ping().await.is_ok()).await;
    assert!(lanes.generation() > generation, "it may be another server");
}

#[tokio::test]
async fn a_silent_redis_costs_one_timeout() {
    let server = RedisServer::start();
    let lanes = process(&on(&server).with_call_timeout(Duration::from_millis(300))).await;
    let key = lane("g", "a");
    enter_all(&lanes, &key, &[guest(1)]).await;
    server.stop();
    let start = std::time::Instant::now();
    assert!(lanes.enter(&key, &TERMS, &[guest(2)]).await.is_err());
    assert!(lanes.ping().await.is_err());
    let took = start.elapsed();
    server.go_on();
    assert!(took < Duration::from_millis(1500), "{took:?}");
}
