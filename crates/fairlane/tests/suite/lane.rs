//! Lanes in one process: order, sides, fairness, bounds, shutting down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::lane::{Bounds, Lanes, Refused, Side};

const BOUNDS: Bounds = Bounds { lane: 1_000, total: 2_000, batch: 64 };

type Numbers = Lanes<&'static str, u64, ()>;

fn lanes(bounds: Bounds) -> Arc<Numbers> {
    Lanes::new(bounds)
}

async fn draw(lanes: &Arc<Numbers>) -> (&'static str, Vec<u64>) {
    let mut turn = lanes.next().await.unwrap();
    let (batch, _) = turn.draw();
    let key = *turn.key();
    turn.finish(None);
    (key, batch)
}

#[tokio::test]
async fn an_idle_lane_serves_one_and_a_crowd_is_drawn_together() {
    let lanes = lanes(BOUNDS);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    let mut turn = lanes.next().await.unwrap();
    assert_eq!(turn.draw().0, [1]);
    for _ in 0..100 {
        lanes.enter("a", Side::Guest, |n| n).unwrap();
    }
    turn.finish(None);
    assert_eq!(draw(&lanes).await.1, (2..=65).collect::<Vec<_>>());
    assert_eq!(draw(&lanes).await.1, (66..=101).collect::<Vec<_>>());
}

#[tokio::test]
async fn owners_go_first_and_no_guest_passes_one_who_is_left_behind() {
    let lanes = lanes(BOUNDS);
    for _ in 0..10 {
        lanes.enter("a", Side::Guest, |n| n).unwrap();
    }
    for _ in 0..70 {
        lanes.enter("a", Side::Owner, |n| n).unwrap();
    }
    assert_eq!(draw(&lanes).await.1, (11..=74).collect::<Vec<_>>());
    assert_eq!(draw(&lanes).await.1, (75..=80).chain(1..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_hot_lane_does_not_starve_the_others() {
    let lanes = lanes(BOUNDS);
    for _ in 0..200 {
        lanes.enter("hot", Side::Guest, |n| n).unwrap();
    }
    lanes.enter("cold", Side::Guest, |n| n).unwrap();
    let order = [draw(&lanes).await.0, draw(&lanes).await.0, draw(&lanes).await.0];
    assert_eq!(order, ["hot", "cold", "hot"]);
}

#[tokio::test]
async fn past_the_bound_guests_are_refused_and_owners_are_not() {
    let lanes = lanes(Bounds { lane: 2, total: 3, batch: 64 });
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    assert_eq!(lanes.enter("a", Side::Guest, |n| n), Err(Refused::Full { waiting: 2 }));
    lanes.enter("a", Side::Owner, |n| n).unwrap();
    lanes.enter("b", Side::Guest, |n| n).unwrap();
    assert_eq!(lanes.enter("c", Side::Guest, |n| n), Err(Refused::Full { waiting: 0 }));
    assert_eq!(lanes.leave(&"a", 1), Some(1));
    lanes.enter("c", Side::Guest, |n| n).unwrap();
    assert_eq!(lanes.waiting(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_position_counts_down_at_the_measured_pace() {
    let lanes = lanes(BOUNDS);
    for _ in 0..129 {
        lanes.enter("a", Side::Guest, |n| n).unwrap();
    }
    assert_eq!(lanes.position(&"a", 129).unwrap().expected_wait(), None);
    let mut turn = lanes.next().await.unwrap();
    turn.draw();
    tokio::time::advance(Duration::from_secs(2)).await;
    let position = lanes.position(&"a", 129).unwrap();
    assert_eq!((position.ahead, position.waiting), (128, 129), "those being decided are still ahead");
    turn.finish(None);
    let position = lanes.position(&"a", 129).unwrap();
    assert_eq!((position.ahead, position.waiting, position.pace), (64, 65, Some(32.0)));
    assert_eq!(position.expected_wait(), Some(Duration::from_secs_f64(65.0 / 32.0)));
    assert!(lanes.position(&"a", 1).is_none(), "whoever has been drawn has no position");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_runners_never_run_one_lane_twice_at_once_nor_out_of_order() {
    let lanes: Arc<Lanes<u32, u64, u64>> = Lanes::new(BOUNDS);
    let served: Arc<Mutex<HashMap<u32, Vec<u64>>>> = Arc::default();
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let (lanes, served) = (lanes.clone(), served.clone());
            tokio::spawn(async move {
                while let Some(mut turn) = lanes.next().await {
                    let (batch, batches) = turn.draw();
                    tokio::task::yield_now().await;
                    served.lock().unwrap().entry(*turn.key()).or_default().extend(batch);
                    turn.finish(Some(batches.unwrap_or(0) + 1));
                }
            })
        })
        .collect();
    let guests: Vec<_> = (0..8u32)
        .map(|guest| {
            let lanes = lanes.clone();
            tokio::spawn(async move {
                for i in 0..2_000u32 {
                    while lanes.enter((guest + i) % 10, Side::Guest, |n| n).is_err() {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for guest in guests {
        guest.await.unwrap();
    }
    lanes.until_idle().await;
    lanes.close();
    for runner in runners {
        runner.await.unwrap();
    }
    let served = served.lock().unwrap();
    assert_eq!(served.values().map(Vec::len).sum::<usize>(), 16_000);
    for numbers in served.values() {
        assert_eq!(*numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_runner_that_dies_gives_the_lane_back() {
    let lanes = lanes(BOUNDS);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    let mut turn = lanes.next().await.unwrap();
    turn.draw();
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    drop(turn);
    assert_eq!(draw(&lanes).await.1, [2]);
}

#[tokio::test]
async fn closing_ends_every_runner_and_lets_nobody_in() {
    let lanes = lanes(BOUNDS);
    let runner = tokio::spawn({
        let lanes = lanes.clone();
        async move { lanes.next().await.is_none() }
    });
    tokio::task::yield_now().await;
    lanes.close();
    assert!(runner.await.unwrap());
    assert_eq!(lanes.enter("a", Side::Guest, |n| n), Err(Refused::Closed));
}

#[tokio::test(start_paused = true)]
async fn idle_lanes_forget_what_they_know_but_not_their_numbers() {
    let lanes: Arc<Lanes<&str, u64, &str>> = Lanes::new(BOUNDS);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    let mut turn = lanes.next().await.unwrap();
    turn.draw();
    turn.finish(Some("remembered"));
    lanes.retire(Duration::from_secs(60), |_| false);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    let mut turn = lanes.next().await.unwrap();
    assert_eq!(turn.draw(), (vec![2], Some("remembered")));
    turn.finish(Some("remembered"));
    tokio::time::advance(Duration::from_secs(61)).await;
    lanes.retire(Duration::from_secs(60), |_| false);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    let mut turn = lanes.next().await.unwrap();
    assert_eq!(turn.draw(), (vec![3], None));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_lane_gives_no_number_twice() {
    let lanes = lanes(BOUNDS);
    for _ in 0..3 {
        lanes.enter("a", Side::Guest, |n| n).unwrap();
    }
    draw(&lanes).await;
    tokio::time::advance(Duration::from_secs(61)).await;
    lanes.retire(Duration::from_secs(60), |_| true);
    lanes.enter("a", Side::Guest, |n| n).unwrap();
    assert_eq!(draw(&lanes).await.1, [4]);
}
