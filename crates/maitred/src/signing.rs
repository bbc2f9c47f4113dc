//! Access tokens: who somebody is, signed with the server's key.
//!
//! The form is a JWT with one fixed header. The header of a token is compared, never interpreted, so there is no
//! algorithm to talk the server out of.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use booking::PersonId;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// `{"alg":"HS256","typ":"JWT"}`
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
/// A token is short; whatever is longer is not one of ours.
const LONGEST: usize = 1_024;

/// Signs and verifies with one key.
#[derive(Clone)]
pub struct Signer {
    mac: Hmac<Sha256>,
}

/// What an access token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who it is.
    pub sub: PersonId,
    /// What they are called.
    pub name: String,
    /// Until when it is good, in seconds since 1970.
    pub exp: i64,
}

impl Signer {
    /// A signer with this key, of 32 bytes at least.
    pub fn new(key: &[u8]) -> anyhow::Result<Self> {
        ensure!(key.len() >= 32, "the signing key has {} bytes and needs at least 32", key.len());
        Ok(Self { mac: Hmac::new_from_slice(key).context("the signing key is not usable")? })
    }

    /// A signer with a key written as text: base64url of 32 bytes at least.
    pub fn from_text(text: &str) -> anyhow::Result<Self> {
        let key = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('=')).context(
            "the signing key is not base64url; make one with: head -c 32 /dev/urandom | basenc --base64url",
        )?;
        Self::new(&key)
    }

    /// A signer with the key kept in this folder; makes one, readable by its owner only, if there is none.
    pub fn kept_in(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("signing.key");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => keep_new(&path)?,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::from_text(&text)
            .with_context(|| format!("{} is damaged; delete it to sign everybody out", path.display()))
    }

    /// A token for these claims.
    pub fn sign(&self, claims: &Claims) -> String {
        // Claims are two strings and a number: writing them cannot fail.
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).unwrap_or_default());
        let signed = format!("{HEADER}.{payload}");
        let signature =
            URL_SAFE_NO_PAD.encode(self.mac.clone().chain_update(&signed).finalize().into_bytes());
        format!("{signed}.{signature}")
    }

    /// Something of ours to be given away and recognised when it comes back, for one purpose only.
    pub fn seal(&self, purpose: &str, value: &impl Serialize) -> String {
        // What is sealed are our own plain structures: writing them cannot fail.
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).unwrap_or_default());
        let mac = self.mac.clone().chain_update(format!("{purpose}:{payload}"));
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// What was sealed for this purpose, if it was.
    pub fn open<T: DeserializeOwned>(&self, purpose: &str, sealed: &str) -> Option<T> {
        let (payload, signature) = sealed.split_once('.').filter(|_| sealed.len() <= LONGEST)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mac = self.mac.clone().chain_update(format!("{purpose}:{payload}"));
        mac.verify_slice(&signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// The claims of a token that this key signed and that is still good.
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= LONGEST)?;
        let payload = signed.strip_prefix(HEADER)?.strip_prefix('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.mac.clone().chain_update(signed).verify_slice(&signature).ok()?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        (claims.exp > now.as_second()).then_some(claims)
    }
}

fn keep_new(path: &Path) -> anyhow::Result<String> {
    let text = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
            Ok(text)
        }
        // Another process was first: its key is the key.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(std::fs::read_to_string(path)?),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(exp: i64) -> Claims {
        Claims { sub: PersonId(7), name: "한 사람".into(), exp }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_is_good_until_it_expires() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let token = signer.sign(&claims(100));
        assert_eq!(signer.verify(&token, at(99)), Some(claims(100)));
        assert_eq!(signer.verify(&token, at(100)), None);
    }

    #[test]
    fn a_seal_is_good_for_its_purpose_only() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let sealed = signer.seal("move", &7);
        assert_eq!(signer.open::<u32>("move", &sealed), Some(7));
        assert_eq!(signer.open::<u32>("pass", &sealed), None);
        assert_eq!(Signer::new(&[2; 32]).unwrap().open::<u32>("move", &sealed), None);
        assert_eq!(signer.open::<u32>("move", &format!("{sealed}A")), None);
        assert_eq!(signer.verify(&sealed, at(1)), None);
    }

    #[test]
    fn nothing_else_is_a_token() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let token = signer.sign(&claims(100));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        let payload = signed.split_once('.').unwrap().1;
        let other = Signer::new(&[2; 32]).unwrap().sign(&claims(100));
        let forged = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims(999)).unwrap());
        for wrong in [
            String::new(),
            "..".into(),
            signed.into(),
            format!("{signed}."),
            format!("{none}.{payload}."),
            format!("{none}.{payload}.{signature}"),
            format!("{HEADER}.{forged}.{signature}"),
            other,
            format!("{token}{}", "A".repeat(2_000)),
        ] {
            assert_eq!(signer.verify(&wrong, at(1)), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_made_once_and_kept_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let token = Signer::kept_in(folder.path()).unwrap().sign(&claims(100));
        assert!(Signer::kept_in(folder.path()).unwrap().verify(&token, at(1)).is_some());
        let mode = std::fs::metadata(folder.path().join("signing.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(Signer::from_text("short").is_err());
    }
}
