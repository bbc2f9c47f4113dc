//! The program as a process of its own, always ended with the test that started it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Client, Guest};

/// A command line of the program, with nothing in its environment that the test did not put there.
pub fn maitred(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
    command.env_clear().current_dir(folder).stdin(Stdio::null());
    command
}

/// The same for a program that may have so many files open.
pub fn maitred_with_files(folder: &Path, files: u32) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_maitred")]);
    command.env_clear().current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    maitred(folder).args(arguments).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one sentence with which a command failed.
#[track_caller]
pub fn complaint(output: &Output, status: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{text}");
    if status == 1 {
        assert!(
            text.starts_with("maitred: ") && text.trim_end().lines().count() == 1,
            "not one line: {text}"
        );
    }
    text
}

/// A running server. Dropping it kills it and waits until it is gone.
pub struct Program {
    child: Child,
    /// Kept open, so that the server never writes into a closed pipe.
    _output: BufReader<ChildStdout>,
    /// What it printed before it served.
    pub greeting: String,
    pub client: Client,
    errors: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; either way it is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Serves on a free port, from this folder; waits until it says that it does.
    pub fn serve(folder: &Path, arguments: &[&str]) -> Self {
        Self::try_serve(folder, arguments).unwrap_or_else(|said| panic!("it did not start: {said}"))
    }

    /// The same, or what it said before it ended.
    pub fn try_serve(folder: &Path, arguments: &[&str]) -> Result<Self, String> {
        Self::try_serve_by(maitred(folder), folder, arguments)
    }

    /// The same with a command that has something in front of the program, or in its environment.
    pub fn try_serve_by(mut command: Command, folder: &Path, arguments: &[&str]) -> Result<Self, String> {
        let errors = folder.join("stderr.log");
        let log = File::options().create(true).append(true).open(&errors).unwrap();
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("serves on http://") {
            if output.read_line(&mut greeting).unwrap() == 0 {
                let _ = child.wait();
                return Err(greeting + &std::fs::read_to_string(&errors).unwrap());
            }
        }
        let address = greeting.split("serves on ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let client = Client::new(address);
        Ok(Self { child, _output: output, greeting, client, errors })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged since its folder was made.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    pub fn terminate(&self) {
        testkit::signal(self.id(), "TERM");
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, for so long at most.
    pub async fn ended_within(mut self, patience: Duration) -> ExitStatus {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            let errors = || std::fs::read_to_string(&self.errors).unwrap_or_default();
            assert!(Instant::now() < deadline, "it has not ended: {}", errors());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// So many guests of the server whose data is in `folder/data`.
pub fn guests(folder: &Path, client: &Client, count: usize) -> Vec<Guest> {
    let tokens = run(folder, &["token", "--count", &count.to_string()]);
    let tokens: Vec<Guest> = stdout(&tokens).lines().map(|token| client.guest(token)).collect();
    assert_eq!(tokens.len(), count);
    tokens
}
