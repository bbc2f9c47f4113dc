//! Faults on purpose: a simulation switches one on and must find it. They are in its build only.

use std::cell::Cell;

use jiff::SignedDuration;

thread_local! {
    static PRESENT: Cell<Option<&'static str>> = const { Cell::new(None) };
    /// How long a guest has at a provider in worlds that do not last long.
    pub static AT_PROVIDER: Cell<Option<SignedDuration>> = const { Cell::new(None) };
}

/// From now on, this thread's code has this flaw and no other.
pub fn introduce(name: Option<&'static str>) {
    PRESENT.set(name);
}

/// Whether the code has this flaw.
pub fn has(name: &str) -> bool {
    PRESENT.get() == Some(name)
}
