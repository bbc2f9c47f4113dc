//! A Lua script and its hash.

use std::sync::LazyLock;

use ::redis::{Cmd, cmd};

/// Sent by hash; by text only to a server that does not know it.
pub(super) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

impl Script {
    pub(super) const fn new(text: &'static str, hash: fn() -> String) -> Self {
        Self { text, hash: LazyLock::new(hash) }
    }

    pub(super) fn by_hash(&self) -> Cmd {
        let mut command = Cmd::with_capacity(28, 640);
        command.arg("EVALSHA").arg(self.hash.as_str());
        command
    }

    pub(super) fn by_text(&self) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.text);
        command
    }
}

pub(super) fn hash(text: &str) -> String {
    ::redis::Script::new(text).get_hash().to_owned()
}

/// Declares a script from files beside the caller, one after the other.
macro_rules! script {
    ($name:ident = $($file:literal)+) => {
        static $name: $crate::redis::script::Script = {
            const TEXT: &str = concat!($(include_str!($file), "\n"),+);
            $crate::redis::script::Script::new(TEXT, || $crate::redis::script::hash(TEXT))
        };
    };
}
pub(super) use script;
