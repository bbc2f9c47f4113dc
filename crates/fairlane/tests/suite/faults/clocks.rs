//! Clients whose clocks are wrong.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fairlane::RedisConfig;
use testkit::RedisServer;

use super::in_line;
use crate::child::Child;
use crate::contract::rate_limiter::assert_at_most;
use crate::world::{connect, quick};

/// A library that, loaded before all others, shifts every clock a process reads.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *shift = getenv("CLOCK_SHIFT");
    if (shift) now->tv_sec += atoi(shift);
    return result;
}
"#;

struct Shifter(PathBuf);

impl Shifter {
    fn build() -> Self {
        let folder = std::env::temp_dir().join(format!("fairlane-clock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("shift.c"), SHIFT).unwrap();
        let arguments = ["-shared", "-fPIC", "-o", "shift.so", "shift.c", "-ldl"];
        assert!(Command::new("cc").args(arguments).current_dir(&folder).status().unwrap().success());
        Self(folder)
    }

    fn child(&self, part: &str, url: &str, shift: &str) -> Child {
        let library = self.0.join("shift.so");
        Child::play_with(part, url, &[("LD_PRELOAD", library.to_str().unwrap()), ("CLOCK_SHIFT", shift)])
    }

    /// Seconds since 1970, as a shifted process sees them.
    fn seconds(&self, shift: &str) -> i64 {
        let mut date = Command::new("date");
        date.arg("+%s").env("LD_PRELOAD", self.0.join("shift.so")).env("CLOCK_SHIFT", shift);
        String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Shifter {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// (11) Clients ten minutes apart: served in the order in which they came, and the rate is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_ten_minutes_apart_change_nothing() {
    let shifter = Shifter::build();
    let apart = shifter.seconds("300") - shifter.seconds("-300");
    assert!((590..=610).contains(&apart), "the clocks are not shifted: {apart} s apart");

    let server = RedisServer::start();
    let lock = connect(quick(RedisConfig::single(server.url()))).await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for (number, shift) in ["300", "-300", "0", "300", "-300"].into_iter().enumerate() {
        waiters.push(shifter.child("wait", &server.url(), shift));
        in_line(&lock, number as u64 + 1).await;
    }
    // Long enough for a queue that looks at clients' clocks to have thrown somebody out.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(lock.waiting().await.unwrap(), 5);
    held.release().await.unwrap();
    let mut tokens = Vec::new();
    for waiter in &waiters {
        assert_eq!(waiter.says(), "asking");
        tokens.push(waiter.says_after("granted").parse::<u64>().unwrap());
    }
    assert!(tokens.is_sorted(), "granted in another order than they came: {tokens:?}");

    let processes = ["300", "-300"].map(|shift| shifter.child("rate", &server.url(), shift));
    let mut times = Vec::new();
    for process in &processes {
        process.says_after("ready");
        for _ in 0..34 {
            times.push(process.says_after("passed").parse::<u64>().unwrap());
        }
    }
    times.sort_unstable();
    assert_at_most(&times, 10, Duration::from_secs(1));
}
