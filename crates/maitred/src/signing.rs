//! Tokens: who somebody is, and which place in a waiting room is theirs, signed with the server's keys.
//!
//! The form is a JWT with one fixed header for each key. The header of a token is compared, never interpreted, so there is
//! no algorithm to talk the server out of. Each kind of token says what it is for, so none is taken for another.
//!
//! The newest key signs. The one before it still verifies, so that a key can be replaced while tokens are out.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use booking::{PersonId, VenueId};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A token is short; whatever is longer is not one of ours.
const LONGEST: usize = 1_024;
/// Keys that are good at the same time: the one that signs, and the one before.
pub const KEYS: usize = 2;

/// Signs with one key, and verifies with that and the one before.
#[derive(Clone)]
pub struct Signer {
    /// The newest first; there is at least one.
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    /// The header of every token that it signs, which names it.
    header: String,
    mac: Hmac<Sha256>,
}

/// What a token says.
pub trait Claim: Serialize + DeserializeOwned {
    /// What it is for: a token for one thing is none for another.
    const PURPOSE: &'static str;

    /// Whether it is good at this second.
    fn is_good_at(&self, second: i64) -> bool;
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

impl Claim for Claims {
    const PURPOSE: &'static str = "access";

    fn is_good_at(&self, second: i64) -> bool {
        second < self.exp
    }
}

/// What the token of a waiting room says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueClaims {
    /// Whose place it is.
    pub sub: PersonId,
    /// In front of which venue.
    pub venue: VenueId,
    /// In which of its openings.
    pub opening: i64,
    /// The place, once it has a number.
    pub number: Option<u64>,
    /// When it was made out, in seconds since 1970.
    pub iat: i64,
    /// From when on it is good.
    pub nbf: i64,
    /// Until when.
    pub exp: i64,
}

impl Claim for QueueClaims {
    const PURPOSE: &'static str = "queue";

    fn is_good_at(&self, second: i64) -> bool {
        self.nbf <= second && second < self.exp
    }
}

/// Claims with what they are for, as they are written.
#[derive(Serialize, Deserialize)]
struct Stamped<C> {
    aud: String,
    #[serde(flatten)]
    claims: C,
}

impl Key {
    fn new(key: &[u8]) -> anyhow::Result<Self> {
        ensure!(key.len() >= 32, "the signing key has {} bytes and needs at least 32", key.len());
        let name = URL_SAFE_NO_PAD.encode(&Sha256::digest(key)[..6]);
        let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{name}","typ":"JWT"}}"#));
        Ok(Self { header, mac: Hmac::new_from_slice(key).context("the signing key is not usable")? })
    }
}

impl Signer {
    /// A signer with this key, of 32 bytes at least.
    pub fn new(key: &[u8]) -> anyhow::Result<Self> {
        Self::with_keys([key])
    }

    /// A signer with these keys, the newest first.
    pub fn with_keys<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> anyhow::Result<Self> {
        let keys = keys.into_iter().take(KEYS).map(|key| Key::new(key.as_ref()));
        let keys = keys.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!keys.is_empty(), "there is no signing key");
        Ok(Self { keys })
    }

    /// A signer with keys written as text: base64url of 32 bytes at least, the newest first, with commas or lines between.
    pub fn from_text(text: &str) -> anyhow::Result<Self> {
        let keys = text.split([',', '\n']).map(str::trim).filter(|key| !key.is_empty());
        let keys = keys.map(|key| {
            URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).context(
                "the signing key is not base64url; make one with: head -c 32 /dev/urandom | basenc --base64url",
            )
        });
        Self::with_keys(keys.collect::<anyhow::Result<Vec<_>>>()?)
    }

    /// A signer with the keys kept in this folder; makes one, readable by its owner only, if there is none.
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
    pub fn sign<C: Claim>(&self, claims: &C) -> String {
        let stamped = Stamped { aud: C::PURPOSE.into(), claims };
        // Claims are texts and numbers: writing them cannot fail.
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&stamped).unwrap_or_default());
        let key = &self.keys[0];
        let signed = format!("{}.{payload}", key.header);
        let signature = URL_SAFE_NO_PAD.encode(key.mac.clone().chain_update(&signed).finalize().into_bytes());
        format!("{signed}.{signature}")
    }

    /// Whether this token says that one of these keys signed it.
    pub fn knows(&self, token: &str) -> bool {
        self.keys.iter().any(|key| token.strip_prefix(&key.header).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The claims of a token that one of these keys signed, that is for this, and that is good now.
    pub fn verify<C: Claim>(&self, token: &str, now: Timestamp) -> Option<C> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= LONGEST)?;
        let (header, payload) = signed.split_once('.')?;
        let key = self.keys.iter().find(|key| key.header == header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        key.mac.clone().chain_update(signed).verify_slice(&signature).ok()?;
        let stamped: Stamped<C> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        (stamped.aud == C::PURPOSE && stamped.claims.is_good_at(now.as_second())).then_some(stamped.claims)
    }
}

/// Puts a new key in front of those kept in this folder. A crash leaves either the old ones or the new.
pub fn rotate_in(folder: &Path) -> anyhow::Result<()> {
    Signer::kept_in(folder)?;
    let path = folder.join("signing.key");
    let before = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let newest = before.lines().map(str::trim).find(|key| !key.is_empty()).unwrap_or_default();
    let text = format!("{}\n{newest}\n", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
    let beside = folder.join("signing.key.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    std::fs::rename(&beside, &path).with_context(|| format!("cannot write {}", path.display()))
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
        assert_eq!(signer.verify::<Claims>(&token, at(100)), None);
    }

    #[test]
    fn nothing_else_is_a_token() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let token = signer.sign(&claims(100));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        let payload = signed.split_once('.').unwrap().1;
        let other = Signer::new(&[2; 32]).unwrap().sign(&claims(100));
        let header = signed.split_once('.').unwrap().0;
        let forged = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims(999)).unwrap());
        for wrong in [
            String::new(),
            "..".into(),
            signed.into(),
            format!("{signed}."),
            format!("{none}.{payload}."),
            format!("{none}.{payload}.{signature}"),
            format!("{header}.{forged}.{signature}"),
            other,
            format!("{token}{}", "A".repeat(2_000)),
        ] {
            assert_eq!(signer.verify::<Claims>(&wrong, at(1)), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_made_once_and_kept_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let token = Signer::kept_in(folder.path()).unwrap().sign(&claims(100));
        assert!(Signer::kept_in(folder.path()).unwrap().verify::<Claims>(&token, at(1)).is_some());
        let mode = std::fs::metadata(folder.path().join("signing.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(Signer::from_text("short").is_err());
    }

    fn queue(nbf: i64, exp: i64) -> QueueClaims {
        let (sub, venue) = (PersonId(7), VenueId(3));
        QueueClaims { sub, venue, opening: 1, number: Some(41), iat: nbf, nbf, exp }
    }

    #[test]
    fn a_token_for_one_thing_is_none_for_another() {
        let signer = Signer::new(&[1; 32]).unwrap();
        let (access, place) = (signer.sign(&claims(100)), signer.sign(&queue(10, 100)));
        assert_eq!(signer.verify(&place, at(10)), Some(queue(10, 100)));
        assert_eq!(signer.verify::<QueueClaims>(&place, at(9)), None, "not yet");
        assert_eq!(signer.verify::<QueueClaims>(&place, at(100)), None, "not any more");
        assert_eq!(signer.verify::<QueueClaims>(&access, at(10)), None);
        assert_eq!(signer.verify::<Claims>(&place, at(10)), None);
    }

    #[test]
    fn a_key_is_good_for_one_rotation_more() {
        let folder = tempfile::tempdir().unwrap();
        let signer = || Signer::kept_in(folder.path()).unwrap();
        let first = signer().sign(&claims(100));
        rotate_in(folder.path()).unwrap();
        let second = signer().sign(&claims(100));
        assert!(signer().verify::<Claims>(&first, at(1)).is_some());
        assert_ne!(first, second);
        rotate_in(folder.path()).unwrap();
        assert!(signer().verify::<Claims>(&second, at(1)).is_some());
        assert_eq!(signer().verify::<Claims>(&first, at(1)), None);
        assert!(signer().knows(&second) && !signer().knows(&first));
    }
}
