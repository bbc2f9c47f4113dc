//! What every lane promises, driven by real tasks.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod lane;
