//! The rate limiter over several processes.

use std::time::Duration;

use testkit::RedisServer;

use crate::child::Child;
use crate::contract::rate_limiter::assert_at_most;

/// (15) A hundred requests at once from three processes at 10/s: no second has more than ten, and none is wasted.
#[test]
fn ten_a_second_over_three_processes() {
    let server = RedisServer::start();
    let processes: Vec<_> = (0..3).map(|_| Child::play("rate", &server.url())).collect();
    let mut times: Vec<u64> = Vec::new();
    for process in &processes {
        process.says_after("ready");
    }
    for process in &processes {
        for _ in 0..34 {
            times.push(process.says_after("passed").parse().unwrap());
        }
    }
    times.sort_unstable();
    assert_eq!(times.len(), 102);
    assert_at_most(&times, 10, Duration::from_secs(1));
    // 102 requests need ten windows to pass; a limiter that wastes quota would need more.
    let took = Duration::from_micros(times[101] - times[0]);
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(16), "{took:?}");
}
