//! How little lanes take, and leave behind.

use std::time::Duration;

use fairlane::lanes::{Drawn, Place, Settlement};
use testkit::RedisServer;

use super::*;

/// Keys without an end.
fn endless(server: &RedisServer) -> Vec<String> {
    let endless = |key: &String| server.command(&["PTTL", key]).number() < 0;
    keys(server).into_iter().filter(endless).collect()
}

#[tokio::test]
async fn every_key_ends_and_an_empty_lane_leaves_little() {
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server)).await, lane("g", "a"));
    let terms = Terms { rate: Some((100, Duration::from_secs(1))), ..TERMS };
    let entry =
        |n: u64| Entry { claim: Some(format!("{n}").into()), limited: true, ..guarded(n, &format!("{n}")) };
    let (entered, _) = enter_as(&lanes, &key, &terms, &(1..=6).map(entry).collect::<Vec<_>>()).await;
    enter_all(&lanes, &key, &[owner(7), guest(8), owner(9), back(10, Place { epoch: 1, number: 1 })]).await;
    assert!(lanes.leave(&key, places(&entered)[3], Some("4"), Some("4"), None).await.unwrap());
    batch(&lanes, &key, 1, None).await;
    assert_eq!(endless(&server), [""; 0]);
    let lane_keys = ["flight", "gone", "guards", "guests", "lane", "old", "owners", "runner"];
    for part in lane_keys {
        let name = format!("fairlane:slot:{{g}}:{part}:a");
        assert!(keys(&server).contains(&name), "{name} is part of what was tried");
        if part != "runner" {
            server.command(&["PEXPIRE", &name, "5000"]);
        }
    }
    lanes.look(&key).await.unwrap();
    for part in lane_keys.iter().filter(|part| **part != "runner") {
        let left = server.command(&["PTTL", &format!("fairlane:slot:{{g}}:{part}:a")]).number();
        assert!((590_000..=600_000).contains(&left), "{part}: {left}");
    }

    let names = || (1..=6).map(|n| format!("{n}").into());
    batch(&lanes, &key, 100, Some(&Settlement::default())).await;
    let settle = Settlement {
        guards: names().collect(),
        claims: names().collect(),
        kept: vec![("1".into(), places(&entered)[0])],
        keep: Duration::from_secs(30),
        ..Settlement::default()
    };
    assert!(matches!(lanes.draw(&key, 1, Some(&settle)).await.unwrap(), Drawn::Nobody));
    let base = "fairlane:slot:{g}";
    let expected = [
        format!("{base}:after:a"),
        format!("{base}:kept:a"),
        format!("{base}:lane:a"),
        format!("{base}:rate"),
    ];
    let left = keys(&server).into_iter().filter(|key| !key.contains(":left:")).collect::<Vec<_>>();
    assert_eq!(left[1..], expected);
    assert_eq!(left[0], "fairlane:slot:groups");
    assert_eq!(endless(&server), [""; 0]);
    assert!(server.command(&["PTTL", &expected[2]]).number() <= 300_000);
    // Looking at an empty lane does not keep it.
    server.command(&["PEXPIRE", &expected[2], "5000"]);
    lanes.look(&key).await.unwrap().unwrap();
    assert!(server.command(&["PTTL", &expected[2]]).number() <= 5000);
}

#[tokio::test]
async fn a_lane_that_everybody_leaves_is_empty() {
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server)).await, lane("g", "a"));
    let entered = enter_all(&lanes, &key, &[guarded(1, "ann"), guest(2)]).await;
    for place in entered {
        assert!(lanes.leave(&key, place, None, None, None).await.unwrap());
    }
    let left = ["fairlane:slot:groups", "fairlane:slot:{g}:lane:a"];
    let of_lane = || keys(&server).into_iter().filter(|key| !key.contains(":left:")).collect::<Vec<_>>();
    assert_eq!(of_lane(), [left[0], left[1], "fairlane:slot:{g}:runner:a"]);
    assert!(matches!(lanes.draw(&key, 1, None).await.unwrap(), Drawn::Nobody));
    assert_eq!(of_lane(), left);
    let next = enter_all(&lanes, &key, &[guarded(3, "ann")]).await[0];
    assert_eq!(next.number, 3);
}

#[tokio::test]
async fn a_ticket_in_line_takes_less_than_400_bytes() {
    const TICKETS: u64 = 10_000;
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server)).await, lane("g", "a"));
    for first in (0..TICKETS).step_by(250) {
        let entry = |n: u64| Entry {
            request: u64::MAX - n,
            payload: "x".repeat(190),
            ..guarded(n, &format!("guest-{n:012}"))
        };
        enter_all(&lanes, &key, &(first..first + 250).map(entry).collect::<Vec<_>>()).await;
    }
    let used = |part: &str| {
        let key = format!("fairlane:slot:{{g}}:{part}:a");
        server.command(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).number()
    };
    let (guests, guards) = (used("guests"), used("guards"));
    let each = u64::try_from(guests + guards).unwrap() / TICKETS;
    assert!(each > 190 && each < 400, "{each} bytes: {guests} for the line, {guards} for guards");
}

#[tokio::test]
async fn every_call_is_one_script() {
    let server = RedisServer::start();
    let (lanes, key) = (process(&on(&server)).await, lane("g", "a"));
    let everything_once = async || {
        let entered = enter(&lanes, &key, &(1..=64).map(guest).collect::<Vec<_>>()).await;
        let entered = places(&entered);
        lanes.look(&key).await.unwrap();
        lanes.find(&key, entered[9]).await.unwrap();
        lanes.leave(&key, entered[9], None, None, None).await.unwrap();
        lanes.waiting("g", &["a".into()]).await.unwrap();
        lanes.renew(&key).await.unwrap();
        batch(&lanes, &key, 10, None).await;
        assert_eq!(batch(&lanes, &key, 100, Some(&Settlement::default())).await.len(), 53);
        assert!(matches!(lanes.draw(&key, 1, Some(&Settlement::default())).await.unwrap(), Drawn::Nobody));
    };
    everything_once().await;
    let scripts = || server.calls("evalsha") + server.calls("eval");
    let before = scripts();
    for _ in 0..10 {
        everything_once().await;
    }
    assert_eq!(scripts() - before, 90);
}
