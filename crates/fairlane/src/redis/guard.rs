//! Claims in Redis.

use std::time::Duration;

use super::Redis;
use super::link::Call;
use super::queue::{answer, padded};
use super::script::script;
use crate::Claim;
use crate::backend::Key;
use crate::error::Result;

script!(CLAIM = "guard_claim.lua");
script!(KEEP = "guard_keep.lua");
script!(CLEAR = "guard_clear.lua");

fn millis(ttl: Duration) -> u128 {
    ttl.as_millis().max(1)
}

impl Redis {
    pub(crate) async fn claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<Claim> {
        let call = Call::new(&CLAIM).key(&key.base, "").arg(owner).arg(millis(ttl));
        let (word, owner, left): (_, Option<String>, Option<u64>) =
            padded(self.shared.link.call(&call).await?)?;
        if word == "claimed" {
            return Ok(Claim::Claimed);
        }
        let remaining = Duration::from_millis(left.unwrap_or_default());
        Ok(Claim::Held { owner: owner.unwrap_or_default(), remaining })
    }

    pub(crate) async fn keep_claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<bool> {
        let call = Call::new(&KEEP).key(&key.base, "").arg(owner).arg(millis(ttl));
        answer(self.shared.link.call(&call).await?)
    }

    pub(crate) async fn clear_claim(&self, key: &Key, owner: &str) -> Result<bool> {
        // A repeated clear finds nothing to clear and says so; the claim is gone either way.
        answer(self.shared.link.call(&Call::new(&CLEAR).key(&key.base, "").arg(owner)).await?)
    }
}
