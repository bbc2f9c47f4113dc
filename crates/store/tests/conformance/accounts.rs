//! People with a password.

use store::{Account, AccountError};

use super::world::{World, person, places};

fn account(who: u32, email: &str) -> Account {
    let password_hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".into();
    Account { id: person(who), email: email.into(), name: "김 guest".into(), password_hash }
}

#[tokio::test]
async fn an_address_is_one_account_however_it_is_written() {
    let world = World::new(places(20)).await;
    world.store.add_account(account(1, "Guest@Example.com"), world.now).await.unwrap();
    for taken in ["Guest@Example.com", "guest@example.com", "GUEST@EXAMPLE.COM"] {
        let refused = world.store.add_account(account(2, taken), world.now).await;
        assert!(matches!(refused, Err(AccountError::EmailTaken)), "{taken}");
        let found = world.store.account_by_email(taken.into()).await.unwrap();
        assert_eq!(found, Some(account(1, "Guest@Example.com")), "{taken}");
    }
    world.store.add_account(account(2, "guest2@example.com"), world.now).await.unwrap();
    assert_eq!(world.store.account_by_email("guest3@example.com".into()).await.unwrap(), None);
}
