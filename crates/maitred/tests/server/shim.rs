//! What is loaded in front of libc into servers of the tests: see `shim.c`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, compiled once.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let library = folder.join(format!("shim-{}.so", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/shim.c");
        let arguments = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"];
        let done =
            Command::new("cc").args(arguments).arg(&library).args([source, "-ldl", "-lpthread"]).output();
        let done = done.expect("there is a C compiler: install the Debian package build-essential");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        library
    })
}

/// A wall clock that can be turned for one process.
pub struct WallClock(PathBuf);

impl WallClock {
    /// A clock that is right, kept in this folder.
    pub fn new(folder: &Path) -> Self {
        let clock = Self(folder.join("clock"));
        std::fs::write(&clock.0, [0; 16]).unwrap();
        clock
    }

    /// Lets a program go by it.
    pub fn worn_by(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("SHIM_CLOCK", &self.0);
    }

    /// Turns it, by so many seconds from what is right.
    pub fn turn(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(&self.0).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// How often somebody has looked at it while it was wrong.
    pub fn looks(&self) -> i64 {
        let kept = std::fs::read(&self.0).unwrap();
        i64::from_ne_bytes(kept[8..16].try_into().unwrap())
    }
}
