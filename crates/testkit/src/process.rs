//! Processes that end with the value that started them.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A child process, killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts it.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        Self { child }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipes and the rest.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends it the hard way, without a chance to clean up, and waits until it is gone.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// If it does not within `patience`.
    pub fn ended(&mut self, patience: Duration) -> ExitStatus {
        let end = Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status;
            }
            assert!(Instant::now() < end, "process {} did not end within {patience:?}", self.id());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Freezes it.
    pub fn stop(&self) {
        signal(self.id(), "STOP");
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        signal(self.id(), "CONT");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal, named without `SIG`, to one process.
///
/// # Panics
/// If there is no such process.
pub fn signal(id: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status();
    assert!(status.is_ok_and(|status| status.success()), "could not send {name} to {id}");
}

/// Waits for a condition.
///
/// # Panics
/// If it does not come true within `patience`.
pub fn until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < end, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
